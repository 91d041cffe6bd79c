from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest

from generation.broadcast import Meter, Report
from generation.broadcast.meter import GAPS_PER_LOOK, WINDOW_S
from generation.output import StopReason
from generation.recording.buckets import bucket_of
from generation.streaming import Generation, Origin


@dataclass(eq=False)
class Progress:
    """What the meter looks at, without the stream behind it."""

    stream_id: int = 1
    model: str = "scripted"
    origin: Origin = field(default_factory=lambda: Origin(source="api"))
    received_at: float = 1000.0
    begun: bool = True
    sent_times: list[float] = field(default_factory=list)
    tokens_made: int = 0
    stop_reason: StopReason | None = None

    def tail(self, chars: int) -> str:
        return "text"[-chars:]


class Metered:
    """A meter whose clock the test sets."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.meter = Meter(clock=lambda: self.now)

    def look(self, *running: Progress) -> Report:
        generations = cast("list[Generation]", list(running))
        self.meter.look(generations)
        return self.meter.report("here", generations)

    def end(self, progress: Progress, reason: StopReason) -> None:
        progress.stop_reason = reason
        self.meter.ended(cast("Generation", progress))


@pytest.fixture
def metered() -> Metered:
    return Metered()


def test_ttft_and_gaps_are_counted_once_when_looked_at_again(metered: Metered) -> None:
    progress = Progress(sent_times=[1000.5, 1000.6])
    metered.now = 1001.0
    metered.look(progress)
    progress.sent_times += [1000.7, 1001.7]
    metered.now = 1002.0
    report = metered.look(progress)
    assert report.ttft == {bucket_of(0.5): 1}
    assert sum(report.gaps.values()) == 3
    assert report.gaps[bucket_of(1.0)] == 1
    assert metered.look(progress).gaps == report.gaps


def test_a_stream_that_was_never_looked_at_is_counted_when_it_ends(metered: Metered) -> None:
    metered.end(Progress(sent_times=[1000.1, 1000.2], tokens_made=2), StopReason.EOS)
    report = metered.look()
    assert (report.running, report.ends) == (0, {"eos": 1})
    assert (sum(report.ttft.values()), sum(report.gaps.values())) == (1, 1)
    assert report.started == 1
    assert report.tokens_per_s > 0


@pytest.mark.parametrize(
    ("begun", "sent_times", "state", "queued"),
    [(False, [], "queued", 1), (True, [], "prefill", 0), (True, [1000.1], "streaming", 0)],
)
def test_state_says_how_far_a_stream_is(
    metered: Metered, begun: bool, sent_times: list[float], state: str, queued: int
) -> None:
    report = metered.look(Progress(begun=begun, sent_times=sent_times))
    assert (report.streams[0].state, report.queued) == (state, queued)


def test_rates_are_of_the_last_seconds(metered: Metered) -> None:
    progress = Progress()
    for second in range(60):
        metered.now = 1000.0 + second
        progress.tokens_made += 30
        metered.look(progress)
    metered.now = 1060.0
    report = metered.look(progress)
    assert report.tokens_per_s == pytest.approx(30, rel=0.11)
    assert report.started == 0


def test_everything_is_forgotten_when_the_window_is_over(metered: Metered) -> None:
    metered.end(Progress(sent_times=[1000.1, 1000.2], tokens_made=2), StopReason.EOS)
    metered.now = 1000.0 + WINDOW_S + 2
    report = metered.look()
    assert (report.ttft, report.gaps, report.ends, report.tokens_per_s) == ({}, {}, {}, 0.0)


def test_gaps_are_sampled_when_there_are_too_many_to_count(metered: Metered) -> None:
    fast = [Progress(sent_times=[1000 + n / 1e4 for n in range(50_000)]) for _ in range(10)]
    report = metered.look(*fast)
    assert sum(report.gaps.values()) == GAPS_PER_LOOK
    assert report.streams[0].deltas == 50_000
