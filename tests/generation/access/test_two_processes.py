"""One key, two server processes, one database: the limits hold for both together."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from tests.live_server import LiveServer, live_server, wait_until
from tests.sse_client import RawResponse, send

pytestmark = pytest.mark.servers

BODY = {"model": "scripted-slow", "messages": [{"role": "user", "content": "hi"}], "stream": True}
RUNNING = "SELECT id FROM generation_stream WHERE state = 'running'"


async def ask(server: LiveServer, key: str) -> RawResponse:
    headers = {"Authorization": f"Bearer {key}"}
    return await send(server.base_url, "POST", "/v1/chat/completions", body=BODY, headers=headers)


async def test_so_many_streams_are_open_at_once_when_both_are_asked_together(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with (
        live_server(tmp_path) as one,
        live_server(tmp_path / "other", DATABASE_URL=f"sqlite:///{one.database}") as other,
    ):
        one.manage("shell", "-c", "from django.contrib.auth.models import User; User.objects.create(username='ada')")
        key = one.manage("create_api_key", "--user", "ada", "--name", "x", "--max-streams", "4").strip()
        for _ in range(2):
            async with contextlib.AsyncExitStack() as stack:
                responses = await asyncio.gather(*(ask(server, key) for server in (one, other) * 6))
                for response in responses:
                    await stack.enter_async_context(response)
                assert sorted(response.status for response in responses) == [200] * 4 + [429] * 8
                refused = [response for response in responses if response.status == 429]
                assert {response.headers["retry-after"] for response in refused} == {"1"}
            await asyncio.to_thread(wait_until, lambda: one.rows(RUNNING) == [], what="the streams to end")
        rows = one.rows("SELECT DISTINCT api_key_id, user_id, stop_reason FROM generation_stream")
        assert rows == [{"api_key_id": 1, "user_id": 1, "stop_reason": "client_disconnect"}]
