"""The answers to a request as server-sent events: what Django iterates and closes.

A class and not an async generator: a generator whose cancellation lands in ``await send()`` is cleaned up only by the
garbage collector, and the model runs on; `close` of a class is called by Django on every path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Self

from generation.exceptions import GenerationError
from generation.protocol import DONE, chunk_writer, comment_frame, data_frame, error_body
from generation.protocol.chunk import json_line
from generation.streaming.choices import ChoiceEvent, Choices
from generation.streaming.generation import Generation

KEEP_ALIVE = comment_frame("keep-alive")


class EventStream:
    """Frames of the generations of one request, in the order protocol.md fixes.

    Per choice: role (of a chat), content, finish; choices as their text arrives; then usage, then ``[DONE]``. A failure
    after the first byte is an error frame and ``[DONE]``, never a finish_reason. Only a cancellation leaves
    ``__anext__`` as an exception.
    """

    def __init__(self, generations: Sequence[Generation], *, include_usage: bool, keep_alive_s: float) -> None:
        self._choices = Choices(generations)
        self._include_usage = include_usage
        self._keep_alive_s = keep_alive_s
        first = generations[0]
        self._chunks = chunk_writer(
            first.request.endpoint,
            wire_id=first.wire_id,
            created=int(first.started_at.timestamp()),
            model=first.model,
            include_usage=include_usage,
        )
        self._begun = False
        #: Frames to send before anything further is read: the first ones, and those after the last delta.
        self._ready: deque[bytes] = deque()
        self._ended = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if not self._begun:
            self._begun = True
            self._choices.begin()
            firsts = [self._chunks.first(generation.choice) for generation in self._choices.all]
            self._ready.extend(data_frame(first) for first in firsts if first is not None)
        while not self._ready:
            if self._ended:
                raise StopAsyncIteration
            await self._advance()
        return self._ready.popleft()

    def close(self) -> None:
        """End the generations that have not ended. Synchronous, idempotent, thread-safe."""
        self._choices.close()

    async def _advance(self) -> None:
        """Read what comes next, and make its frames."""
        try:
            event = await self._choices.next_event(self._keep_alive_s)
        except StopAsyncIteration:
            self._end(*self._usage_frames(), DONE)
        except GenerationError as exc:
            self._end(data_frame(json_line(error_body(exc))), DONE)
        else:
            self._ready.extend([KEEP_ALIVE] if event is None else self._event_frames(event))

    def _event_frames(self, event: ChoiceEvent) -> list[bytes]:
        choice = event.generation.choice
        if event.delta is not None:
            return [data_frame(self._chunks.delta(choice, event.delta))]
        reason = event.generation.stop_reason
        if reason is None or reason.finish_reason is None:
            # The reader said that it had left; whoever still reads must not take this for an end.
            self.close()
            self._end()
            return []
        return [data_frame(self._chunks.finish(choice, reason.finish_reason))]

    def _usage_frames(self) -> list[bytes]:
        usage = self._choices.usage if self._include_usage else None
        return [] if usage is None else [data_frame(self._chunks.usage(usage))]

    def _end(self, *frames: bytes) -> None:
        self._ended = True
        self._ready.extend(frames)
