from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection, transaction

from generation.models import Conversation, Stream, Worker
from generation.recording import reap
from tests.stored_streams import stored_deltas

ENDED = {"state": "done", "stop_reason": "eos", "ended_by": "model"}


def test_a_dead_workers_running_stream_is_lost_with_the_text_that_was_stored(make_worker, make_running):
    conversation = Conversation.objects.create()
    message = conversation.messages.create(role="assistant")
    stream = make_running(make_worker(age_s=10), "Hel", "lo \x00", message=message)
    assert reap() == 1
    row = Stream.objects.get(pk=stream.pk)
    assert (row.state, row.stop_reason, row.ended_by, row.finish_reason) == ("lost", "lost", "server", None)
    assert (row.text, row.delta_count, row.completion_tokens) == ("Hello \x00", 2, None)
    assert abs(row.ended_at - datetime.now(UTC)) < timedelta(seconds=5)
    message.refresh_from_db()
    assert message.content == "Hello \x00"


def test_deltas_are_joined_in_order_whatever_the_order_of_the_rows(make_worker, make_running):
    stream = make_running(make_worker(age_s=10))
    for first_seq, texts in ((3, ["c"]), (1, ["a", "b"]), (4, ["d", "e"])):
        stream.batches.create(first_seq=first_seq, deltas=stored_deltas(texts))
    assert reap() == 1
    assert Stream.objects.get(pk=stream.pk).text == "abcde"
    assert Stream.objects.get(pk=stream.pk).delta_count == 5


@pytest.mark.parametrize(
    ("age_s", "state"),
    [(0, "running"), (8, "running"), (10, "lost"), (3600, "lost")],
    ids=["just beaten", "two beats missed", "three beats missed", "long dead"],
)
def test_only_workers_that_missed_three_beats_are_dead(make_worker, make_running, age_s, state):
    stream = make_running(make_worker(age_s=age_s), "text")
    reap()
    assert Stream.objects.get(pk=stream.pk).state == state


def test_an_ended_stream_of_a_dead_worker_is_left_as_it_is(make_worker, make_running):
    stream = make_running(make_worker(age_s=100), "stored", **ENDED, text="stored and final")
    before = Stream.objects.values().get(pk=stream.pk)
    assert reap() == 0
    assert Stream.objects.values().get(pk=stream.pk) == before


@pytest.mark.parametrize(("age_s", "state"), [(590, "running"), (610, "lost")], ids=["may still run", "time is up"])
def test_a_stream_without_a_worker_is_lost_when_no_stream_may_run_that_long(
    transactional_db, make_running, settings, age_s, state
):
    settings.STREAMSITE_MAX_STREAM_S = 600
    stream = make_running(None, started_at=datetime.now(UTC) - timedelta(seconds=age_s))
    reap()
    assert Stream.objects.get(pk=stream.pk).state == state


def test_dead_workers_are_forgotten_only_when_no_stream_names_them(make_worker, make_running):
    make_worker(age_s=100)
    owner, alive = make_worker(age_s=100), make_worker(age_s=0)
    make_running(owner, **ENDED)
    reap()
    assert set(Worker.objects.all()) == {owner, alive}


def test_each_stream_is_lost_once_when_two_processes_reap(make_worker, make_running):
    worker = make_worker(age_s=100)
    for number in range(20):
        make_running(worker, f"text {number}")
    counts: list[int] = []
    together = threading.Barrier(2)

    def reap_beside_another() -> None:
        together.wait(5)
        counts.append(reap())
        connection.close()

    threads = [threading.Thread(target=reap_beside_another) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sum(counts) == 20
    assert set(Stream.objects.values_list("state", "delta_count")) == {("lost", 1)}


def test_the_owner_wins_when_it_ends_its_stream_while_another_reaps(make_worker, make_running):
    stream = make_running(make_worker(age_s=100), "half of it")
    reaped: list[int] = []

    def reap_beside_the_owner() -> None:
        reaped.append(reap())
        connection.close()

    reaper = threading.Thread(target=reap_beside_the_owner)
    with transaction.atomic():
        Stream.objects.filter(pk=stream.pk).update(**ENDED, text="all of it")
        reaper.start()
        reaper.join(0.5)  # PostgreSQL's reaper passes the locked row by; SQLite's waits for the owner
    reaper.join(10)
    assert reaped == [0]
    assert Stream.objects.get(pk=stream.pk).text == "all of it"
