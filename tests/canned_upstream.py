"""An upstream server whose answers are given byte by byte: a real socket, for what no real server does on demand.

Each request gets the next `Canned` answer (the last one again when they run out); `requests` and `gone` say what came,
and when a client closed its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

MODELS = b'{"object":"list","data":[{"id":"canned","max_model_len":4096},{"id":"second"}]}'


@dataclass(frozen=True, kw_only=True)
class Canned:
    """One answer: its pieces go out one by one, with ``pause_s`` before each; ``hold`` leaves the end open.

    ``mute`` sends nothing at all, not even a status.
    """

    pieces: Sequence[bytes] = ()
    status: int = 200
    headers: tuple[str, ...] = ("Content-Type: text/event-stream",)
    pause_s: float = 0.0
    hold: bool = False
    mute: bool = False


@dataclass
class CannedUpstream:
    """The running server: ``base_url``, and what came."""

    answers: list[Canned]
    port: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)
    heads: list[dict[str, str]] = field(default_factory=list)
    connections: int = 0
    #: Set when a request is there.
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    #: Set, with its monotonic time, when a client has closed the connection of an answer.
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    gone_at: float | None = None
    models: bytes = MODELS
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection's requests until it closes."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await self._answer(reader, writer):
                    pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        content = await reader.readexactly(int(fields.get("content-length", 0)))
        if head[0].startswith("GET "):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n" % len(self.models) + self.models)
            return True
        self.heads.append({"": head[0], **fields})
        self.requests.append(json.loads(content))
        canned = self.answers[min(len(self.requests), len(self.answers)) - 1]
        lines = [f"HTTP/1.1 {canned.status} X", "Transfer-Encoding: chunked", *canned.headers, "", ""]
        if not canned.mute:
            writer.write("\r\n".join(lines).encode())
        self.arrived.set()
        closed = asyncio.ensure_future(reader.read(1))
        try:
            await self._send(writer, canned, closed)
            if not (canned.hold or canned.mute or closed.done()):
                return True
            await closed
        except ConnectionError:
            pass  # reset: gone too
        finally:
            # What came is lost; no client here sends its next request before the answer's end.
            closed.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await closed
        self.gone_at = time.monotonic()
        self.gone.set()
        return False

    async def _send(self, writer: asyncio.StreamWriter, canned: Canned, closed: asyncio.Future[bytes]) -> None:
        for piece in canned.pieces:
            await asyncio.sleep(canned.pause_s)
            if closed.done():
                return
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
        if not (canned.hold or canned.mute):
            writer.write(b"0\r\n\r\n")
            await writer.drain()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._server.wait_closed()


def event(value: dict[str, Any] | str) -> bytes:
    """One event as servers send it."""
    return f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode()


def chunk(text: str | None = None, *, finish: str | None = None, **fields: Any) -> bytes:
    """An event with one choice; ``fields`` go into its delta."""
    delta = {**({} if text is None else {"content": text}), **fields}
    return event({"id": "up-1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


USAGE = event({"id": "up-1", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}})
DONE = event("[DONE]")


@contextlib.asynccontextmanager
async def canned_upstream(*answers: Canned) -> AsyncIterator[CannedUpstream]:
    """Serve these answers on a free port."""
    async with CannedUpstream(list(answers)) as started:
        yield started
