"""Who is calling: a logged-in user, an API key's user, a browser session of the local demo, or nobody.

Every object is looked up through the owner found here. `/v1` goes by its key only and ignores cookies; the page relies
on session and CSRF.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.http import HttpRequest
from django.utils import timezone

from generation.access import authenticate, check_tokens, count_request
from generation.exceptions import AuthenticationError
from generation.models import ApiKey
from generation.streaming.openers import in_opener


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The owner of what a request makes and reads; ``api_key_id`` only where a key was sent."""

    user: AbstractBaseUser | AnonymousUser
    session_key: str = ""
    api_key_id: int | None = None
    address_class: str

    @property
    def user_id(self) -> int | None:
        return self.user.pk if self.user.is_authenticated else None


async def api_caller(request: HttpRequest) -> Caller:
    """The caller of an API route: whose key it is, or nobody in the local demo. Cookies do not matter.

    Raises AuthenticationError (also for a wrong key in the demo), and RateLimitError when the key's requests of this
    minute or its tokens of this day are used up.
    """
    sent = _sent_key(request)
    if sent is not None:
        key = await in_opener(_admitted_key, sent)
        return Caller(user=key.user, api_key_id=key.pk, address_class=address_class(request))
    if not _is_local_demo(request):
        raise AuthenticationError(
            "This server needs an API key: send it as 'Authorization: Bearer KEY'. Anonymous use is for the demo on "
            "the machine itself.",
            code="missing_api_key",
        )
    return Caller(user=AnonymousUser(), address_class=address_class(request))


def page_caller(request: HttpRequest) -> Caller:
    """The caller of a page; an anonymous one gets a session of its own. Raises AuthenticationError.

    Synchronous, because the session and the user are rows.
    """
    user = request.user
    if user.is_authenticated:
        return Caller(user=user, address_class=address_class(request))
    if not _is_local_demo(request):
        raise AuthenticationError("Log in to chat here.", code="not_logged_in")
    if not request.session.session_key:
        request.session.create()
    return Caller(user=user, session_key=request.session.session_key or "", address_class=address_class(request))


def address_class(request: HttpRequest) -> str:
    """``loopback``, ``private`` or ``public``; the address itself is not kept. Empty for a Unix socket."""
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return ""
    if address.is_loopback:
        return "loopback"
    return "private" if address.is_private else "public"


def _sent_key(request: HttpRequest) -> str | None:
    """What the client sent as its key; None for nothing. An empty key is what clients send that must send one."""
    scheme, _, key = request.headers.get("Authorization", "").strip().partition(" ")
    if not scheme or (scheme.lower() == "bearer" and not key.strip()):
        return None
    if scheme.lower() != "bearer":
        raise AuthenticationError("The Authorization header must be 'Bearer KEY' with an API key of this server.")
    return key.strip()


def _admitted_key(sent: str) -> ApiKey:
    """The key, if it may make this request now. Runs in an opener: the request's own thread would have to connect."""
    key = authenticate(sent)
    now = timezone.now()
    count_request(key, now=now)
    check_tokens(key, now=now)
    return key


def _is_local_demo(request: HttpRequest) -> bool:
    """Anonymous use is allowed, and the request comes from this machine (its Host header was checked by Django)."""
    return settings.STREAMSITE_ANONYMOUS and settings.DEBUG and address_class(request) == "loopback"
