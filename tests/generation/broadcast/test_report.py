from __future__ import annotations

from dataclasses import replace

import pytest

from generation.broadcast import Report, RunningStream, page_of
from generation.broadcast.report import SHOWN_STREAMS
from generation.recording.buckets import bucket_of

STREAM = RunningStream(
    id=7, model="scripted", source="api", state="streaming", age_s=1.5, deltas=3, tokens=4, tail="<b>é\u202e"
)
REPORT = Report(
    process="a",
    running=1,
    queued=0,
    started=2,
    tokens_per_s=10.0,
    ttft={bucket_of(0.5): 1},
    gaps={bucket_of(0.02): 99, bucket_of(1.0): 1},
    ends={"eos": 3},
    streams=(STREAM,),
)


def test_report_is_the_same_when_it_has_crossed_the_layer() -> None:
    assert Report.from_json(REPORT.to_json()) == REPORT


def test_page_adds_up_all_processes() -> None:
    other = replace(
        REPORT,
        process="b",
        running=2,
        queued=1,
        ends={"timeout": 1, "eos": 1, "lost": 1},
        streams=(replace(STREAM, id=9), replace(STREAM, id=8, state="queued")),
    )
    page = page_of([REPORT, other], content=True)
    assert {name: page[name] for name in page if name not in ("ttft", "gaps", "streams")} == {
        "processes": 2,
        "running": 3,
        "queued": 1,
        "started": 4,
        "tokens_per_s": 20.0,
        "ends": {"eos": 4, "lost": 1, "timeout": 1},
        "errors": 2,
        "more": 0,
    }
    assert [stream["id"] for stream in page["streams"]] == [9, 8, 7]
    assert page["ttft"]["n"] == 2
    assert page["ttft"]["p50_s"] == pytest.approx(0.5, rel=0.09)
    assert page["gaps"]["n"] == 200
    assert page["gaps"]["p95_s"] == pytest.approx(0.02, rel=0.09)


def test_percentiles_are_none_when_nothing_happened() -> None:
    page = page_of([replace(REPORT, ttft={}, gaps={})], content=True)
    assert page["ttft"] == {"n": 0, "p50_s": None, "p95_s": None, "p99_s": None}


@pytest.mark.parametrize(("content", "tail"), [(True, "<b>é\u202e"), (False, None)])
def test_text_is_there_only_for_those_who_may_see_it(content: bool, tail: str | None) -> None:
    assert page_of([REPORT], content=content)["streams"][0]["tail"] == tail


def test_the_newest_are_shown_and_the_others_counted_when_there_are_many() -> None:
    streams = tuple(replace(STREAM, id=number) for number in range(80))
    others = tuple(replace(STREAM, id=1000 + number) for number in range(80))
    page = page_of(
        [replace(REPORT, running=200, streams=streams), replace(REPORT, running=80, streams=others)], content=False
    )
    assert [stream["id"] for stream in page["streams"]] == [*range(1079, 999, -1), *range(79, 59, -1)]
    assert len(page["streams"]) == SHOWN_STREAMS
    assert page["more"] == 180
