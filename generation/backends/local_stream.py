"""One generation of the in-process engine: token outputs in, deltas out.

The sequence is submitted at the first read. A stop string is found here, in text, and cancels the sequence; every
other end comes from the engine. The outcome counts the tokens that this stream used, ``on_stopped`` those made.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from generation.backends.base import DeltaStream
from generation.engine.base import Engine
from generation.engine.grammar import Constraint
from generation.engine.sequence import Sequence
from generation.engine.token_queue import TokenReader
from generation.exceptions import GenerationError
from generation.output import Delta, Outcome, StopReason, TokenOutput, Usage
from generation.request import SamplingParams
from generation.text import Proof, TextPipeline, Vocabulary, prove


class LocalStream(DeltaStream):
    """Feeds the engine's ids to a `TextPipeline`. ``sampling`` is complete; ``end_ids`` are the model's end tokens."""

    def __init__(
        self,
        engine: Engine,
        vocabulary: Vocabulary,
        *,
        prompt_ids: list[int],
        sampling: SamplingParams,
        end_ids: frozenset[int],
        constraint: Constraint | None = None,
        knows_cached: bool = True,
        continues_text: bool = False,
    ) -> None:
        super().__init__()
        self.prompt_tokens = len(prompt_ids)
        self.token_ids: list[int] = []
        self._engine = engine
        self._vocabulary = vocabulary
        #: The ids that are text; the end token is not.
        self._pushed_ids: list[int] = []
        self._prompt_ids = prompt_ids
        self._sampling = sampling
        self._constraint = constraint
        #: Whether the engine says what it took over from earlier prompts.
        self._knows_cached = knows_cached
        self._end_ids = end_ids
        #: Special tokens that are stop strings end the sequence by their id, without one more step.
        self._stop_ids = frozenset(vocabulary.ids_of(sampling.stop))
        #: Prompt ids whose text this one goes on with; a chat's answer begins anew.
        self._text_before = prompt_ids if continues_text else []
        self._pipeline = TextPipeline(
            vocabulary, stop=sampling.stop, include_stop=sampling.include_stop, prompt_ids=self._text_before
        )
        self._deltas: deque[Delta] = deque()
        self._sequence: Sequence | None = None
        self._error: GenerationError | None = None
        #: Guards the moment between "cancelled before the first read" and "submitted".
        self._lock = threading.Lock()
        self._cancelled = False

    async def __anext__(self) -> Delta:
        if self._sequence is None:
            self._submit()
        while not self._deltas:
            if self._error is not None:
                raise self._error
            if self.outcome is not None:
                raise StopAsyncIteration
            await self._advance()
        return self._deltas.popleft()

    @property
    def begun(self) -> bool:
        """As the engine's thread has it, before the first token comes over."""
        return self._sequence is not None and self._sequence.begun_at is not None

    def cancel(self) -> None:
        with self._lock:
            first_time, self._cancelled = not self._cancelled, True
            sequence = self._sequence
        if sequence is not None:
            self._engine.cancel(sequence)
        elif first_time:
            self._stopped(time.monotonic(), 0)

    def prove(self, text: str, *, cut: bool) -> Proof:
        return prove(
            self._vocabulary,
            self._pushed_ids,
            text,
            stop=self._sampling.stop,
            include_stop=self._sampling.include_stop,
            prompt_ids=self._text_before,
            cut=cut,
        )

    def _submit(self) -> None:
        with self._lock:
            if self._cancelled:
                self._end(StopReason.CLIENT_STOP)
                return
            sequence = Sequence(
                prompt_ids=self._prompt_ids,
                sampling=self._sampling,
                end_ids=self._end_ids,
                stop_ids=self._stop_ids,
                constraint=self._constraint,
                reader=TokenReader(),
                on_stopped=self._stopped,
            )
            self._engine.submit(sequence)
            self._sequence = sequence

    async def _advance(self) -> None:
        assert self._sequence is not None
        outputs = await self._sequence.reader.read()
        self.begun_at = self._sequence.begun_at
        if self._knows_cached:
            self.cached_tokens = self._sequence.cached
        for output in outputs:
            if self.outcome is None:
                self._take(output)

    def _take(self, output: TokenOutput) -> None:
        """Turn one output into deltas, and see whether it is the last."""
        if output.token_id is not None:
            self.token_ids.append(output.token_id)
            self.token_times.append(output.made_at)
            if output.stop_reason is not StopReason.EOS:
                self._pushed_ids.append(output.token_id)
                self._deltas.extend(self._pipeline.push(output.token_id, output.made_at, output.logprobs))
        if output.stop_reason is not None:
            self._end(output.stop_reason, made_at=output.made_at)
        elif self._pipeline.stop_string is not None:
            self._end(StopReason.STOP_STRING)
            self.cancel()

    def _end(self, stop_reason: StopReason, *, made_at: float | None = None) -> None:
        """Bring out what the pipeline holds and settle the outcome; text that completes a stop string wins."""
        self._deltas.extend(self._pipeline.flush(made_at))
        if self._pipeline.stop_string is not None:
            stop_reason = StopReason.STOP_STRING
        self.outcome = Outcome(
            stop_reason=stop_reason,
            stop_string=self._pipeline.stop_string,
            usage=Usage(
                prompt_tokens=len(self._prompt_ids),
                completion_tokens=len(self.token_ids),
                cached_tokens=self.cached_tokens,
            ),
        )
        if self._sequence is not None and stop_reason is not StopReason.STOP_STRING:
            self._error = self._sequence.error

    def _stopped(self, stopped_at: float, tokens_made: int) -> None:
        """Called by the engine's thread, or by whoever cancels a stream that was never submitted."""
        if self.on_stopped is not None:
            self.on_stopped(stopped_at, tokens_made)
