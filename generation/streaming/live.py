"""The generations of this process that have not ended: looked up to stop one, walked to end all at shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from generation.exceptions import RateLimitError
from generation.output import StopReason

if TYPE_CHECKING:
    from generation.streaming.generation import Generation, Origin

#: Stop requests that came before their stream; the oldest are forgotten.
MAX_EARLY_STOPS = 1000


class LiveGenerations:
    """The generations of this process that have not ended: looked up to stop one, walked to end all.

    Used on the event loop only.
    """

    def __init__(self) -> None:
        self.draining = False
        #: Told of each generation that has ended.
        self.on_end: Callable[[Generation], None] | None = None
        self._generations: set[Generation] = set()
        #: Places held by generations that are being opened.
        self._opening = 0
        #: Set when the last generation has ended; there once a drain waits for it.
        self._idle: asyncio.Event | None = None
        self._early_stops: OrderedDict[tuple[object, uuid.UUID], StopReason] = OrderedDict()

    def __len__(self) -> int:
        return len(self._generations)

    def all(self) -> tuple[Generation, ...]:
        """Those that run now."""
        return tuple(self._generations)

    def find(self, stream_id: int) -> Generation | None:
        """The running generation of this row, if it is of this process."""
        return next((each for each in self._generations if each.stream_id == stream_id), None)

    @contextlib.contextmanager
    def place(self, *, limit: int, count: int = 1) -> Iterator[None]:
        """Hold ``count`` of ``limit`` places while generations are opened. Raises RateLimitError.

        Opening waits for rows and perhaps for a model: counting only what runs would let a burst in whole.
        """
        taken = len(self._generations) + self._opening
        if taken + count > limit:
            raise RateLimitError(
                f"{taken} of {limit} places are taken, {count} are needed; ask again in a few seconds."
            )
        self._opening += count
        try:
            yield
        finally:
            self._opening -= count

    def add(self, generation: Generation) -> None:
        self._generations.add(generation)
        if self.draining:
            generation.stop(StopReason.SERVER_SHUTDOWN)
        if generation.origin.client_stream_id is not None:
            key = (generation.origin.owner, generation.origin.client_stream_id)
            if key in self._early_stops:
                generation.stop(self._early_stops.pop(key))

    def discard(self, generation: Generation) -> None:
        """Forget an ended generation."""
        self._generations.discard(generation)
        if self.on_end is not None:
            self.on_end(generation)
        if self._idle is not None and not self._generations:
            self._idle.set()

    def stop(self, client_stream_id: uuid.UUID, origin: Origin, reason: StopReason) -> bool:
        """Stop this owner's stream; True if it was running. A stop that comes before its stream waits for it."""
        for generation in self._generations:
            if generation.origin.client_stream_id == client_stream_id and generation.origin.owner == origin.owner:
                generation.stop(reason)
                return True
        self._early_stops[origin.owner, client_stream_id] = reason
        while len(self._early_stops) > MAX_EARLY_STOPS:
            self._early_stops.popitem(last=False)
        return False

    async def drain(self, timeout_s: float) -> bool:
        """Refuse new streams, end the open ones with ``server_shutdown``, wait for them; True if all ended in time."""
        self.draining = True
        for generation in tuple(self._generations):
            generation.stop(StopReason.SERVER_SHUTDOWN)
        if self._generations:
            self._idle = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), timeout_s)
        return not self._generations


live = LiveGenerations()
