"""Counts what the streams of this process did in the last minutes, by looking at them now and then.

Used on the event loop. A look costs at most `GAPS_PER_LOOK` additions however many deltas there were; beyond that,
gaps are sampled. Nothing is called when a delta is sent.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from generation.broadcast.report import REPORTED_STREAMS, Report, RunningStream
from generation.recording.buckets import bucket_of

if TYPE_CHECKING:
    from generation.streaming import Generation

#: Percentiles and ends are of this many seconds.
WINDOW_S = 300
STARTED_S = 60
TOKENS_S = 10
GAPS_PER_LOOK = 2000
TAIL_CHARS = 200


@dataclass(slots=True)
class _Second:
    number: int
    started: int = 0
    tokens: int = 0
    ttft: Counter[int] = field(default_factory=Counter)
    gaps: Counter[int] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Seen:
    """How far a generation had come when it was last looked at."""

    deltas: int = 0
    tokens: int = 0


class Meter:
    """`look` at what runs, `ended` for each that ends; `report` tells."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun_at = clock()
        self._seen: dict[Generation, _Seen] = {}
        self._seconds: deque[_Second] = deque()
        # The sums of all seconds kept, so that a report need not add them up.
        self._ttft: Counter[int] = Counter()
        self._gaps: Counter[int] = Counter()
        self._ends: Counter[str] = Counter()

    def look(self, generations: Collection[Generation]) -> None:
        """Count what is new in the generations that run."""
        self._forget_old()
        for generation in generations:
            self._count(generation, most=max(10, GAPS_PER_LOOK // len(generations)))

    def ended(self, generation: Generation) -> None:
        """Count what is left of a generation, and its end."""
        self._count(generation, most=GAPS_PER_LOOK)
        del self._seen[generation]
        if generation.stop_reason is not None:
            self._second().ends[generation.stop_reason] += 1
            self._ends[generation.stop_reason] += 1

    def report(self, process: str, generations: Collection[Generation]) -> Report:
        """What is known since the last `look`."""
        newest = sorted(generations, key=lambda generation: -generation.stream_id)[:REPORTED_STREAMS]
        now = self._clock()
        return Report(
            process=process,
            running=len(generations),
            queued=sum(not generation.begun for generation in generations),
            started=self._last("started", STARTED_S),
            tokens_per_s=self._last("tokens", TOKENS_S) / max(1.0, min(TOKENS_S - 0.5, now - self._begun_at)),
            ttft=dict(self._ttft),
            gaps=dict(self._gaps),
            ends=dict(self._ends),
            streams=tuple(_running(generation, now) for generation in newest),
        )

    def _count(self, generation: Generation, *, most: int) -> None:
        second = self._second()
        seen = self._seen.get(generation)
        if seen is None:
            seen = self._seen[generation] = _Seen()
            second.started += 1
        sent = generation.sent_times
        if sent and not seen.deltas:
            seen.deltas = 1
            bucket = bucket_of(sent[0] - generation.received_at)
            second.ttft[bucket] += 1
            self._ttft[bucket] += 1
        for at in range(max(seen.deltas, len(sent) - most, 1), len(sent)):
            bucket = bucket_of(sent[at] - sent[at - 1])
            second.gaps[bucket] += 1
            self._gaps[bucket] += 1
        seen.deltas = len(sent)
        second.tokens += generation.tokens_made - seen.tokens
        seen.tokens = generation.tokens_made

    def _second(self) -> _Second:
        number = int(self._clock())
        if not self._seconds or self._seconds[-1].number != number:
            self._seconds.append(_Second(number))
        return self._seconds[-1]

    def _last(self, name: str, seconds: int) -> int:
        """The sum over the last seconds, the present one included, which is half over on average."""
        first = int(self._clock()) - seconds + 1
        total = 0
        for second in reversed(self._seconds):
            if second.number < first:
                break
            total += getattr(second, name)
        return total

    def _forget_old(self) -> None:
        oldest = self._clock() - WINDOW_S
        while self._seconds and self._seconds[0].number < oldest:
            second = self._seconds.popleft()
            # Counters drop what comes to nothing.
            self._ttft -= second.ttft
            self._gaps -= second.gaps
            self._ends -= second.ends


def _running(generation: Generation, now: float) -> RunningStream:
    deltas = len(generation.sent_times)
    return RunningStream(
        id=generation.stream_id,
        model=generation.model,
        source=generation.origin.source,
        state="streaming" if deltas else "prefill" if generation.begun else "queued",
        age_s=round(now - generation.received_at, 1),
        deltas=deltas,
        tokens=generation.tokens_made,
        tail=generation.tail(TAIL_CHARS),
    )
