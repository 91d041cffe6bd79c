"""One answer of an upstream server in flight: it is opened, read, ended and let go of here.

The request is sent at the first read. Cancelling, from any thread and at any moment, closes the connection at once; so
does every end but that of a whole answer, whose connection may serve again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from generation.backends.base import DeltaStream
from generation.backends.upstream_answer import Reasoning, UpstreamAnswer
from generation.backends.upstream_reply import UpstreamReply
from generation.exceptions import GenerationError, UpstreamError
from generation.output import Delta, Outcome, StopReason
from generation.request import GenerationRequest

#: After the reason of the end is known, how long the token counts and ``[DONE]`` may take.
TAIL_S = 2.0


class UpstreamStream(DeltaStream):
    """Reads the reply that ``open_reply`` opens; ``on_begin`` and ``on_end`` bracket its hold on a connection."""

    def __init__(
        self,
        open_reply: Callable[[], Coroutine[Any, Any, UpstreamReply]],
        request: GenerationRequest,
        *,
        reasoning: Reasoning,
        on_begin: Callable[[UpstreamStream], None],
        on_end: Callable[[UpstreamStream], None],
    ) -> None:
        super().__init__()
        self._open_reply = open_reply
        self._request = request
        self._reasoning = reasoning
        self._on_begin = on_begin
        self._on_end = on_end
        self._deltas: deque[Delta] = deque()
        self._error: GenerationError | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[UpstreamReply] | None = None
        self._reply: UpstreamReply | None = None
        self._answer: UpstreamAnswer | None = None
        self._closing: asyncio.Task[None] | None = None
        #: Guards the moment between "cancelled before the first read" and "begun".
        self._lock = threading.Lock()
        self._cancelled = False

    async def __anext__(self) -> Delta:
        if self._loop is None:
            self._begin()
        while not self._deltas:
            if self._error is not None:
                raise self._error
            if self.outcome is not None:
                raise StopAsyncIteration
            try:
                await self._advance()
            except GenerationError as exc:
                self._fail(exc)
            except BaseException:
                self.cancel()
                raise
        return self._deltas.popleft()

    def cancel(self) -> None:
        with self._lock:
            first_time, self._cancelled = not self._cancelled, True
            loop = self._loop
        if loop is not None:
            # A loop that has ended took its connections with it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._let_go)
        elif first_time and self.on_stopped is not None:
            self.on_stopped(time.monotonic(), 0)

    async def admitted(self) -> bool:
        if self._loop is None:
            self._begin()
        if self._opening is None:
            return True
        await asyncio.wait({self._opening})
        return not self._opening.cancelled() and self._opening.exception() is None

    async def closed(self) -> None:
        """Wait until the connection is let go of, after the end or `cancel`."""
        if self._closing is not None:
            await asyncio.shield(self._closing)

    def _begin(self) -> None:
        with self._lock:
            self._loop = asyncio.get_running_loop()
            if self._cancelled:
                self.outcome = Outcome(stop_reason=StopReason.CLIENT_STOP)
                return
        self._on_begin(self)
        self._opening = self._loop.create_task(self._open_reply())

    async def _advance(self) -> None:
        """Take what comes next, or end."""
        if self._reply is None or self._answer is None:
            await self._wait_for_reply()
            return
        try:
            events = await self._reply.read()
        except UpstreamError:
            if self._answer.stop_reason is None and not self._cancelled:
                raise
            events = None  # an answer whose end is known needs nothing that is still to come
        if self._cancelled:
            self._end(StopReason.CLIENT_STOP)
        elif events is None:
            self._answer.end_of_input()
            self._end_well(self._answer, finished=True)
        else:
            self._take(events, self._answer, self._reply)

    async def _wait_for_reply(self) -> None:
        assert self._opening is not None
        # Not the task itself: a reader that goes away is cancelled alone, and `cancel` ends the opening.
        await asyncio.wait({self._opening})
        if self._opening.cancelled():
            self._end(StopReason.CLIENT_STOP)
            return
        self._reply = self._opening.result()
        self._answer = UpstreamAnswer(self._request, self._reply.target.kind, reasoning=self._reasoning)
        self.token_times = self._answer.token_times

    def _take(self, events: list[str], answer: UpstreamAnswer, reply: UpstreamReply) -> None:
        """Turn events into deltas; set the limit of the silence after them."""
        for event in events:
            knew_end = answer.stop_reason is not None
            self._deltas.extend(answer.push(event, time.monotonic()))
            self.upstream_id, self.first_token_at = answer.upstream_id, answer.first_token_at
            if answer.over:
                self._end_well(answer, finished=event == "[DONE]")
                return
            if answer.stop_reason is None and answer.first_token_at is not None:
                reply.begun()
            elif answer.stop_reason is not None and not knew_end:
                reply.allow(TAIL_S)

    def _end_well(self, answer: UpstreamAnswer, *, finished: bool) -> None:
        assert answer.stop_reason is not None
        self._end(answer.stop_reason, finished=finished)

    def _end(self, reason: StopReason, *, finished: bool = False) -> None:
        """Bring out what waits and settle the outcome."""
        if self._answer is None:
            self.outcome = Outcome(stop_reason=reason)
        else:
            self._deltas.extend(self._answer.flush())
            usage = self._answer.usage
            self.prompt_tokens = None if usage is None else usage.prompt_tokens
            # A stop string that the flush completed is why the text ends.
            reason = self._answer.stop_reason or reason
            self.outcome = Outcome(stop_reason=reason, stop_string=self._answer.stop_string, usage=usage)
        self._let_go(finished=finished)

    def _fail(self, error: GenerationError) -> None:
        """Bring out the text that came, then the error."""
        if self._answer is not None:
            self._deltas.extend(self._answer.flush())
        self._error = error
        self._let_go()

    def _let_go(self, *, finished: bool = False) -> None:
        """Begin to close the connection, once. Called on the loop."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close(finished))

    async def _close(self, finished: bool) -> None:
        try:
            if self._opening is not None:
                self._opening.cancel()
                await asyncio.wait({self._opening})
                if not self._opening.cancelled() and self._opening.exception() is None:
                    await self._opening.result().close(finished=finished)
        finally:
            self._on_end(self)
            if self.on_stopped is not None:
                usage = self._answer.usage if self._answer else None
                self.on_stopped(time.monotonic(), usage.completion_tokens if usage else None)
