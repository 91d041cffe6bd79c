from __future__ import annotations

import io
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.db.models.functions import Now

from generation.models import Stream, StreamHour, Worker
from generation.output import Delta, Hold, StopReason, Usage
from generation.recording import Recorder, StreamEnd, reap
from generation.recording.buckets import bucket_of
from generation.recording.entries import Entry, end_entry
from generation.recording.store import store
from tests.live_server import wait_until

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def end_of(open_row):
    """The end of a new stream: first delta at 0.5 s, three tokens, 2 s in all."""

    def end_of(stop_reason: StopReason = StopReason.EOS, *, holds: tuple[Hold, ...] = (), **changes: Any) -> Entry:
        # What the recorder does not know is read from the row.
        known = {"started_at": changes["started_at"], "model": "scripted"} if "started_at" in changes else {}
        recorder = Recorder(open_row(**changes), received_at=0.0, **known)
        if holds:
            recorder.delta(Delta(text="a", first_token=0, end_token=1, holds=holds), 0.5)
        end = StreamEnd(
            stop_reason=stop_reason,
            ended_at=2.0,
            token_times=(0.4, 1.0, 1.5),
            usage=Usage(prompt_tokens=1, completion_tokens=3),
        )
        return end_entry(recorder, end)

    return end_of


def counted() -> list[tuple[datetime, str, int, dict[str, int]]]:
    return list(StreamHour.objects.values_list("hour", "model", "streams", "ends"))


class TestCounting:
    def test_an_end_is_counted_with_its_figures_in_the_hour_it_was_started(self, end_of) -> None:
        holds = (Hold(cause="utf8", size=2, held_s=0.25), Hold(cause="stop", size=1, held_s=None))
        store([end_of(holds=holds, started_at=NOON + timedelta(minutes=59, seconds=59))])
        (hour,) = StreamHour.objects.all()
        assert (hour.hour, hour.model, hour.streams, hour.ends) == (NOON, "scripted", 1, {"eos": 1})
        assert hour.ttft_model == {str(bucket_of(0.4)): 1}
        assert hour.ttft_visible == {str(bucket_of(0.5)): 1}
        assert hour.tpot == {str(bucket_of(0.8)): 1}
        assert hour.total == {str(bucket_of(2.0)): 1}
        assert hour.holds == {"utf8": {"count": 1, "total_s": 0.25}, "stop": {"count": 1, "total_s": 0.0}}

    def test_hours_and_models_are_counted_apart_when_they_end_together(self, end_of) -> None:
        store(
            [
                end_of(started_at=NOON),
                end_of(StopReason.LENGTH, started_at=NOON),
                end_of(started_at=NOON + timedelta(hours=1)),
            ]
        )
        store([end_of(started_at=NOON)])
        assert counted() == [
            (NOON, "scripted", 3, {"eos": 2, "length": 1}),
            (NOON + timedelta(hours=1), "scripted", 1, {"eos": 1}),
        ]

    def test_an_end_is_counted_once_when_it_is_written_twice(self, end_of) -> None:
        end = end_of()
        store([end])
        store([end, end])
        assert counted() == [(NOON, "scripted", 1, {"eos": 1})]

    def test_a_lost_stream_is_counted_and_taken_back_when_its_owner_lives(self, end_of, make_worker) -> None:
        end = end_of()
        worker = make_worker(age_s=0)  # a dead one without streams may be forgotten at any moment
        Stream.objects.filter(pk=end.stream_id).update(worker=worker)
        Worker.objects.filter(pk=worker.pk).update(heartbeat_at=Now() - timedelta(seconds=60))
        reap()  # or the writer's own beat did
        wait_until(lambda: counted() == [(NOON, "scripted", 1, {"lost": 1})], what="the lost one to be counted")
        store([end])
        assert counted() == [(NOON, "scripted", 1, {"eos": 1})]

    def test_the_record_is_kept_when_counting_fails(self, end_of, caplog) -> None:
        StreamHour.objects.create(hour=NOON, model="scripted", ends=["not", "counts"])
        end = end_of()
        store([end])
        assert Stream.objects.get(pk=end.stream_id).total_s == 2.0
        assert "The ends of 1 streams are not counted." in caplog.text

    def test_two_queries_more_are_made_when_the_hour_is_there(self, end_of, django_assert_num_queries) -> None:
        store([end_of(started_at=NOON)])
        end = end_of(started_at=NOON)
        with django_assert_num_queries(6) as queries:
            store([end])
        assert [query["sql"].split()[0] for query in queries] == [
            "BEGIN", "UPDATE", "UPDATE", "SELECT", "UPDATE", "COMMIT",
        ]  # fmt: skip


class TestRebuild:
    def test_the_same_counts_come_out_when_nothing_is_missing(self, end_of) -> None:
        store([end_of(), end_of(StopReason.TIMEOUT), end_of(started_at=NOON + timedelta(days=2))])
        before = list(StreamHour.objects.values())
        assert run() == "2 hours counted."
        assert list(StreamHour.objects.values()) == before

    def test_hours_are_made_when_they_were_never_counted(self, end_of) -> None:
        store([end_of(), end_of(started_at=NOON + timedelta(days=400))])
        StreamHour.objects.all().delete()
        assert run() == "2 hours counted."
        assert [streams for _, _, streams, _ in counted()] == [1, 1]

    def test_running_streams_are_left_out(self, end_of, open_row) -> None:
        open_row()
        assert run() == "0 hours counted."

    def test_an_hour_keeps_its_counts_when_streams_were_deleted(self, end_of) -> None:
        store([end_of(), end_of()])
        Stream.objects.all()[0].delete()
        assert run() == "1 hours counted. 1 rows kept: they count deleted streams."
        assert [streams for _, _, streams, _ in counted()] == [2]
        assert run("--exact") == "1 hours counted."
        assert [streams for _, _, streams, _ in counted()] == [1]

    def test_only_later_hours_are_counted_when_told_so(self, end_of) -> None:
        store([end_of(), end_of(started_at=NOON + timedelta(days=1))])
        StreamHour.objects.all().delete()
        assert run("--since", "2026-05-02") == "1 hours counted."
        assert [hour for hour, *_ in counted()] == [NOON + timedelta(days=1)]

    def test_a_wrong_day_is_refused(self, db) -> None:
        with pytest.raises(CommandError, match="--since"):
            run("--since", "yesterday")

    def test_no_end_is_missed_or_counted_twice_when_streams_end_meanwhile(self, end_of) -> None:
        ends = [end_of() for _ in range(60)]
        store(ends[:10])

        def end_the_others() -> None:
            try:
                for end in ends[10:]:
                    store([end])
            finally:
                connection.close()

        other = threading.Thread(target=end_the_others)
        other.start()
        while other.is_alive():
            run()
        other.join()
        assert counted() == [(NOON, "scripted", 60, {"eos": 60})]


def run(*arguments: str) -> str:
    output = io.StringIO()
    call_command("rebuild_trends", *arguments, stdout=output)
    return output.getvalue().splitlines()[-1]
