from __future__ import annotations

import os
import threading
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection, transaction
from django.db.models.functions import Now

from generation.models import Worker
from generation.querysets import MISSED_BEATS
from generation.recording.heartbeat import Heartbeat

pytestmark = pytest.mark.django_db(transaction=True)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def heartbeat(clock, settings):
    settings.STREAMSITE_HEARTBEAT_S = 3.0
    return Heartbeat(clock=clock)


def age(worker_id: int, seconds: float) -> None:
    """Move a heartbeat into the past, on the database's clock."""
    Worker.objects.filter(pk=worker_id).update(heartbeat_at=Now() - timedelta(seconds=seconds))


def test_the_row_is_made_once_and_names_the_process(heartbeat):
    assert heartbeat.worker_id() == heartbeat.worker_id()
    assert list(Worker.objects.values_list("pid", flat=True)) == [os.getpid()]


def test_it_beats_by_the_databases_clock_when_due(heartbeat, clock):
    heartbeat.tick()
    worker_id = heartbeat.worker_id()
    age(worker_id, 100)
    clock.now += 2.9
    assert heartbeat.due_in_s == pytest.approx(0.1)
    heartbeat.tick()
    assert Worker.objects.dead().filter(pk=worker_id).exists()
    clock.now += 0.1
    assert heartbeat.due_in_s == pytest.approx(0.0)
    heartbeat.tick()
    assert not Worker.objects.dead().exists()
    assert Worker.objects.filter(pk=worker_id, heartbeat_at__lte=Now()).exists()


def test_a_new_row_is_made_when_the_old_one_vanished(heartbeat, clock):
    heartbeat.tick()
    first = heartbeat.worker_id()
    Worker.objects.all().delete()
    clock.now += 3
    heartbeat.tick()
    assert list(Worker.objects.values_list("pk", flat=True)) == [heartbeat.worker_id()]
    assert heartbeat.worker_id() != first


def test_a_row_of_a_rolled_back_transaction_is_not_used_again(heartbeat):
    with transaction.atomic():
        rolled_back = heartbeat.worker_id()
        transaction.set_rollback(True)
    assert not Worker.objects.filter(pk=rolled_back).exists()
    assert Worker.objects.filter(pk=heartbeat.worker_id()).exists()


def test_every_row_beats_when_two_threads_made_one_each(heartbeat, clock):
    with transaction.atomic():
        first, second = heartbeat.worker_id(), heartbeat.worker_id()
    assert first != second
    for worker_id in (first, second):
        age(worker_id, 100)
    heartbeat.tick()
    assert not Worker.objects.dead().exists()


def test_beating_and_opening_do_not_wait_for_each_other_when_neither_has_a_row(heartbeat):
    """The opener holds SQLite's write lock: were it to wait for the beating thread, both would stand still for 5 s."""
    other = threading.Thread(target=_tick_and_close, args=[heartbeat])
    with transaction.atomic():
        Worker.objects.filter(pk=0).update(pid=0)  # takes the write lock
        other.start()
        heartbeat.worker_id()
    other.join(timeout=4)
    assert not other.is_alive()


def test_the_dead_are_buried_at_the_first_tick(heartbeat, make_worker, make_running, stored):
    stream = make_running(make_worker(age_s=100))
    heartbeat.tick()
    assert stored(stream.pk).state == "lost"


def test_nobody_is_buried_until_all_could_beat_when_the_database_was_away(
    heartbeat, clock, make_worker, make_running, stored
):
    heartbeat.tick()
    stream = make_running(make_worker(age_s=60))
    clock.now += 60  # no beat went through for a minute: not ours, not the others'
    for _ in range(3):
        heartbeat.tick()
        assert stored(stream.pk).state == "running"
        clock.now += 3
    heartbeat.tick()
    assert stored(stream.pk).state == "lost"


def test_no_row_outlives_its_process_by_15_seconds_with_the_settings_as_shipped():
    assert (MISSED_BEATS + 1) * settings.STREAMSITE_HEARTBEAT_S < 15


def _tick_and_close(heartbeat: Heartbeat) -> None:
    heartbeat.tick()
    connection.close()
