"""Start and graceful end of a serving process, as an ASGI wrapper that works the same on uvicorn and daphne.

Servers cancel only the outer task of a request at shutdown and orphan Django's inner ones: no clean-up of a stream
runs, its row would stay ``running`` and the client would see a clean end. So a signal first ends every open stream
with a last frame, and only then goes on to the server's own handler.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from types import FrameType
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings

from generation.backends import backends
from generation.broadcast import hub
from generation.garbage import settle
from generation.recording import get_writer
from generation.streaming import live

logger = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

SIGNALS = (signal.SIGTERM, signal.SIGINT)
#: How an application hears that its client has gone; 1012 is "service restart".
_GONE: dict[str, Message] = {
    "http": {"type": "http.disconnect"},
    "websocket": {"type": "websocket.disconnect", "code": 1012},
}


class Drain:
    """Wraps an ASGI application; answers ``lifespan`` itself."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._started = False
        self._task: asyncio.Task[None] | None = None
        self._drained = asyncio.Event()
        self._previous: dict[int, Any] = {}

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if not self._started:
            self._started = True
            self._start()
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        else:
            await self._application(scope, self._until_drained(receive, _GONE[scope["type"]]), send)

    def _start(self) -> None:
        """Load the models in the background and listen for signals. On the first scope: daphne has no lifespan."""
        settle()
        backends.start_all()
        get_writer()
        hub.start()
        if threading.current_thread() is not threading.main_thread():
            return  # a server inside a test: signals belong to the main thread
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            self._previous[number] = signal.getsignal(number)
            signal.signal(number, lambda number, frame: self._on_signal(loop, number, frame))

    def _on_signal(self, loop: asyncio.AbstractEventLoop, number: int, frame: FrameType | None) -> None:
        """Runs in the main thread between two bytecodes: only schedules. A second signal goes straight through."""
        if live.draining:
            self._pass_on(number, frame)
            return
        live.draining = True
        loop.call_soon_threadsafe(self._begin_drain, number, frame)

    def _begin_drain(self, number: int, frame: FrameType | None) -> None:
        self._task = asyncio.ensure_future(self._drain(number, frame))

    async def _drain(self, number: int, frame: FrameType | None) -> None:
        if len(live):
            logger.info("shutting down: ending %d open streams", len(live))
        if not await live.drain(settings.STREAMSITE_DRAIN_S):
            logger.warning("shutting down: %d streams did not end in time", len(live))
        self._drained.set()
        await hub.close()
        # One turn of the loop hands the last frames to the sockets.
        await asyncio.sleep(0.05)
        self._pass_on(number, frame)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """Hand the signal to whoever had it before: the server's handler, or the system's default."""
        previous = self._previous.get(number, signal.SIG_DFL)
        if callable(previous):
            previous(number, frame)
            return
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    def _until_drained(self, receive: Receive, gone: Message) -> Receive:
        """``receive`` that says the client has gone once the drain is over, so that no request outlives it."""

        async def receive_or_disconnect() -> Message:
            message = asyncio.ensure_future(receive())
            drained = asyncio.ensure_future(self._drained.wait())
            try:
                await asyncio.wait({message, drained}, return_when=asyncio.FIRST_COMPLETED)
                return message.result() if message.done() else dict(gone)
            finally:
                message.cancel()
                drained.cancel()

        return receive_or_disconnect

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            elif message["type"] == "lifespan.shutdown":
                await live.drain(settings.STREAMSITE_DRAIN_S)
                await hub.close()
                await sync_to_async(close_process, thread_sensitive=False)()
                await send({"type": "lifespan.shutdown.complete"})
                return


def close_process() -> None:
    """Free the models and write what is left of the records."""
    backends.close_all()
    get_writer().close(timeout=settings.STREAMSITE_DRAIN_S)
