"""A client of event streams over a raw socket, for tests that care when each byte came and when the socket closed.

httpx's in-process transport buffers everything; nothing here does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit


@dataclass(kw_only=True)
class RawResponse:
    """Status and headers of a response whose body is still coming."""

    status: int
    headers: dict[str, str]
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    #: Monotonic arrival time of each frame, parallel to the frames yielded.
    arrived: list[float] = field(default_factory=list)

    async def frames(self) -> AsyncGenerator[str, None]:
        """Each event or comment, as text without its blank line, as soon as it is there."""
        buffered = b""
        async for piece in self.pieces():
            buffered += piece
            while b"\n\n" in buffered:
                frame, buffered = buffered.split(b"\n\n", 1)
                self.arrived.append(time.monotonic())
                yield frame.decode("ascii")
        assert buffered == b"", f"the stream ended inside a frame: {buffered!r}"

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes, chunked transfer coding removed."""
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int((await self.reader.readline()).split(b";")[0], 16):
                yield await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            return
        while piece := await self.reader.read(65536):
            yield piece

    async def body(self) -> bytes:
        """The whole body."""
        if "content-length" in self.headers:
            return await self.reader.readexactly(int(self.headers["content-length"]))
        return b"".join([piece async for piece in self.pieces()])

    async def chunks(self) -> list[dict[str, Any]]:
        """Every JSON chunk up to ``[DONE]``, which must be there."""
        frames = [frame async for frame in self.frames() if not frame.startswith(":")]
        assert frames[-1] == "data: [DONE]"
        return [json.loads(frame.removeprefix("data: ")) for frame in frames[:-1]]

    def abort(self) -> None:
        """Reset the connection, as a killed client does."""
        self.writer.transport.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


async def send(
    base_url: str,
    method: str,
    path: str,
    *,
    body: bytes | dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
    timeout_s: float = 20,
) -> RawResponse:
    """Send one HTTP/1.1 request and return as soon as the headers are there."""
    address = urlsplit(base_url)
    assert address.hostname
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        return await _exchange(reader, writer, method, path, body=body, headers=headers, timeout_s=timeout_s)
    except BaseException:
        writer.close()
        raise


async def _exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    method: str,
    path: str,
    *,
    body: bytes | dict[str, Any] | None,
    headers: dict[str, str] | None,
    timeout_s: float,
) -> RawResponse:
    content = json.dumps(body).encode() if isinstance(body, dict) else body or b""
    host, port = writer.get_extra_info("peername")
    lines = {"Host": f"{host}:{port}", "Content-Type": "application/json", "Content-Length": str(len(content))}
    lines |= headers or {}
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
    writer.write(head.encode("ascii") + content)
    await writer.drain()
    async with asyncio.timeout(timeout_s):
        status = int((await reader.readline()).split()[1])
        received = {}
        while (line := (await reader.readline()).decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            received[name.lower()] = value.strip()
    return RawResponse(status=status, headers=received, reader=reader, writer=writer)


async def chat(base_url: str, **fields: Any) -> RawResponse:
    """Post a streamed chat completion; ``fields`` override the defaults."""
    body = {"model": "default", "messages": [{"role": "user", "content": "hi"}], "stream": True, **fields}
    return await send(base_url, "POST", "/v1/chat/completions", body=body)
