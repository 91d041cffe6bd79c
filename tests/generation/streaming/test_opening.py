from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from tests.live_server import LiveServer

pytestmark = pytest.mark.servers


@pytest.mark.timeout(120)
async def test_all_are_answered_when_two_hundred_ask_at_the_same_moment(server: LiveServer) -> None:
    body = json.dumps({"model": "default", "messages": [{"role": "user", "content": "hi"}], "stream": True}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    ).encode()

    async def ask() -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head + body)
        answer = await reader.read()
        writer.close()
        return answer.split(b"\r\n", 1)[0].decode() if b"[DONE]" in answer else answer.decode()

    assert Counter(await asyncio.gather(*(ask() for _ in range(200)))) == {"HTTP/1.1 200 OK": 200}
