"""Event streams as responses: what must hold before their first frame is read, and what middleware may not do."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.core.handlers.asgi import ASGIHandler, ASGIRequest
from django.db import connections
from django.http.response import HttpResponseBase
from django.test import AsyncClient
from django.utils.decorators import async_only_middleware

from generation.models import Stream
from generation.recording import get_writer
from generation.streaming import live

pytestmark = pytest.mark.django_db(transaction=True)

BODY = json.dumps({"model": "scripted-slow", "messages": [{"role": "user", "content": "hi"}], "stream": True}).encode()


@async_only_middleware
def hold_back(get_response: Callable[[ASGIRequest], Awaitable[HttpResponseBase]]) -> Any:
    """Middleware that never hands the response on."""

    async def hold(request: ASGIRequest) -> HttpResponseBase:
        response = await get_response(request)
        request.scope["held"].set()
        await asyncio.Event().wait()
        return response

    return hold


async def test_generation_ends_at_once_when_the_client_leaves_before_the_first_frame(settings: Any) -> None:
    settings.MIDDLEWARE = [f"{__name__}.hold_back"]
    held = asyncio.Event()
    scope = {
        "type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b"", "server": None,
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")], "client": ["127.0.0.1", 5],
        "held": held,
    }  # fmt: skip
    application = ApplicationCommunicator(ASGIHandler(), scope)
    await application.send_input({"type": "http.request", "body": BODY})
    await asyncio.wait_for(held.wait(), 5)
    assert len(live) == 1
    await application.send_input({"type": "http.disconnect"})
    await application.wait(5)
    assert len(live) == 0
    assert await asyncio.to_thread(get_writer().flush)
    assert [stream.stop_reason async for stream in Stream.objects.all()] == ["client_disconnect"]


async def test_frames_are_not_compressed_when_the_middleware_compresses(settings: Any) -> None:
    settings.MIDDLEWARE = ["django.middleware.gzip.GZipMiddleware"]
    body = {"model": "default", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    response = await AsyncClient().post(
        "/v1/chat/completions", json.dumps(body), content_type="application/json", headers={"accept-encoding": "gzip"}
    )
    pieces = [piece async for piece in response.streaming_content]
    response.close()
    assert response["content-encoding"] == "identity"
    assert pieces[-1] == b"data: [DONE]\n\n"


async def test_database_that_is_busy_is_a_503_to_try_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another process holds the write lock for longer than this one waits.
    name = connections.settings["default"]["NAME"]
    await sync_to_async(connections.close_all)()
    options = connections.settings["default"]["OPTIONS"]
    monkeypatch.setitem(options, "init_command", "PRAGMA busy_timeout=50")
    holder = sqlite3.connect(name, isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        body = {"model": "default", "messages": [{"role": "user", "content": "hi"}]}
        response = await AsyncClient().post("/v1/chat/completions", json.dumps(body), content_type="application/json")
    finally:
        holder.close()
        monkeypatch.undo()
        await sync_to_async(connections.close_all)()
    assert (response.status_code, response["Retry-After"]) == (503, "1")
    assert response.json()["error"]["code"] == "database_unavailable"
    assert len(live) == 0
