"""How long a body may be and may take, by ASGI messages and through real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from streamsite.body_limit import BodyLimit
from tests.live_server import LiveServer, live_server
from tests.sse_client import RawResponse, send

LIMIT = 10


class Exchange:
    """An application that reads its body whole, as Django does, and the messages around it."""

    def __init__(self, *pieces: bytes, headers: dict[bytes, bytes] | None = None, ends: bool = True) -> None:
        self.scope = {"type": "http", "headers": list((headers or {}).items())}
        self.pieces = list(pieces)
        self.ends = ends
        self.read = b""
        self.answered = False
        self.sent: list[dict[str, Any]] = []

    async def run(self) -> None:
        async with asyncio.timeout(5):
            await BodyLimit(self.application)(self.scope, self.receive, self.send)

    async def application(self, scope: Any, receive: Any, send: Any) -> None:
        while True:
            message = await receive()
            self.read += message["body"]
            if not message["more_body"]:
                break
        self.answered = True
        assert (await receive())["type"] == "http.disconnect"

    async def receive(self) -> dict[str, Any]:
        if not self.pieces:
            if self.answered:
                await asyncio.sleep(0.1)  # a reader that stays longer than a body may take
                return {"type": "http.disconnect"}
            await asyncio.Event().wait()
        piece = self.pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(self.pieces) or not self.ends}

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def error(self) -> dict[str, Any]:
        body = b"".join(message["body"] for message in self.sent[1:])
        found: dict[str, Any] = json.loads(body)["error"]
        assert dict(self.sent[0]["headers"])[b"content-length"] == str(len(body)).encode()
        assert dict(self.sent[0]["headers"])[b"connection"] == b"close"
        assert [message.get("more_body") for message in self.sent[1:]][-1] is False
        return found


@pytest.fixture(autouse=True)
def _small_limits(request: pytest.FixtureRequest) -> Iterator[None]:
    if "server" in request.fixturenames or request.node.get_closest_marker("servers"):
        yield
        return
    settings = request.getfixturevalue("settings")
    settings.STREAMSITE_MAX_BODY_BYTES, settings.STREAMSITE_BODY_TIMEOUT_S = LIMIT, 0.05
    yield


@pytest.mark.parametrize(
    ("pieces", "headers"),
    [
        pytest.param([b""], {}, id="no body"),
        pytest.param([b"0123456789"], {b"content-length": b"10"}, id="declared"),
        pytest.param([b"01234", b"", b"56789", b""], {}, id="chunked"),
    ],
)
async def test_body_comes_through_when_it_is_as_long_as_it_may_be(
    pieces: list[bytes], headers: dict[bytes, bytes]
) -> None:
    exchange = Exchange(*pieces, headers=headers)
    await exchange.run()
    assert (exchange.read, exchange.answered, exchange.sent) == (b"".join(pieces), True, [])


@pytest.mark.parametrize(
    ("pieces", "headers", "read"),
    [
        pytest.param([b"0123456789x"], {b"content-length": b"11"}, b"", id="declared"),
        pytest.param([b"0123456789x"], {b"content-length": b"9" * 5000}, b"", id="declared in thousands of digits"),
        pytest.param([b"01234", b"56789", b"x"], {}, b"0123456789", id="chunked"),
        pytest.param([b"0123456789x", b"more", b"still more"], {}, b"", id="in one piece"),
        pytest.param([b"01234", b"567890"], {b"content-length": b"5"}, b"01234", id="declared too short"),
    ],
)
async def test_body_is_refused_when_it_is_longer(pieces: list[bytes], headers: dict[bytes, bytes], read: bytes) -> None:
    exchange = Exchange(*pieces, headers=headers)
    await exchange.run()
    assert (exchange.read, exchange.answered) == (read, False)
    assert exchange.sent[0]["status"] == 413
    assert exchange.error == {
        "message": "The body is larger than the 10 bytes that this server reads.",
        "type": "invalid_request_error",
        "param": None,
        "code": "request_too_large",
    }
    # Read to its end before the socket closes, or the client would not get the answer.
    assert exchange.pieces == []


async def test_nothing_is_waited_for_when_the_client_waits_for_100_continue() -> None:
    exchange = Exchange(b"never", headers={b"content-length": b"11", b"expect": b"100-continue"})
    await exchange.run()
    assert (exchange.sent[0]["status"], exchange.pieces) == (413, [b"never"])


async def test_body_is_refused_when_it_does_not_come_in_time() -> None:
    exchange = Exchange(b"0", b"1", ends=False)
    await exchange.run()
    assert (exchange.sent[0]["status"], exchange.error["code"]) == (408, "request_timeout")
    assert (exchange.read, exchange.answered) == (b"01", False)


@contextlib.asynccontextmanager
async def connection(server: LiveServer) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        async with asyncio.timeout(20):
            yield reader, writer
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, str, str]:
    """Status, code of the error, and what is said of the connection."""
    status = int((await reader.readline()).split()[1])
    headers = {}
    while (line := (await reader.readline()).decode("ascii").strip()) != "":
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    response = RawResponse(status=status, headers=headers, reader=reader, writer=writer)
    code = json.loads(await response.body())["error"]["code"]
    return status, code, headers["connection"]


HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.servers
class TestServers:
    async def test_chunked_body_without_length_is_refused(self, server: LiveServer) -> None:
        async with connection(server) as (reader, writer):
            writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            piece = b"%x\r\n%s\r\n" % (65536, b" " * 65536)
            for _ in range(50):  # 3.1 MiB
                writer.write(piece)
                await writer.drain()
            writer.write(b"0\r\n\r\n")
            assert await answer(reader, writer) == (413, "request_too_large", "close")
            if server.server == "uvicorn":  # daphne leaves the closing to the client
                assert await reader.read() == b""
        async with await send(server.base_url, "GET", "/healthz") as response:
            assert response.status == 200

    async def test_declared_length_is_refused_before_the_body_is_read(self, server: LiveServer) -> None:
        if server.server == "daphne":
            return  # it reads every body to its end before it calls the application
        for extra in (b"", b"Expect: 100-continue\r\n"):
            async with connection(server) as (reader, writer):
                writer.write(HEAD + b"Content-Length: 3000000\r\n" + extra + b"\r\n")
                assert await answer(reader, writer) == (413, "request_too_large", "close")
                assert await reader.read() == b""

    async def test_chunked_body_of_the_right_size_is_answered(self, server: LiveServer) -> None:
        body = json.dumps({"model": "default", "messages": [{"role": "user", "content": "x" * 1_000_000}]}).encode()
        async with connection(server) as (reader, writer):
            writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            for start in range(0, len(body), 10_000):
                piece = body[start : start + 10_000]
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            writer.write(b"0\r\n\r\n")
            assert b" 200 " in await reader.readline()


@pytest.mark.servers
async def test_connection_is_closed_when_a_body_trickles_in(tmp_path: Path) -> None:
    with live_server(tmp_path, STREAMSITE_BODY_TIMEOUT_S="0.5") as server:
        async with connection(server) as (reader, writer):
            began_at = time.monotonic()
            writer.write(HEAD + b"Content-Length: 1000\r\n\r\n{")

            async def trickle() -> None:
                while True:
                    writer.write(b" ")
                    await asyncio.sleep(0.05)

            trickling = asyncio.ensure_future(trickle())
            try:
                assert await answer(reader, writer) == (408, "request_timeout", "close")
            finally:
                trickling.cancel()
            assert 0.5 <= time.monotonic() - began_at < 5
