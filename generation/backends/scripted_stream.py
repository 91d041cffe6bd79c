"""One scripted answer: pieces of bytes in, deltas out, each at its time.

A piece is made when it is due and asked for; cancelling cuts a wait short, and no piece is made after it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from generation.backends.base import DeltaStream
from generation.output import Delta, Outcome, StopReason, TokenLogprob, ToolCallDelta, Usage
from generation.request import GenerationRequest
from generation.text import BytesPipeline


class ScriptedStream(DeltaStream):
    """One answer of a script. Each piece is due ``delay_s`` after the one before, however long its reader took."""

    def __init__(
        self,
        script: Iterator[bytes],
        *,
        request: GenerationRequest,
        first_delay_s: float,
        delay_s: float,
        prompt_tokens: int | None,
        on_begin: Callable[[ScriptedStream], None],
        on_end: Callable[[ScriptedStream], None],
    ) -> None:
        super().__init__()
        self.prompt_tokens = prompt_tokens
        self._script = script
        #: Pieces of tool calls that come after the text, one a delta; the answer then ends with them.
        self.tool_calls: Sequence[ToolCallDelta] = ()
        #: Each piece made so far, where log-probabilities are wanted; a script is certain of its pieces.
        self._logprobs: list[TokenLogprob] | None = [] if request.sampling.logprobs else None
        self._top_logprobs = request.sampling.top_logprobs
        self._shown_bytes = 0
        self._max_pieces = request.sampling.max_tokens
        self._pipeline = BytesPipeline(stop=request.sampling.stop, include_stop=request.sampling.include_stop)
        self._delay_s = delay_s
        self._due_s = first_delay_s
        self._deltas: deque[Delta] = deque()
        self._on_begin = on_begin
        self._on_end = on_end
        self._lock = threading.Lock()
        self._ended = False
        self._cancelled = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()

    async def __anext__(self) -> Delta:
        if self._loop is None:
            self._begin()
        while not self._deltas:
            if self.outcome is not None:
                raise StopAsyncIteration
            await self._advance()
        return self._deltas.popleft()

    def cancel(self) -> None:
        self._cancelled = True
        self._end_once()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    def _begin(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.begun_at = time.monotonic()
        self._due_s += self.begun_at
        if not self._cancelled:
            self._on_begin(self)

    async def _advance(self) -> None:
        """Wait until the next piece is due, then make it."""
        await self._pause()
        if self._cancelled:
            self._finish(StopReason.CLIENT_STOP)
            return
        try:
            piece = next(self._script, None)
        except BaseException:
            self._end_once()
            raise
        if piece is None:
            self._finish(StopReason.EOS)
            return
        made_at = time.monotonic()
        self._due_s = max(self._due_s, made_at - self._delay_s) + self._delay_s
        self.token_times.append(made_at)
        if self._logprobs is not None:
            self._logprobs.append(self._certain(piece))
        self._show(self._pipeline.push(piece, made_at))
        if self._pipeline.stop_string is not None:
            self._finish(StopReason.STOP_STRING)
        elif len(self.token_times) == self._max_pieces:
            self._finish(StopReason.LENGTH)

    async def _pause(self) -> None:
        """Sleep until the piece is due or the stream is cancelled; always let others run."""
        pause_s = self._due_s - time.monotonic()
        if pause_s <= 0:
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout(pause_s):
                await self._woken.wait()
        except TimeoutError:
            return

    def _finish(self, stop_reason: StopReason) -> None:
        self._show(self._pipeline.flush())
        if self._pipeline.stop_string is not None:
            stop_reason = StopReason.STOP_STRING
        if stop_reason is StopReason.EOS and self.tool_calls:
            stop_reason = StopReason.TOOL_CALLS
            # All pieces of text are accounted for: these deltas bring none.
            end = len(self.token_times)
            self._deltas.extend(
                Delta(text="", first_token=end, end_token=end, tool_calls=(piece,)) for piece in self.tool_calls
            )
        usage = None
        if self.prompt_tokens is not None:
            usage = Usage(prompt_tokens=self.prompt_tokens, completion_tokens=len(self.token_times))
        self.outcome = Outcome(stop_reason=stop_reason, stop_string=self._pipeline.stop_string, usage=usage)
        self._end_once()

    def _show(self, deltas: list[Delta]) -> None:
        for delta in deltas:
            self._deltas.append(delta if self._logprobs is None else replace(delta, logprobs=self._entries(delta)))

    def _entries(self, delta: Delta) -> tuple[TokenLogprob, ...]:
        """The entries of the pieces that this delta accounts for, without those that a stop string cut away whole."""
        assert self._logprobs is not None
        before = sum(len(entry.data) for entry in self._logprobs[: delta.first_token])
        self._shown_bytes += len(delta.text.encode())
        entries = []
        for entry in self._logprobs[delta.first_token : delta.end_token]:
            if before < self._shown_bytes:
                entries.append(entry)
            before += len(entry.data)
        return tuple(entries)

    def _certain(self, piece: bytes) -> TokenLogprob:
        entry = TokenLogprob(text=piece.decode(errors="replace"), data=piece, logprob=0.0)
        return replace(entry, top=(entry,)) if self._top_logprobs else entry

    def _end_once(self) -> None:
        """Tell that no further piece will be made. Called from any thread."""
        with self._lock:
            ended, self._ended = self._ended, True
        if not ended:
            self._on_end(self)
            if self.on_stopped is not None:
                self.on_stopped(time.monotonic(), len(self.token_times))
