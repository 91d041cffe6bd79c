"""The crossing from the engine's thread to event loops.

In: `TokenOutput`s put by the engine's thread. Out: the same, in order, to each sequence's reader on its own loop.
One ``call_soon_threadsafe`` per step and loop: a call per token and sequence would wake the loop up to 200 times a
step. Nothing is dropped, and a read that is cancelled loses nothing. A reader that is full gets no more until it has
read: the engine leaves its sequence out of the steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from generation.output import TokenOutput

#: Outputs that a reader may leave unread: seconds of a fast model, and a few kilobytes.
MAX_UNREAD = 256


class TokenReader:
    """The event-loop side: one per sequence, made on the loop that reads it, read by one task."""

    def __init__(self, *, max_unread: int = MAX_UNREAD) -> None:
        self.loop = asyncio.get_running_loop()
        #: Called on the loop when a full reader has read; set by the engine.
        self.on_room: Callable[[], None] | None = None
        self._max_unread = max_unread
        self._arrived: list[TokenOutput] = []
        self._waiter: asyncio.Future[None] | None = None
        #: Each is written by one thread only: by the engine's, and by the loop's.
        self._published = self._taken = 0

    @property
    def is_full(self) -> bool:
        """Whether too much is unread for more to be made. For the engine's thread."""
        return self._published - self._taken >= self._max_unread

    async def read(self) -> list[TokenOutput]:
        """Return all outputs that have arrived, waiting for the first."""
        while not self._arrived:
            self._waiter = self.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        arrived, self._arrived = self._arrived, []
        before = self._taken
        self._taken += len(arrived)
        # Compared after the change: the engine, which looks the other way round, cannot miss it between the two.
        if self._published - before >= self._max_unread and self.on_room is not None:
            self.on_room()
        return arrived

    def publish(self) -> None:
        """Count an output that is on its way. Called by the engine's thread."""
        self._published += 1

    def arrive(self, output: TokenOutput) -> None:
        """Take an output. Called on the reader's loop."""
        self._arrived.append(output)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class TokenQueue:
    """The engine's side: collect a step's outputs, then publish them. Used by one thread at a time."""

    def __init__(self) -> None:
        self._pending: dict[asyncio.AbstractEventLoop, list[tuple[TokenReader, TokenOutput]]] = {}

    def put(self, reader: TokenReader, output: TokenOutput) -> None:
        """Add an output to this step's."""
        reader.publish()
        self._pending.setdefault(reader.loop, []).append((reader, output))

    def publish(self) -> frozenset[asyncio.AbstractEventLoop]:
        """Hand this step's outputs over; return the loops that are closed, whose sequences nobody reads any more."""
        pending, self._pending = self._pending, {}
        closed = set()
        for loop, outputs in pending.items():
            try:
                loop.call_soon_threadsafe(_deliver, outputs)
            except RuntimeError:
                closed.add(loop)
        return frozenset(closed)


def _deliver(outputs: list[tuple[TokenReader, TokenOutput]]) -> None:
    for reader, output in outputs:
        reader.arrive(output)
