"""Sends the items of a corpus through a backend, a few at a time, and ties each stream to its run.

In: items and bad lines, taken one by one as places get free. Out: streams with source ``replay`` and a `RunItem` for
each; an item that fails has its error there and does not cost the others. Ctrl-C ends the open streams in order.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections

from generation.exceptions import GenerationError, RateLimitError
from generation.models import Run, RunItem
from generation.output import StopReason
from generation.replay.corpus import BadLine, CorpusItem
from generation.replay.interrupt import on_interrupt
from generation.replay.progress import RunProgress
from generation.request import GenerationRequest
from generation.streaming import Generation, Origin, begin


class CorpusRunner:
    """One pass of a corpus; `run` it once, in the main thread's event loop."""

    def __init__(
        self, run: Run, items: Iterable[CorpusItem | BadLine], *, concurrency: int, progress: RunProgress
    ) -> None:
        self._run = run
        self._items = iter(items)
        self._concurrency = concurrency
        self._progress = progress
        self._stopped = asyncio.Event()
        self._open: set[Generation] = set()

    async def run(self) -> bool:
        """Work until the items end (True) or `stop` (False). Raises DatabaseError when a row cannot be written."""
        try:
            with on_interrupt(self.stop):
                async with asyncio.TaskGroup() as workers:
                    for _ in range(self._concurrency):
                        workers.create_task(self._work())
        except ExceptionGroup as group:
            raise group.exceptions[0] from group
        return not self._stopped.is_set()

    def stop(self) -> None:
        """Begin nothing further and end the open streams; what they said is kept. Call on the event loop."""
        self._stopped.set()
        for generation in self._open:
            generation.stop(StopReason.CLIENT_STOP)

    async def _work(self) -> None:
        while not self._stopped.is_set():
            item = next(self._items, None)
            if item is None:
                return
            error = await self._replay(item)
            if error:
                self._progress.problem(item.line_number, error)
            self._progress.advance()

    async def _replay(self, item: CorpusItem | BadLine) -> str:
        """Carry one item out; return its error, empty when there is none."""
        if isinstance(item, BadLine):
            await self._add_row(item, error=item.error)
            return item.error
        try:
            generation = await self._begin(item.request)
        except GenerationError as exc:
            await self._add_row(item, error=exc.message)
            return exc.message
        return "" if generation is None else await self._read(item, generation)

    async def _begin(self, request: GenerationRequest) -> Generation | None:
        """Begin a stream, waiting for a place while the queue is full; None when stopped meanwhile."""
        while not self._stopped.is_set():
            try:
                return await begin(request, Origin(source="replay"), received_at=time.monotonic())
            except RateLimitError as exc:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopped.wait(), exc.retry_after_s)
        return None

    async def _read(self, item: CorpusItem, generation: Generation) -> str:
        self._open.add(generation)
        if self._stopped.is_set():
            generation.stop(StopReason.CLIENT_STOP)
        # The backend works while the row is written, or the write would be in every time to first token.
        generation.begin()
        try:
            row = await self._add_row(item, stream_id=generation.stream_id)
            try:
                async for _ in generation:
                    pass
            except GenerationError as exc:
                await _in_database(_set_error, row, exc.message)
                return exc.message
        finally:
            generation.close()
            self._open.discard(generation)
        return ""

    async def _add_row(self, item: CorpusItem | BadLine, **columns: Any) -> RunItem:
        row = RunItem(run=self._run, position=item.line_number, item_id=item.item_id, **columns)
        await _in_database(row.save)
        return row


def _set_error(row: RunItem, error: str) -> None:
    row.error = error
    row.save(update_fields=["error"])


async def _in_database(write: Any, *args: Any) -> None:
    """Run a write in the thread that owns this context's connection, and give the connection back."""

    def call() -> None:
        try:
            write(*args)
        finally:
            close_old_connections()

    await sync_to_async(call)()
