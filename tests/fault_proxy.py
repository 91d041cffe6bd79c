"""A proxy in front of a real server that spoils its event streams, each in one way and at one place.

What is not a POST passes untouched, and so does a stream up to the fault. After the fault the connection is held until
the client closes it, unless the fault itself ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Coroutine
from enum import StrEnum
from typing import Any, Self


class Fault(StrEnum):
    """What goes wrong."""

    NONE = "none"
    HANG = "hang"
    RESET = "reset"
    END = "end of input"
    MALFORMED_JSON = "malformed JSON"
    BAD_UTF8 = "bad UTF-8"
    GIANT_LINE = "giant line"
    ERROR = "error in a 200"
    DRIP = "slow drip"
    REDIRECT = "redirect"
    COMPRESSED = "compressed"


class Position(StrEnum):
    """Where: before the first event, before the third piece of text, or before the event that tells the end."""

    FIRST = "first"
    MIDDLE = "middle"
    LAST = "last"


_SPOILT = {
    Fault.MALFORMED_JSON: b'data: {"choices": [{"index": 0, "delta"\n\n',
    Fault.BAD_UTF8: b'data: {"choices": [{"index": 0, "delta": {"content": "\xc3("}}]}\n\n',
    Fault.GIANT_LINE: b"data: " + b"x" * (2 * 1024 * 1024),
    Fault.ERROR: b'data: {"error": {"message": "overloaded", "type": "server_error", "param": null, "code": null}}\n\n',
}
_HEADS = {
    Fault.REDIRECT: b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:9/v1\r\nContent-Length: 0\r\n\r\n",
    Fault.COMPRESSED: b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n"
    + gzip.compress(b"data: [DONE]\n\n"),
}
#: Seconds between the bytes of a drip: each comes well within any limit, a whole event in none.
DRIP_S = 0.05


class FaultProxy:
    """Listens on ``port``, sends on to ``upstream_port``; ``fault`` and ``position`` may be changed at any time."""

    def __init__(self, port: int, upstream_port: int, fault: Fault = Fault.NONE, position: Position = Position.FIRST):
        self.port = port
        self.fault = fault
        self.position = position
        self._upstream_port = upstream_port
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one request; the connection is not used again."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        behind: asyncio.StreamWriter | None = None
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                head = await reader.readuntil(b"\r\n\r\n")
                content = await reader.readexactly(_length(head))
                answer, behind = await asyncio.open_connection("127.0.0.1", self._upstream_port)
                behind.write(head.replace(b"\r\n", b"\r\nConnection: close\r\n", 1) + content)
                await _first_of(self._carry(head, answer, writer), reader.read(1))
        finally:
            self._tasks.discard(task)
            writer.close()
            if behind is not None:
                behind.close()

    async def _carry(self, head: bytes, answer: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer_head = await answer.readuntil(b"\r\n\r\n")
        streams = head.startswith(b"POST ") and b"text/event-stream" in answer_head
        if streams and self.fault in _HEADS:
            writer.write(_HEADS[self.fault])
            await writer.drain()
            return
        writer.write(answer_head)
        if not streams or self.fault is Fault.NONE:
            while piece := await answer.read(65536):
                writer.write(piece)
                await writer.drain()
            return
        texts = 0
        async for event in _events(answer):
            if self._is_place(event, texts):
                await self._spoil(event, writer)
                return
            texts += b'"content":"' in event and b'"content":""' not in event
            writer.write(_chunked(event))
            await writer.drain()

    def _is_place(self, event: bytes, texts: int) -> bool:
        if self.position is Position.FIRST:
            return True
        if self.position is Position.MIDDLE:
            return texts == 2
        return b'"finish_reason":"' in event

    async def _spoil(self, event: bytes, writer: asyncio.StreamWriter) -> None:
        if self.fault is Fault.RESET:
            writer.transport.abort()
            return
        if self.fault is Fault.END:
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return
        if self.fault is Fault.DRIP:
            for byte in event:
                writer.write(_chunked(bytes([byte])))
                await asyncio.sleep(DRIP_S)
        elif self.fault is not Fault.HANG:
            writer.write(_chunked(_SPOILT[self.fault]))
            await writer.drain()
        await asyncio.Event().wait()


async def _first_of(*sides: Coroutine[Any, Any, object]) -> None:
    """Run both until one ends, and end the other."""
    tasks = [asyncio.ensure_future(side) for side in sides]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _chunked(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)


async def _events(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Each event of a chunked body with its blank line."""
    waiting = b""
    while size := int(await reader.readline(), 16):
        waiting += await reader.readexactly(size)
        await reader.readexactly(2)
        while b"\n\n" in waiting:
            event, waiting = waiting.split(b"\n\n", 1)
            yield event + b"\n\n"
