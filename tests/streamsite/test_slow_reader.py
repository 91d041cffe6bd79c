"""A client that stops reading, over a real socket: its own stream ends in time, and nobody else's is slower."""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path

import pytest

from tests.live_server import live_server, wait_until
from tests.sse_client import chat

pytestmark = pytest.mark.servers

BODY = json.dumps({"model": "scripted-flood", "messages": [{"role": "user", "content": "hi"}], "stream": True})


async def test_stream_ends_by_timeout_when_its_client_stops_reading(tmp_path: Path) -> None:
    with live_server(tmp_path, STREAMSITE_SLOW_READER_S="0.5") as server, contextlib.closing(socket.socket()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port))
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        client.sendall(f"{head}Content-Length: {len(BODY)}\r\n\r\n{BODY}".encode("ascii"))
        assert client.recv(12) == b"HTTP/1.1 200"

        async with await chat(server.base_url, model="scripted") as response:
            said = [chunk["choices"][0]["delta"].get("content", "") for chunk in await response.chunks()]
        assert "".join(said) == "Hello, world!"

        ended = "SELECT state, stop_reason FROM generation_stream WHERE model = 'scripted-flood' AND state != 'running'"
        wait_until(lambda: bool(server.rows(ended)), timeout_s=20, what="the stream to end")
        assert server.rows(ended) == [{"state": "failed", "stop_reason": "timeout"}]
        assert server.get("/readyz")[1]["streams"] == 0
