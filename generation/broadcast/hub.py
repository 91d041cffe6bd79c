"""Joins the processes: each one's report to those who watch, and a member of staff's stop to whoever runs the stream.

One per process, started and closed by the ASGI application; used on its event loop. Two tasks: one looks at the
streams twice a second, and tells the other processes while one of them watches; one listens to them. A channel layer
that fails costs the sight of the other processes, never that of this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

from channels.layers import get_channel_layer

from generation.broadcast.meter import Meter
from generation.broadcast.report import Report, page_of
from generation.output import StopReason
from generation.streaming import Generation, live

logger = logging.getLogger(__name__)

TICK_S = 0.5
#: A watching process says so this often; the others believe it for three times as long.
WATCH_S = 2.0
#: A process that told nothing for so long has gone.
REPORT_LIFE_S = 3.0
#: How long a message may take; a layer that hangs must not hold up the page.
SEND_TIMEOUT_S = 2.0
LISTEN_AGAIN_S = 5.0

# The number goes up with the form of the messages: processes of two versions do not understand one another.
ALL = "live-1-processes"
WATCHING = "live-1-watching"


class LayerUnavailableError(Exception):
    """The channel layer did not take a message."""


class Hub:
    """`start` and `close` with the process; `viewing` and `news` for viewers; `stop` for staff."""

    def __init__(self, *, report_life_s: float = REPORT_LIFE_S) -> None:
        self._report_life_s = report_life_s
        self.process = f"{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._meter = Meter()
        self._own: Report | None = None
        self._others: dict[str, tuple[float, Report]] = {}
        self._viewers = 0
        self._watched_until = 0.0
        self._watch_due = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._channel = ""
        self._ticked = asyncio.Event()
        self._texts: dict[bool, str] = {}
        self._layer_fails = False

    def start(self) -> None:
        """Begin to look and to listen. On the event loop, once."""
        self._meter = Meter()
        live.on_end = self._count_end
        self._tasks = [asyncio.create_task(self._look()), asyncio.create_task(self._listen())]

    async def close(self) -> None:
        """End both tasks. Idempotent."""
        live.on_end = None
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @contextlib.contextmanager
    def viewing(self) -> Iterator[None]:
        """Count a viewer; while there is one, all processes report."""
        self._viewers += 1
        self._watch_due = 0.0
        self._look_once()
        try:
            yield
        finally:
            self._viewers -= 1

    def text(self, *, content: bool) -> str:
        """What the page shows, as JSON; with the text of streams only if ``content``. Made once for all viewers."""
        if content not in self._texts:
            page = page_of(self._reports(), content=content)
            self._texts[content] = json.dumps(page, ensure_ascii=False, separators=(",", ":"))
        return self._texts[content]

    async def news(self) -> None:
        """Wait for the next look, half a second at most."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._ticked.wait(), 2 * TICK_S)

    async def stop(self, stream_id: int) -> bool:
        """Stop a stream in the name of staff; True if it ran here, else its process has been asked.

        Raises LayerUnavailableError when that was not possible.
        """
        if self._stop_own(stream_id):
            return True
        await self._send(ALL, {"type": "live.stop", "stream_id": stream_id})
        return False

    def _stop_own(self, stream_id: int) -> bool:
        generation = live.find(stream_id)
        if generation is None:
            return False
        generation.stop(StopReason.CLIENT_STOP, by_staff=True)
        return True

    def _reports(self) -> list[Report]:
        now = time.monotonic()
        self._others = {name: told for name, told in self._others.items() if now - told[0] < self._report_life_s}
        own = [self._own] if self._own else []
        return own + [report for _, report in self._others.values()]

    async def _look(self) -> None:
        while True:
            try:
                self._look_once()
                await self._tell()
            except Exception:
                logger.exception("The live page's figures could not be made; they are tried again.")
            await asyncio.sleep(TICK_S)

    def _count_end(self, generation: Generation) -> None:
        """Called where a generation lets go of everything, so nothing may be raised."""
        try:
            self._meter.ended(generation)
        except Exception:
            logger.exception("The end of stream %s was not counted for the live page.", generation.stream_id)

    def _look_once(self) -> None:
        generations = live.all()
        self._meter.look(generations)
        if self._viewers or self._watched:
            self._own = self._meter.report(self.process, generations)
            self._texts.clear()
        ticked, self._ticked = self._ticked, asyncio.Event()
        ticked.set()

    @property
    def _watched(self) -> bool:
        return time.monotonic() < self._watched_until

    async def _tell(self) -> None:
        """Tell the others that there are viewers here, and, while there are some anywhere else, what runs here."""
        now = time.monotonic()
        with contextlib.suppress(LayerUnavailableError):
            if self._viewers and now >= self._watch_due:
                self._watch_due = now + WATCH_S
                await self._send(ALL, {"type": "live.watch", "process": self.process})
            if self._watched and self._own is not None:
                report = {"type": "live.report", "process": self.process, "report": self._own.to_json()}
                await self._send(WATCHING, report)

    async def _send(self, group: str, message: dict[str, Any]) -> None:
        layer = get_channel_layer()
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await layer.group_send(group, message)
        except Exception as exc:  # each layer has its own
            if not self._layer_fails:
                logger.warning("The channel layer fails; other processes are not seen. %s: %s", type(exc).__name__, exc)
            self._layer_fails = True
            raise LayerUnavailableError("The channel layer does not answer.") from exc
        if self._layer_fails:
            logger.warning("The channel layer works again.")
            self._layer_fails = False

    async def _listen(self) -> None:
        layer = get_channel_layer()
        channel = ""
        while True:
            try:
                # One that was made stays: the layer would keep each further one until the process ends.
                channel = channel or await layer.new_channel("live.")
                await layer.group_add(ALL, channel)
                await layer.group_add(WATCHING, channel)
                while True:
                    self._take(await layer.receive(channel))
            except Exception as exc:
                if not self._layer_fails:
                    logger.warning("The channel layer cannot be listened to. %s: %s", type(exc).__name__, exc)
                self._layer_fails = True
                await asyncio.sleep(LISTEN_AGAIN_S)

    def _take(self, message: dict[str, Any]) -> None:
        """Act on one message of another process; its own come back and are passed over, as are strange ones."""
        try:
            kind = message["type"]
            if kind == "live.stop":
                self._stop_own(int(message["stream_id"]))
            elif message["process"] == self.process:
                pass
            elif kind == "live.watch":
                self._watched_until = time.monotonic() + 3 * WATCH_S
            elif kind == "live.report" and self._viewers:
                self._others[message["process"]] = (time.monotonic(), Report.from_json(message["report"]))
                self._texts.clear()
        except (KeyError, TypeError, ValueError) as exc:
            logger.warning("A message of another process was not understood. %s: %s", type(exc).__name__, exc)


hub = Hub()
