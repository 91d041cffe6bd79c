"""Collects one stream on its event loop; the writer thread carries what is new to the database.

In: deltas with the time each was handed to the server, then one end, then perhaps the news that generation stopped.
Nothing here touches the database, waits, or raises. If the database stays away for so long that the process-wide limit
of unsaved deltas is reached, the log of the stream ends there (``log_incomplete``); its text and figures go on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import regex

from generation.output import Delta, EndedBy, StopReason, Usage
from generation.protocol.tool_calls import ToolCallJoiner
from generation.recording.spans import StreamSpan
from generation.recording.writer import Writer, get_writer
from generation.text import HoldLedger, Proof

_CLUSTER = regex.compile(r"\X")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnd:
    """How a stream ended; every time is in monotonic seconds.

    ``token_times`` and ``token_ids`` may still be growing: they are copied when the record is closed. ``gone_at`` is
    when the client left or pressed Stop. ``error_body`` is the error object that the reader gets. ``ended_by`` is given
    when it is not who the reason names. ``prove`` takes the whole text and is called in the writer thread; it returns
    None where there is nothing to compare with.
    """

    stop_reason: StopReason
    ended_at: float
    stop_string: str | None = None
    error: str = ""
    error_body: Mapping[str, Any] | None = None
    usage: Usage | None = None
    begun_at: float | None = None
    token_times: Sequence[float] = ()
    first_token_at: float | None = None
    token_ids: Sequence[int] | None = None
    prompt_tokens: int | None = None
    upstream_id: str = ""
    seen_chars: int | None = None
    gone_at: float | None = None
    ended_by: EndedBy | None = None
    prove: Callable[[str], Proof | None] | None = None


class Recorder:
    """The open record of one stream; made after `open_stream`, ended by exactly one `finish` that counts."""

    def __init__(
        self,
        stream_id: int,
        *,
        received_at: float,
        model: str = "",
        started_at: datetime | None = None,
        span: StreamSpan | None = None,
        writer: Writer | None = None,
    ) -> None:
        self.stream_id = stream_id
        self.model = model
        self.started_at = started_at
        self.span = span
        self.received_at = received_at
        self.sent_times: list[float] = []
        self.holds = HoldLedger()
        self.tool_calls = ToolCallJoiner()
        #: Set when deltas of this stream had to be left out of the log.
        self.log_incomplete = False
        self.end: StreamEnd | None = None
        #: When generation really ended and how many tokens were made by then.
        self.stop: tuple[float, int | None] | None = None
        self._pieces: list[str] = []
        # Appended by the event loop, emptied from the other side by the writer thread: both ends of a deque are atomic.
        self._unsaved: deque[tuple[Delta, float]] = deque()
        self._saved_count = 0
        self._lock = threading.Lock()
        self._writer = writer or get_writer()
        self._writer.add(self)

    def delta(self, delta: Delta, sent_at: float) -> None:
        """Record a delta that was just handed to the server. A delta after the end is not part of the record."""
        if self.end is not None:
            return
        self._pieces.append(delta.text)
        self.sent_times.append(sent_at)
        if delta.holds:
            self.holds.add(delta)
        if delta.tool_calls:
            self.tool_calls.push(delta.tool_calls)
        if self.log_incomplete:
            return
        if len(self._unsaved) < self._writer.unsaved_limit:
            self._unsaved.append((delta, sent_at))
        else:
            self.log_incomplete = True

    def finish(self, end: StreamEnd) -> None:
        """Close the record; the first call wins. From any thread."""
        with self._lock:
            if self.end is not None:
                return
            self.end = replace(
                end,
                token_times=tuple(end.token_times),
                token_ids=None if end.token_ids is None else tuple(end.token_ids),
            )
        self._writer.ended(self)

    def stopped(self, at: float, tokens: int | None) -> None:
        """Note when generation really ended, and the tokens made by then. From any thread, before or after `finish`."""
        with self._lock:
            self.stop = (at, tokens)
            late = self.end is not None
        if late:
            self._writer.ended(self)

    @property
    def text(self) -> str:
        """The text recorded so far."""
        return "".join(self._pieces)

    def tail(self, chars: int) -> str:
        """The last ``chars`` characters so far, from the beginning of a cluster; never joins the whole text."""
        pieces: list[str] = []
        length = 0
        for piece in reversed(self._pieces):
            pieces.append(piece)
            length += len(piece)
            if length > chars:
                break
        text = "".join(reversed(pieces))
        # What is cut off is perhaps a part of the first cluster.
        return text if length <= chars else _CLUSTER.sub("", text[-chars:], count=1)

    @property
    def delta_count(self) -> int:
        return len(self._pieces)

    def take_unsaved(self) -> tuple[int, list[tuple[Delta, float]]]:
        """Hand over what is new, with the sequence number of its first delta. Called by the writer thread only."""
        taken = [self._unsaved.popleft() for _ in range(len(self._unsaved))]
        first_seq = self._saved_count + 1
        self._saved_count += len(taken)
        return first_seq, taken
