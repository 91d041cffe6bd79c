"""What one process tells of its streams, and what the reports of all of them come to; pure.

Durations are counted in buckets (`recording.buckets`), so that percentiles can be taken over all processes. Reports
cross the channel layer as JSON.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from generation.output import StopReason
from generation.recording.buckets import percentile
from generation.recording.latency import state_of

#: Streams of one report, the newest ones; the numbers count all.
REPORTED_STREAMS = 50
#: Lines of the page's table.
SHOWN_STREAMS = 100
PERCENTS = (50, 95, 99)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningStream:
    """One stream at the time of its report; ``tail`` is the end of its text, ``state`` queued, prefill or streaming."""

    id: int
    model: str
    source: str
    state: str
    age_s: float
    deltas: int
    tokens: int
    tail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One process: what runs now, and what happened of late (`meter` says since when)."""

    process: str
    running: int
    queued: int
    started: int
    tokens_per_s: float
    ttft: Mapping[int, int]
    gaps: Mapping[int, int]
    ends: Mapping[str, int]
    streams: tuple[RunningStream, ...]

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Report:
        fields: dict[str, Any] = json.loads(text)
        for name in ("ttft", "gaps"):
            fields[name] = {int(bucket): count for bucket, count in fields[name].items()}
        fields["streams"] = tuple(RunningStream(**stream) for stream in fields["streams"])
        return cls(**fields)


def page_of(reports: Iterable[Report], *, content: bool) -> dict[str, Any]:
    """What the live page shows: the sums of all reports, the newest streams; their text only with ``content``."""
    reports = list(reports)
    streams = sorted((stream for report in reports for stream in report.streams), key=lambda stream: -stream.id)
    running = sum(report.running for report in reports)
    ends = _total(report.ends for report in reports)
    return {
        "processes": len(reports),
        "running": running,
        "queued": sum(report.queued for report in reports),
        "started": sum(report.started for report in reports),
        "tokens_per_s": round(sum(report.tokens_per_s for report in reports), 1),
        "ttft": _percentiles(_total(report.ttft for report in reports)),
        "gaps": _percentiles(_total(report.gaps for report in reports)),
        "ends": dict(sorted(ends.items(), key=lambda end: (-end[1], end[0]))),
        "errors": sum(n for reason, n in ends.items() if state_of(StopReason(reason)) in ("failed", "lost")),
        "streams": [_line(stream, content=content) for stream in streams[:SHOWN_STREAMS]],
        "more": running - len(streams[:SHOWN_STREAMS]),
    }


def _line(stream: RunningStream, *, content: bool) -> dict[str, Any]:
    line = asdict(stream)
    if not content:
        line["tail"] = None
    return line


def _total(counts: Iterable[Mapping[Any, int]]) -> Counter[Any]:
    total: Counter[Any] = Counter()
    for each in counts:
        total.update(each)
    return total


def _percentiles(counts: Mapping[int, int]) -> dict[str, float | int | None]:
    named: dict[str, float | int | None] = {"n": sum(counts.values())}
    for percent in PERCENTS:
        value = percentile(counts, percent)
        named[f"p{percent}_s"] = None if value is None else round(value, 5)
    return named
