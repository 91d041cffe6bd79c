"""The engine's thread: the only one that touches the model. Its life, and what others ask of it; `Rounds` is its work.

An exception that reaches the thread ends all that run, and the model is loaded once more; the second time the engine is
FAILED. Whatever happens, every submitted sequence gets a last output: nobody waits for ever.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from generation.engine.base import Engine, EngineState, Runner
from generation.engine.metrics import EngineMetrics
from generation.engine.rounds import Rounds, finish, summary
from generation.engine.sequence import Sequence
from generation.engine.token_queue import TokenQueue
from generation.exceptions import (
    BackendUnavailableError,
    EngineError,
    GenerationError,
    RateLimitError,
    ServerShutdownError,
)
from generation.output import StopReason

logger = logging.getLogger(__name__)


class TorchEngine(Engine):
    """Steps sequences over the `Runner` that ``load`` returns; ``load`` is called in the engine's thread.

    ``prefill_chunk`` is how many prompt ids one step computes: what a running stream may wait for a newcomer. A
    sequence whose reader takes nothing for ``slow_reader_s`` ends. ``name`` is for the metrics.
    """

    def __init__(
        self,
        load: Callable[[], Runner],
        *,
        max_sequences: int = 8,
        max_queue: int = 64,
        prefill_chunk: int = 256,
        slow_reader_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
        name: str = "default",
    ) -> None:
        self._load = load
        self._clock = clock
        self._capacity = max_sequences + max_queue
        self._metrics = EngineMetrics(name)
        self._metrics.slots.set(max_sequences)
        self._rounds = Rounds(
            max_sequences=max_sequences,
            prefill_chunk=prefill_chunk,
            slow_reader_s=slow_reader_s,
            clock=clock,
            metrics=self._metrics,
            on_end=self._count_end,
        )
        self._thread: threading.Thread | None = None
        #: Guards the fields below; never held during a step.
        self._changed = threading.Condition()
        self._state = EngineState.IDLE
        self._message = ""
        self._arrivals: list[Sequence] = []
        self._active = 0
        self._closing = False
        #: Set with each thing that can end a stall.
        self._nudged = False

    def start(self) -> None:
        with self._changed:
            if self._thread is None and not self._closing:
                self._state, self._message = EngineState.LOADING, "loading the model"
                thread = threading.Thread(target=self._run, name="engine", daemon=True)
                thread.start()
                self._thread = thread  # not before: one that has not begun looks dead

    def submit(self, sequence: Sequence) -> None:
        with self._changed:
            if self._closing:
                raise ServerShutdownError("The server is shutting down.")
            if self.state is EngineState.FAILED:
                raise BackendUnavailableError(self.message)
            if not self.has_room:
                raise RateLimitError("The model's queue is full. Try again in a moment.")
            self._active += 1
            sequence.reader.on_room = self._nudge
            self._arrivals.append(sequence)
            self._changed.notify()

    def cancel(self, sequence: Sequence) -> None:
        sequence.cancelled = True
        with self._changed:
            untaken = sequence in self._arrivals
            if untaken:
                self._arrivals.remove(sequence)
            self._nudged = True
            self._changed.notify()
        if untaken:
            # The thread never saw it, and it may be loading for many seconds yet.
            self._end_untaken([sequence], StopReason.CLIENT_STOP)

    def close(self) -> None:
        with self._changed:
            self._closing = True
            arrivals, self._arrivals = self._arrivals, []
            self._changed.notify()
        self._end_untaken(arrivals, StopReason.SERVER_SHUTDOWN, ServerShutdownError("The server is shutting down."))
        if self._thread is not None:
            self._thread.join(timeout=5)

    @property
    def state(self) -> EngineState:
        return EngineState.FAILED if self._is_dead else self._state

    @property
    def message(self) -> str:
        return "The engine's thread is gone. Restart the server." if self._is_dead else self._message

    @property
    def active(self) -> int:
        return self._active

    @property
    def has_room(self) -> bool:
        return self._active < self._capacity

    @property
    def _is_dead(self) -> bool:
        """Whether the thread has ended without a word: nobody must take that for health."""
        thread = self._thread
        is_over = self._closing or self._state is EngineState.FAILED
        return not is_over and thread is not None and not thread.is_alive()

    def _nudge(self) -> None:
        """Let the thread look again for something to do. Called from any thread; does not wait for a step."""
        with self._changed:
            self._nudged = True
            self._changed.notify()

    def _run(self) -> None:
        try:
            failure = self._serve()
            if failure is not None:
                self._restarting(failure)
                failure = self._serve()
                failure = failure and f"{failure} Restart the server; the log has the details."
        except BackendUnavailableError as exc:
            failure = exc.message
        except BaseException as exc:
            failure = _stopped_message(exc)
            logger.critical("The engine's thread ends. %s", failure, exc_info=exc)
        if failure is None:
            self._end_all(StopReason.SERVER_SHUTDOWN, ServerShutdownError("The server is shutting down."))
            return
        with self._changed:
            self._state, self._message = EngineState.FAILED, failure
        self._end_all(StopReason.ENGINE_ERROR, BackendUnavailableError(failure))

    def _serve(self) -> str | None:
        """Load the model and run until the engine is closed, or return what went wrong.

        Raises BackendUnavailableError when the model cannot be loaded.
        """
        runner = self._load_runner()
        try:
            with self._changed:
                self._state, self._message = EngineState.READY, runner.summary
            self._metrics.kv_bound.set(runner.kv_bound_bytes)
            while self._take_arrivals(runner):
                self._rounds.make_one(runner, is_closing=lambda: self._closing)
        except BaseException as exc:
            message = _stopped_message(exc)
            logger.error("%s", message, exc_info=exc)
            return message
        finally:
            runner.close()
        return None

    def _load_runner(self) -> Runner:
        try:
            return self._load()
        except BackendUnavailableError as exc:
            logger.error("%s", exc.message, exc_info=exc)
            raise
        except BaseException as exc:
            message = f"The model cannot be loaded: {summary(exc)}. Run `manage.py fetch_model --check`."
            logger.error("%s", message, exc_info=exc)
            raise BackendUnavailableError(message) from exc

    def _restarting(self, failure: str) -> None:
        """End what runs; what waits will run on the model that is loaded next."""
        with self._changed:
            self._state, self._message = EngineState.LOADING, "loading the model again, after a failure"
        self._metrics.restarts.inc()
        self._rounds.end_running(EngineError(failure))

    def _take_arrivals(self, runner: Runner) -> bool:
        """Wait until there is something to do; False when that is to end."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._closing
                    or self._arrivals
                    or self._nudged
                    or (len(self._rounds) and not self._rounds.is_stalled)
                ),
                timeout=self._rounds.until_next_slow(),
            )
            self._nudged = False
            arrivals, self._arrivals = self._arrivals, []
            closing = self._closing
        self._rounds.add(arrivals, runner)
        return not closing

    def _end_all(self, stop_reason: StopReason, error: GenerationError) -> None:
        with self._changed:
            arrivals, self._arrivals = self._arrivals, []
        self._rounds.end_all(stop_reason, error)
        self._end_untaken(arrivals, stop_reason, error)

    def _end_untaken(
        self, sequences: list[Sequence], stop_reason: StopReason, error: GenerationError | None = None
    ) -> None:
        """End sequences that the engine's thread never saw. Called from any thread."""
        token_queue = TokenQueue()
        for sequence in sequences:
            self._count_end()
            finish(token_queue, sequence, stop_reason, error, at=self._clock())
        token_queue.publish()

    def _count_end(self) -> None:
        with self._changed:
            self._active -= 1


def _stopped_message(exc: BaseException) -> str:
    return f"The engine stopped: {summary(exc)}."
