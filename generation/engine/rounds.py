"""What the engine's thread does with a loaded model, round after round: admit, step, hand on, end.

In: sequences, and the runner that they run on. Out: their outputs, put and published in the order made. An exception in
a step ends the sequence that causes it, and no other. Used by the engine's thread only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from generation.engine.base import Runner, RunnerLostError, Sampled
from generation.engine.kv_budget import KVBudget
from generation.engine.metrics import EngineMetrics
from generation.engine.scheduler import Scheduler
from generation.engine.sequence import Chunk, Sequence
from generation.engine.token_queue import TokenQueue
from generation.exceptions import EngineError, GenerationError, GenerationTimeoutError, InvalidRequestError
from generation.output import StopReason, TokenOutput

logger = logging.getLogger(__name__)


class Rounds:
    """The sequences that the thread has taken. ``on_end`` is called once for each that ends, before its reader knows.

    They outlive a runner: those that wait run on the next one. See `TorchEngine` for the options.
    """

    def __init__(
        self,
        *,
        max_sequences: int,
        prefill_chunk: int,
        slow_reader_s: float,
        clock: Callable[[], float],
        metrics: EngineMetrics,
        on_end: Callable[[], None],
    ) -> None:
        #: Whether the last round found nobody to step.
        self.is_stalled = False
        self._prefill_chunk = prefill_chunk
        self._slow_reader_s = slow_reader_s
        self._clock = clock
        self._metrics = metrics
        self._on_end = on_end
        self._scheduler = Scheduler(max_sequences=max_sequences)
        self._token_queue = TokenQueue()
        #: When the reader of a sequence was first seen full, by sequence.
        self._full_since: dict[Sequence, float] = {}

    def __len__(self) -> int:
        return len(self._scheduler)

    def add(self, sequences: list[Sequence], runner: Runner) -> None:
        """Put sequences at the end of the line; refuse those that this runner can never have room for."""
        budget = KVBudget(
            tokens=runner.kv_tokens,
            max_sequences=self._scheduler.max_sequences,
            context_length=runner.context_length,
        )
        for sequence in sequences:
            self._scheduler.add(sequence)
            sequence.limit = budget.limit(len(sequence.prompt_ids), sequence.sampling.max_tokens)
            if sequence.limit > budget.tokens or len(sequence.prompt_ids) >= runner.context_length:
                self._end(sequence, StopReason.ENGINE_ERROR, InvalidRequestError(budget.refusal(sequence.limit)))
        self._publish()

    def make_one(self, runner: Runner, *, is_closing: Callable[[], bool]) -> None:
        """Give every running sequence one step, looking for cancelled ones before each."""
        self._drop_cancelled(runner)
        self._drop_slow(runner)
        batches = self._scheduler.next_round(runner, prefill_chunk=self._prefill_chunk, now=self._clock())
        self.is_stalled = not batches
        for batch in batches:
            self._drop_cancelled(runner)
            alive = [sequence for sequence in batch if sequence.stop_reason is None]
            if alive and not is_closing():
                self._step(runner, alive)
                self._publish()
        self._metrics.slots_used.set(len(self._scheduler.running))
        self._metrics.queue_length.set(self._scheduler.queue_length)
        self._metrics.kv_used.set(runner.kv_bytes)

    def until_next_slow(self) -> float | None:
        """Seconds until a reader that is full now counts as slow; None when none is, or others keep the thread busy."""
        if not (self.is_stalled and self._full_since):
            return None
        return max(0.0, min(self._full_since.values()) + self._slow_reader_s - self._clock())

    def end_running(self, error: GenerationError) -> None:
        """End those that run, their runner being gone."""
        for sequence in self._scheduler.running:
            self._metrics.failed.inc()
            self._end(sequence, StopReason.ENGINE_ERROR, error)
        self._publish()

    def end_all(self, stop_reason: StopReason, error: GenerationError) -> None:
        """End everything, at the end of the thread."""
        for sequence in [*self._scheduler]:
            self._end(sequence, stop_reason, error)
        self._publish()
        for gauge in (self._metrics.slots_used, self._metrics.queue_length, self._metrics.kv_used):
            gauge.set(0)

    def _step(self, runner: Runner, batch: list[Sequence]) -> None:
        try:
            begun_at = self._clock()
            chunks = [self._next_chunk(runner, sequence) for sequence in batch]
            sampled = runner.step(chunks)
        except RunnerLostError:
            raise
        except Exception as exc:
            if len(batch) == 1:
                self._end_failed(runner, batch[0], exc)
                return
            logger.warning("A step of %d sequences failed (%s); each is tried alone.", len(batch), summary(exc))
            for sequence in batch:
                self._step(runner, [sequence])
        else:
            made_at = self._clock()
            for chunk, one in zip(chunks, sampled, strict=True):
                self._accept(runner, chunk, one, made_at)
            self._metrics.stepped(
                sequences=len(batch),
                tokens=sum(one is not None for one in sampled),
                prompt_tokens=sum(len(chunk.token_ids) for chunk in chunks if chunk.is_prefill),
                took_s=made_at - begun_at,
            )

    def _next_chunk(self, runner: Runner, sequence: Sequence) -> Chunk:
        if sequence.cached is None:
            sequence.computed = sequence.cached = runner.join(sequence)
            self._metrics.joined(cached=sequence.cached)
        return sequence.next_chunk(self._prefill_chunk)

    def _end_failed(self, runner: Runner, sequence: Sequence, exc: Exception) -> None:
        logger.error("A step failed; its sequence ends.", exc_info=exc)
        error = exc if isinstance(exc, EngineError) else EngineError(f"The model failed: {summary(exc)}")
        self._metrics.failed.inc()
        runner.release(sequence)
        self._end(sequence, StopReason.ENGINE_ERROR, error)

    def _accept(self, runner: Runner, chunk: Chunk, sampled: Sampled | None, made_at: float) -> None:
        sequence = chunk.sequence
        sequence.computed += len(chunk.token_ids)
        if sampled is None:
            return
        stop_reason = sequence.append(sampled.token_id)
        if stop_reason is None:
            output = TokenOutput(token_id=sampled.token_id, made_at=made_at, logprobs=sampled.logprobs)
            self._token_queue.put(sequence.reader, output)
        else:
            runner.release(sequence)
            self._end(sequence, stop_reason, sampled=sampled, at=made_at)

    def _drop_cancelled(self, runner: Runner) -> None:
        cancelled = [sequence for sequence in self._scheduler if sequence.cancelled]
        for sequence in cancelled:
            self._metrics.cancelled.inc()
            runner.release(sequence)
            self._end(sequence, StopReason.CLIENT_STOP)
        if cancelled:
            self._publish()

    def _drop_slow(self, runner: Runner) -> None:
        """End the sequences whose readers have taken nothing for too long."""
        now = self._clock()
        full = [sequence for sequence in self._scheduler.running if sequence.reader.is_full]
        self._full_since = {sequence: self._full_since.get(sequence, now) for sequence in full}
        slow = [sequence for sequence, since in self._full_since.items() if now - since >= self._slow_reader_s]
        for sequence in slow:
            self._metrics.slow_readers.inc()
            runner.release(sequence)
            error = GenerationTimeoutError(f"Nobody read the answer for {self._slow_reader_s:g} s.")
            self._end(sequence, StopReason.TIMEOUT, error)
            del self._full_since[sequence]
        if slow:
            self._publish()

    def _publish(self) -> None:
        closed_loops = self._token_queue.publish()
        if closed_loops:
            for sequence in self._scheduler:
                sequence.cancelled |= sequence.reader.loop in closed_loops

    def _end(
        self,
        sequence: Sequence,
        stop_reason: StopReason,
        error: GenerationError | None = None,
        *,
        sampled: Sampled | None = None,
        at: float | None = None,
    ) -> None:
        """Take a sequence out, its memory being free already, and put its last output."""
        self._scheduler.remove(sequence)
        self._on_end()
        finish(self._token_queue, sequence, stop_reason, error, sampled=sampled, at=self._clock() if at is None else at)


def finish(
    token_queue: TokenQueue,
    sequence: Sequence,
    stop_reason: StopReason,
    error: GenerationError | None,
    *,
    at: float,
    sampled: Sampled | None = None,
) -> None:
    """Settle how a sequence ended, at the monotonic time ``at``, and put its last output."""
    sequence.stop_reason, sequence.error = stop_reason, error
    if sequence.on_stopped is not None:
        try:
            sequence.on_stopped(at, len(sequence.token_ids))
        except Exception:
            logger.exception("on_stopped failed")
    output = TokenOutput(
        token_id=None if sampled is None else sampled.token_id,
        made_at=at,
        stop_reason=stop_reason,
        logprobs=None if sampled is None else sampled.logprobs,
    )
    token_queue.put(sequence.reader, output)


def summary(exc: BaseException) -> str:
    """The first line of an exception, without its full stop; with its kind unless it is the engine's own."""
    line = (str(exc).strip() or "no message").splitlines()[0].removesuffix(".")
    return line if isinstance(exc, EngineError | RunnerLostError) else f"{type(exc).__name__}: {line}"
