"""Counts ended streams into their `StreamHour`: in the transaction that ends them, so each is counted exactly once.

In: the columns of an end, or rows to count anew (`rebuild`). Hours are those in which streams were started, as the
stream list filters by them. Rows are locked in one order, and after those of streams, so that no two writers wait for
one another in a circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction

from generation.models import Stream, StreamHour
from generation.output import StopReason
from generation.recording.buckets import bucket_of
from generation.recording.statements import find_locked, insert_new, update

HOUR = timedelta(hours=1)
#: The histograms of an hour, and the columns of a stream that they count.
FIGURES = {"ttft_visible": "ttft_visible_s", "ttft_model": "ttft_model_s", "tpot": "tpot_s", "total": "total_s"}
#: What of an hour's row changes.
_COUNTS = ("streams", "ends", "holds", *FIGURES)

Key = tuple[datetime, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedStream:
    """A stream whose end was just written; ``was_lost`` when it replaced the verdict of a reaper.

    When it was started is read from its row if it is not given.
    """

    stream_id: int
    columns: Mapping[str, Any]
    started_at: datetime | None = None
    model: str = ""
    was_lost: bool = False


class Tally:
    """Counts of one hour and model, made in memory and then added to the row."""

    def __init__(self) -> None:
        self.streams = 0
        self.ends: Counter[str] = Counter()
        self.figures: dict[str, Counter[int]] = {name: Counter() for name in FIGURES}
        self.holds: dict[str, tuple[int, float]] = {}

    def add(self, columns: Mapping[str, Any]) -> None:
        """Count one end; a figure that does not apply is not counted."""
        self.streams += 1
        self.ends[str(columns["stop_reason"])] += 1
        for name, column in FIGURES.items():
            if columns.get(column) is not None:
                self.figures[name][bucket_of(columns[column])] += 1
        for cause, totals in (columns.get("holds") or {}).items():
            count, total_s = self.holds.get(cause, (0, 0.0))
            self.holds[cause] = (count + totals["count"], total_s + (totals["total_s"] or 0.0))

    def take_back_lost(self) -> None:
        """Uncount a stream that was counted as lost and has ended otherwise."""
        self.streams -= 1
        self.ends[StopReason.LOST] -= 1

    def add_to(self, row: StreamHour) -> None:
        row.streams = max(0, row.streams + self.streams)
        row.ends = _sum(row.ends, self.ends)
        for name, counts in self.figures.items():
            setattr(row, name, _sum(getattr(row, name), {str(bucket): n for bucket, n in counts.items()}))
        for cause, (count, total_s) in self.holds.items():
            held = row.holds.get(cause, {"count": 0, "total_s": 0.0})
            row.holds[cause] = {"count": held["count"] + count, "total_s": round(held["total_s"] + total_s, 6)}


def count_ends(ended: Sequence[EndedStream]) -> None:
    """Count streams whose ends were written in this transaction; call it last there, once for each end."""
    if not ended:
        return
    keys = {end.stream_id: (hour_of(end.started_at), end.model) for end in ended if end.started_at and end.model}
    unknown = [end.stream_id for end in ended if end.stream_id not in keys]
    if unknown:
        rows = Stream.objects.filter(pk__in=unknown).values_list("pk", "started_at", "model")
        keys |= {pk: (hour_of(started_at), model) for pk, started_at, model in rows}
    tallies: dict[Key, Tally] = {}
    for end in ended:
        tally = tallies.setdefault(keys[end.stream_id], Tally())
        tally.add(end.columns)
        if end.was_lost:
            tally.take_back_lost()
    for key, row in _locked(tallies).items():
        tallies[key].add_to(row)
        update(StreamHour, {name: getattr(row, name) for name in _COUNTS}, id=row.pk)


def rebuild(
    *, since: datetime | None = None, exact: bool = False, report: Callable[[datetime], object] = lambda hour: None
) -> tuple[int, int]:
    """Count anew the hours that have streams, while others go on writing; returns (hours counted, rows kept).

    A row that counts more streams than are left was made before some were deleted; it is kept unless ``exact``.
    """
    at = since or datetime.min.replace(tzinfo=UTC)
    hours = kept = 0
    while True:
        following = Stream.objects.ended().filter(started_at__gte=at).order_by("started_at")
        started_at = following.values_list("started_at", flat=True).first()
        if started_at is None:
            return hours, kept
        hour = hour_of(started_at)
        report(hour)
        kept += _rebuild_hour(hour, exact=exact)
        hours += 1
        at = hour + HOUR


def hour_of(at: datetime) -> datetime:
    """When the hour of a time began."""
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _rebuild_hour(hour: datetime, *, exact: bool) -> int:
    """Replace the rows of one hour, and return how many were kept.

    The rows are locked before the streams are read: an end that is written meanwhile is either read here or added to
    the new row afterwards, never both. One of a model without a row needs that row, and another round.
    """
    streams = Stream.objects.ended().filter(started_at__gte=hour, started_at__lt=hour + HOUR)
    models = set(streams.order_by().values_list("model", flat=True).distinct())
    while True:
        with transaction.atomic():
            rows = _locked({(hour, model) for model in models})
            tallies: dict[Key, Tally] = {}
            for columns in streams.values("model", "stop_reason", "holds", *FIGURES.values()).iterator():
                tallies.setdefault((hour, columns["model"]), Tally()).add(columns)
            if tallies.keys() <= rows.keys():
                return sum(not _replace(rows[key], tally, exact=exact) for key, tally in tallies.items())
        models |= {model for _, model in tallies}


def _replace(row: StreamHour, tally: Tally, *, exact: bool) -> bool:
    if row.streams > tally.streams and not exact:
        return False
    fresh = StreamHour(pk=row.pk, hour=row.hour, model=row.model)
    tally.add_to(fresh)
    fresh.save(force_update=True)
    return True


def _locked(keys: Iterable[Key]) -> dict[Key, StreamHour]:
    """The rows of these keys, made if need be and locked until the transaction ends."""
    return {(hour, model): _locked_row(hour, model) for hour, model in sorted(keys)}


def _locked_row(hour: datetime, model: str) -> StreamHour:
    columns = find_locked(StreamHour, ("id", *_COUNTS), hour=hour, model=model)
    if columns is None:
        insert_new(StreamHour, [{"hour": hour, "model": model}])
        columns = find_locked(StreamHour, ("id", *_COUNTS), hour=hour, model=model)
    if columns is None:
        raise LookupError(f"the row of {model} at {hour} was deleted meanwhile")
    return StreamHour(hour=hour, model=model, **columns)


def _sum(stored: Mapping[str, int], added: Mapping[str, int]) -> dict[str, int]:
    """Both counts together, without what came to nothing."""
    both = {
        key: stored.get(key, 0) + added.get(key, 0) for key in [*stored, *(key for key in added if key not in stored)]
    }
    return {key: count for key, count in both.items() if count > 0}
