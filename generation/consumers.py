"""The websocket of the live page: sends what `broadcast` knows, at most twice a second, and takes nothing.

Open to staff who may view streams, from pages of this very site; their rights are read again while it is open. The
text of streams is for those who may see it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass
from http.cookies import CookieError
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user
from django.contrib.contenttypes.models import ContentType
from django.db import close_old_connections
from django.http import HttpRequest, parse_cookie
from django.http.request import split_domain_port, validate_host
from django.utils import timezone

from generation.admin.content_access import LOGGED_ONCE_IN, VIEWED
from generation.broadcast import hub
from generation.models import Stream

logger = logging.getLogger(__name__)

SHORTEST_INTERVAL_S = 0.5
#: Something is sent this often even if nothing changes, so that the page can tell a dead connection from a quiet one.
LONGEST_INTERVAL_S = 5.0
#: How `streamsite.drain` says that this process goes.
SERVER_ENDS = 1012
#: Close codes (daphne takes no standard ones). The page gives up without rights, and comes back after all others.
RESTART, NO_RIGHTS, NOTHING_TO_SAY, FAULT = 4503, 4403, 4400, 4500


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """A viewer; ``content``: the text of streams may be shown."""

    user_id: int
    content: bool


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """One open live page."""

    # What goes over the layer is the hub's.
    channel_layer_alias = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self._sender: asyncio.Task[None] | None = None
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._end_sender()

    async def connect(self) -> None:
        self._session_key = session_key_of(self.scope)
        rights = await read_rights(self._session_key) if is_same_origin(self.scope) else None
        if rights is None:
            await self.close()  # before it was accepted: 403
            return
        if rights.content:
            await log_viewing(rights.user_id)
        await self.accept()
        self._sender = asyncio.create_task(self._send_news(rights))

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        await self._end_sender()
        await self.close(NOTHING_TO_SAY)

    async def disconnect(self, code: int) -> None:
        await self._end_sender()
        if code == SERVER_ENDS:
            # The viewer is still there.
            await self.close(RESTART)

    async def _send_news(self, rights: Rights | None) -> None:
        try:
            with hub.viewing():
                while rights is not None:
                    rights = await self._send_while(rights)
            await self.close(NO_RIGHTS)
        except OSError:
            return  # the viewer has gone; `disconnect` follows
        except Exception:
            logger.exception("The live page of user %s failed.", rights and rights.user_id)
            with contextlib.suppress(Exception):
                await self.close(FAULT)

    async def _send_while(self, rights: Rights) -> Rights | None:
        """Send until the rights are to be read again; returns them."""
        check_at = time.monotonic() + settings.STREAMSITE_RIGHTS_CHECK_S
        sent, sent_at = "", 0.0
        while (now := time.monotonic()) < check_at:
            text = hub.text(content=rights.content)
            if text != sent or now - sent_at >= LONGEST_INTERVAL_S:
                await self.send(text_data=text)
                sent, sent_at = text, now
            await asyncio.sleep(SHORTEST_INTERVAL_S)
        return await read_rights(self._session_key)

    async def _end_sender(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None and sender is not asyncio.current_task():
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)


async def refuse(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """The answer to a websocket on any other path: 403."""
    await receive()
    await send({"type": "websocket.close"})


def session_key_of(scope: dict[str, Any]) -> str:
    """The session that the browser's cookie names, or nothing."""
    with contextlib.suppress(CookieError):
        return str(parse_cookie(_header(scope, b"cookie")).get(settings.SESSION_COOKIE_NAME, ""))
    return ""


def is_same_origin(scope: dict[str, Any]) -> bool:
    """Whether the page is of this site: scheme, host and port of its Origin are those it was asked by, or trusted.

    A websocket is sent with the cookies of its site from any page, so this is all that keeps a stranger's page out.
    """
    origin, host = _header(scope, b"origin"), _header(scope, b"host")
    if not validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS or []):
        return False
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    secure = scope.get("scheme") == "wss"
    if settings.SECURE_PROXY_SSL_HEADER:
        name, value = settings.SECURE_PROXY_SSL_HEADER
        secure = secure or _header(scope, name.removeprefix("HTTP_").replace("_", "-").lower().encode()) == value
    scheme = "https" if secure else "http"
    return _whole(origin) == _whole(f"{scheme}://{host}") is not None


async def read_rights(session_key: str) -> Rights | None:
    """The viewer's rights as they are now, None for whoever may not (any longer) see the page."""
    return await sync_to_async(_read_rights, thread_sensitive=False)(session_key)


async def log_viewing(user_id: int) -> None:
    """Note in the admin's log that somebody watches the text of streams."""
    await sync_to_async(_log_viewing, thread_sensitive=False)(user_id)


def _read_rights(session_key: str) -> Rights | None:
    if not session_key:
        return None
    try:
        request = HttpRequest()
        request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
        user = get_user(request)
        if not (user.is_active and user.is_staff and user.has_perm("generation.view_stream")):
            return None
        return Rights(user_id=user.pk, content=user.has_perm("generation.view_stream_content"))
    finally:
        close_old_connections()


def _log_viewing(user_id: int) -> None:
    """Once an hour for each viewer: a connection that comes and goes is one view."""
    entry = {
        "user_id": user_id,
        "content_type": ContentType.objects.get_for_model(Stream),
        "object_repr": "live page",
        "action_flag": VIEWED,
        "change_message": "Watched the text of running streams.",
    }
    try:
        if not LogEntry.objects.filter(**entry, action_time__gt=timezone.now() - LOGGED_ONCE_IN).exists():
            LogEntry.objects.create(**entry)
    finally:
        close_old_connections()


def _header(scope: dict[str, Any], name: bytes) -> str:
    return next((bytes(value).decode("latin-1") for key, value in scope["headers"] if key == name), "")


def _whole(origin: str) -> tuple[str, str, int] | None:
    """Scheme, host and port, the scheme's own port filled in; None for what is no origin."""
    try:
        parts = urlsplit(origin)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    return (parts.scheme, parts.hostname, port) if parts.hostname and port else None
