"""One generation in flight, from its first read to its recorded end.

In: a backend's `DeltaStream`. Out: its deltas, each recorded before it is handed on. However the stream ends, its
record is closed once, with the reason that came first. Runs on the event loop, except where a docstring says otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from django.conf import settings

from generation.backends.base import DeltaStream
from generation.exceptions import (
    EngineError,
    GenerationError,
    GenerationTimeoutError,
    ServerShutdownError,
    StoppedByStaffError,
)
from generation.output import Delta, EndedBy, StopReason, Usage
from generation.protocol import error_body
from generation.recording import Recorder, StreamEnd
from generation.request import GenerationRequest
from generation.streaming.live import live

logger = logging.getLogger(__name__)

#: A generation that nobody began to read by then was abandoned between the view and the response.
UNREAD_TIMEOUT_S = 10.0
#: A reader that does not come for its last frame by then is stuck; neither its record nor a drain waits for it.
LAST_READ_TIMEOUT_S = 3.0

_BY_THE_READER = frozenset({StopReason.CLIENT_DISCONNECT, StopReason.CLIENT_STOP})

#: Cancelled reads on their way out.
_leaving: set[asyncio.Task[Delta]] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Who asks, and from where; goes into the record."""

    source: str
    user_id: int | None = None
    session_key: str = ""
    conversation_id: uuid.UUID | None = None
    message_id: int | None = None
    client_stream_id: uuid.UUID | None = None
    client_address_class: str = ""
    api_key_id: int | None = None

    @property
    def owner(self) -> tuple[int | None, str]:
        """The same for two origins of one person (a user, else a browser session)."""
        return (self.user_id, "" if self.user_id is not None else self.session_key)


class Generation:
    """One recorded generation in flight: iterate for deltas; afterwards ``stop_reason`` and ``usage`` tell the end.

    The first of these ends it, and the record says which: the backend, `stop` (reader's Stop, time limit, shutdown),
    `close` (the reader has gone). Iteration raises GenerationError for ends that are failures.
    """

    def __init__(
        self,
        deltas: DeltaStream,
        recorder: Recorder,
        *,
        origin: Origin,
        wire_id: str,
        stream_id: int,
        request: GenerationRequest,
        choice: int = 0,
        received_at: float,
        started_at: datetime,
    ) -> None:
        self.origin = origin
        self.wire_id = wire_id
        self.stream_id = stream_id
        self.request = request
        self.choice = choice
        self.received_at = received_at
        self.started_at = started_at
        self.stop_reason: StopReason | None = None
        self.stop_string: str | None = None
        self._deltas = deltas
        self._recorder = recorder
        self._pending: asyncio.Task[Delta] | None = None
        self._loop = asyncio.get_running_loop()
        self._stopped: asyncio.Future[StopReason] = self._loop.create_future()
        self._stopped_at: float | None = None
        self._by_staff = False
        self._unread = self._loop.call_later(UNREAD_TIMEOUT_S, self.close)
        self._deadline = self._loop.call_later(
            settings.STREAMSITE_MAX_STREAM_S - (time.monotonic() - received_at), self.stop, StopReason.TIMEOUT
        )
        #: Since when it is the reader's turn, on the loop's clock; None while it is the model's.
        self._readers_since: float | None = None
        self._is_slow = False
        self._watch = self._loop.call_later(settings.STREAMSITE_SLOW_READER_S, self._look_for_reader)
        deltas.on_stopped = recorder.stopped
        live.add(self)

    @property
    def model(self) -> str:
        """The name of the model that answers."""
        return self.request.model

    @property
    def starts_prompt(self) -> bool:
        """Whether this is the first of the answers to its prompt, the one that counts the prompt's tokens."""
        return self.choice % self.request.n == 0

    @property
    def text(self) -> str:
        """The text handed on so far."""
        return self._recorder.text

    @property
    def tool_calls(self) -> list[dict[str, Any]]:
        """The tool calls handed on so far, as OpenAI's JSON."""
        return self._recorder.tool_calls.calls

    @property
    def signals(self) -> tuple[asyncio.Future[Any], ...]:
        """What to wait for until `readable`; of a generation that has begun."""
        return (self._stopped,) if self._pending is None else (self._pending, self._stopped)

    @property
    def readable(self) -> bool:
        """Whether the next read returns at once."""
        return self.stop_reason is not None or any(signal.done() for signal in self.signals)

    @property
    def begun(self) -> bool:
        """Whether generation has begun, as far as the backend can tell before its first delta."""
        return self._deltas.begun or self._recorder.delta_count > 0

    @property
    def sent_times(self) -> Sequence[float]:
        """When each delta was handed on; it grows."""
        return self._recorder.sent_times

    @property
    def tokens_made(self) -> int:
        """Tokens made so far; 0 for backends that do not know theirs."""
        return len(self._deltas.token_times)

    def tail(self, chars: int) -> str:
        """The last characters handed on, at a cost that does not grow with the text."""
        return self._recorder.tail(chars)

    @property
    def usage(self) -> Usage | None:
        """Token counts, so far or at the end; None when the backend does not know them."""
        if self._deltas.outcome and self._deltas.outcome.usage:
            return self._deltas.outcome.usage
        if self._deltas.prompt_tokens is None:
            return None
        return Usage(
            prompt_tokens=self._deltas.prompt_tokens,
            completion_tokens=len(self._deltas.token_times),
            cached_tokens=self._deltas.cached_tokens,
        )

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        while True:
            delta = await self.next_delta()
            if delta is not None:
                return delta

    async def next_delta(self, silence_s: float | None = None) -> Delta | None:
        """Return the next delta, or None when there was none for ``silence_s`` seconds.

        Raises StopAsyncIteration at a good end, GenerationError at a bad one; both after the record is closed.
        A cancellation closes the record and goes on.
        """
        self._unread.cancel()
        if self.stop_reason is not None:
            raise StopAsyncIteration
        try:
            return await self._wait(silence_s)
        except StopAsyncIteration:
            if self.stop_reason is None:
                self._end_well()
            raise
        except GenerationError as exc:
            self._end(exc.stop_reason, error=exc.message, told=exc)
            raise
        except asyncio.CancelledError:
            self.close()
            raise
        except Exception as exc:
            logger.exception("stream %s: the backend %r failed", self.stream_id, type(self._deltas).__name__)
            failure = EngineError("The model failed while it was answering.")
            self._end(StopReason.ENGINE_ERROR, error=f"{type(exc).__name__} in the backend", told=failure)
            raise failure from exc

    async def admitted(self) -> bool:
        """Wait until the backend has taken the request on; False when it refused it, which the next read raises."""
        return await self._deltas.admitted()

    def begin(self) -> None:
        """Let the backend begin; the first delta can then be awaited. Idempotent."""
        if not self._stopped.done():
            self._unread.cancel()
        if self._pending is None and self.stop_reason is None:
            self._pending, self._readers_since = self._loop.create_task(self._deltas.__anext__()), None
            self._pending.add_done_callback(self._note_turn)

    def stop(self, reason: StopReason, *, by_staff: bool = False) -> None:
        """End the stream for this reason, unless it has ended; the reader gets a last frame that says so.

        Call on the event loop. The backend is told at once, so at most one more decode step runs. ``by_staff``: not
        the reader stopped it, so the record says that the server did, and the reader gets an error.
        """
        if not self._stopped.done():
            self._by_staff = by_staff
            self._stopped_at = time.monotonic()
            self._stopped.set_result(reason)
            self._deltas.cancel()
            self._unread.cancel()
            self._unread = self._loop.call_later(LAST_READ_TIMEOUT_S, self.close)

    def close(self) -> None:
        """The reader is done with the stream or has gone: cancel what still runs and close the record.

        Synchronous, idempotent, thread-safe, because Django calls it from wherever the response dies.
        """
        if self.stop_reason is None:
            first = self._stopped.result() if self._stopped.done() else None
            gone = StopReason.SERVER_SHUTDOWN if live.draining else StopReason.CLIENT_DISCONNECT
            self._end(first or gone)

    def fail(self, cause: GenerationError) -> None:
        """End the stream because another answer to the same request failed, unless it has ended. Never awaits."""
        if self.stop_reason is None:
            error = f"Another answer to the same request failed: {cause.message}"
            self._end(cause.stop_reason, error=error, told=cause)

    async def _wait(self, silence_s: float | None) -> Delta | None:
        """Wait for whichever comes first: a delta, a stop, or the end of the allowed silence."""
        self.begin()
        pending = self._pending
        assert pending is not None
        either: set[asyncio.Future[Any]] = {pending, self._stopped}
        if not self.readable:
            await asyncio.wait(either, timeout=silence_s, return_when=asyncio.FIRST_COMPLETED)
        if self._stopped.done():
            self._raise_stopped(self._stopped.result())
        if not pending.done():
            return None
        self._pending, self._readers_since = None, self._loop.time()
        delta = pending.result()
        self._recorder.delta(delta, time.monotonic())
        return delta

    def _note_turn(self, pending: asyncio.Task[Delta]) -> None:
        self._readers_since = self._loop.time()

    def _look_for_reader(self) -> None:
        """End the stream when its reader, stuck in handing on what it took, has not come for the next for too long."""
        limit_s = settings.STREAMSITE_SLOW_READER_S
        away_s = 0.0 if self._readers_since is None else self._loop.time() - self._readers_since
        if away_s < limit_s:
            self._watch = self._loop.call_later(limit_s - away_s, self._look_for_reader)
        elif not self._stopped.done():
            self._is_slow = True
            self.stop(StopReason.TIMEOUT)

    def _raise_stopped(self, reason: StopReason) -> None:
        if self._is_slow:
            raise GenerationTimeoutError(f"Nobody read the answer for {settings.STREAMSITE_SLOW_READER_S:g} s.")
        if reason is StopReason.TIMEOUT:
            limit_s = settings.STREAMSITE_MAX_STREAM_S
            raise GenerationTimeoutError(f"The answer took longer than the {limit_s:g} s that a stream may take.")
        if reason is StopReason.SERVER_SHUTDOWN:
            raise ServerShutdownError("The server is shutting down; ask again in a moment.")
        if self._by_staff:
            raise StoppedByStaffError("A member of staff stopped this answer.")
        self._end(reason)
        raise StopAsyncIteration

    def _end_well(self) -> None:
        outcome = self._deltas.outcome
        if outcome is None or outcome.stop_reason.finish_reason is None:
            # The wire must not show a clean end for this.
            failure = EngineError("The model's answer ended without saying why.")
            self._end(StopReason.ENGINE_ERROR, error=failure.message, told=failure)
            raise failure
        self._end(outcome.stop_reason, stop_string=outcome.stop_string, cut=False)

    def _end(
        self,
        reason: StopReason,
        *,
        stop_string: str | None = None,
        error: str = "",
        told: GenerationError | None = None,
        cut: bool = True,
    ) -> None:
        """Close the record once, and let go of everything; ``told`` is what the reader gets. Thread-safe, no await."""
        if self.stop_reason is not None:
            return
        self.stop_reason = reason
        self.stop_string = stop_string
        now = time.monotonic()
        self._deltas.cancel()
        self._recorder.finish(
            StreamEnd(
                stop_reason=reason,
                ended_at=now,
                stop_string=stop_string,
                error=error,
                error_body=None if told is None else error_body(told),
                usage=self.usage,
                begun_at=self._deltas.begun_at,
                token_times=self._deltas.token_times,
                first_token_at=self._deltas.first_token_at,
                token_ids=self._deltas.token_ids,
                prompt_tokens=self._deltas.prompt_tokens,
                upstream_id=self._deltas.upstream_id,
                prove=functools.partial(self._deltas.prove, cut=cut),
                gone_at=(self._stopped_at or now) if reason in _BY_THE_READER else None,
                ended_by=EndedBy.SERVER if self._by_staff else None,
            )
        )
        # Timers and tasks belong to the loop; `close` may come from another thread, or after the loop's end.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._release)

    def _release(self) -> None:
        live.discard(self)
        self._unread.cancel()
        self._deadline.cancel()
        self._watch.cancel()
        pending, self._pending = self._pending, None
        if pending is not None:
            _leaving.add(pending)
            pending.add_done_callback(_forget)
            pending.cancel()


def _forget(task: asyncio.Task[Delta]) -> None:
    _leaving.discard(task)
    if not task.cancelled():
        task.exception()  # read, so that asyncio does not report it as lost
