"""What the trends page shows, read from the hours that `recording.trends` counted, never from streams.

In: a span, perhaps one model. Out: slots of an hour or a day each, and totals per model; empty slots are there too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from generation.models import StreamHour
from generation.recording.buckets import percentile
from generation.recording.trends import HOUR, hour_of

DAY = timedelta(days=1)
#: The figures of an hour that the page shows.
SHOWN = ("ttft_visible", "tpot", "total")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """So many slots of one length, the last one being now's."""

    key: str
    label: str
    slots: int
    step: timedelta

    def start(self, now: datetime) -> datetime:
        last = hour_of(now) if self.step == HOUR else hour_of(now).replace(hour=0)
        return last - (self.slots - 1) * self.step


SPANS = {
    span.key: span
    for span in (
        Span(key="24h", label="24 hours, by hour", slots=24, step=HOUR),
        Span(key="7d", label="7 days, by hour", slots=168, step=HOUR),
        Span(key="30d", label="30 days, by day", slots=30, step=DAY),
        Span(key="90d", label="90 days, by day", slots=90, step=DAY),
    )
}


@dataclass(slots=True, kw_only=True)
class Totals:
    """The streams started in ``[start, end)``, of one model or of all."""

    start: datetime
    end: datetime
    streams: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    figures: dict[str, Counter[int]] = field(default_factory=lambda: {name: Counter() for name in SHOWN})
    held_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    held: Counter[str] = field(default_factory=Counter)

    def add(self, counted: _Counted) -> None:
        self.streams += counted.streams
        self.ends.update(counted.ends)
        for counts, added in zip(self.figures.values(), counted.figures, strict=True):
            counts.update({int(bucket): count for bucket, count in added.items()})
        for cause, (count, total_s) in counted.holds.items():
            self.held[cause] += count
            self.held_s[cause] += total_s

    def count(self, figure: str) -> int:
        return sum(self.figures[figure].values())

    def percentile(self, figure: str, percent: float) -> float | None:
        return percentile(self.figures[figure], percent)


@dataclass(slots=True)
class _Counted:
    """One model in one slot, as the rows have it: thousands of them are added up, so the keys stay as they are."""

    streams: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    figures: tuple[dict[str, int], ...] = field(default_factory=lambda: tuple({} for _ in SHOWN))
    holds: dict[str, tuple[int, float]] = field(default_factory=dict)

    def add(self, streams: int, ends: dict[str, int], holds: dict[str, Any], *figures: dict[str, int]) -> None:
        self.streams += streams
        for counts, added in zip((self.ends, *self.figures), (ends, *figures), strict=True):
            for key, count in added.items():
                counts[key] = counts.get(key, 0) + count
        for cause, held in holds.items():
            count, total_s = self.holds.get(cause, (0, 0.0))
            self.holds[cause] = (count + held["count"], total_s + held["total_s"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends:
    """Slots in order of time, of the model asked for; ``models`` are all models of the span, by name."""

    slots: list[Totals]
    models: dict[str, Totals]


def read_trends(span: Span, *, now: datetime, model: str = "") -> Trends:
    """Read one span; one query."""
    start = span.start(now)
    end = start + span.slots * span.step
    slots = [Totals(start=start + at * span.step, end=start + (at + 1) * span.step) for at in range(span.slots)]
    models: dict[str, Totals] = {}
    rows = StreamHour.objects.filter(hour__gte=start, hour__lt=end).order_by()
    counted: dict[tuple[int, str], _Counted] = {}
    for hour, name, *counts in rows.values_list("hour", "model", "streams", "ends", "holds", *SHOWN).iterator():
        counted.setdefault(((hour - start) // span.step, name), _Counted()).add(*counts)
    for (at, name), cell in counted.items():
        models.setdefault(name, Totals(start=start, end=end)).add(cell)
        if not model or name == model:
            slots[at].add(cell)
    return Trends(slots=slots, models=dict(sorted(models.items())))
