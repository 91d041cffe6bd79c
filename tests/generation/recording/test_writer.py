from __future__ import annotations

import logging
import os
import threading
import time

import pytest
from django.db import OperationalError, connection
from django.db.backends.signals import connection_created

from generation.models import DeltaBatch, Stream
from generation.output import StopReason
from generation.recording import Recorder, StreamEnd, close_writer, get_writer, writer
from tests.generation.recording.outage import database_away
from tests.live_server import wait_until


def end(ended_at: float = 9.0) -> StreamEnd:
    return StreamEnd(stop_reason=StopReason.EOS, ended_at=ended_at)


class Heard(logging.Handler):
    """Sets an event once a message begins like this."""

    def __init__(self, beginning: str) -> None:
        super().__init__()
        self.beginning = beginning
        self.event = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith(self.beginning):
            self.event.set()


@pytest.fixture
def outage_noticed():
    heard = Heard("The database cannot be written to")
    writer.logger.addHandler(heard)
    yield heard.event
    writer.logger.removeHandler(heard)


def test_everything_recorded_before_a_flush_is_stored_after_it(open_row, delta):
    open_recorder, ended_recorder = (Recorder(open_row(), received_at=0.0) for _ in range(2))
    open_recorder.delta(delta("still open"), 1.0)
    ended_recorder.delta(delta("ended"), 1.0)
    ended_recorder.finish(end())
    assert get_writer().flush()
    assert DeltaBatch.objects.get(stream=open_recorder.stream_id).deltas[0]["text"] == "still open"
    assert Stream.objects.get(pk=open_recorder.stream_id).state == "running"
    assert Stream.objects.get(pk=ended_recorder.stream_id).text == "ended"


def test_deltas_are_stored_by_themselves_while_a_stream_runs(open_row, delta):
    recorder = Recorder(open_row(), received_at=0.0)
    recorder.delta(delta("by itself"), 1.0)
    wait_until(DeltaBatch.objects.filter(stream=recorder.stream_id).exists, what="the first checkpoint")


def test_deltas_are_stored_by_themselves_when_the_stream_is_the_first_after_a_silence(open_row, delta, settings):
    settings.STREAMSITE_HEARTBEAT_S = 600  # or the next beat would do
    for number in range(3):
        assert get_writer().flush()
        wait_until(lambda: get_writer()._idle, what="the writer to sleep until it is roused")
        recorder = Recorder(open_row(), received_at=0.0)
        recorder.delta(delta("after a silence", number), 1.0)
        wait_until(DeltaBatch.objects.filter(stream=recorder.stream_id).exists, what="the first checkpoint")
        recorder.finish(end())


def test_ends_that_come_together_share_a_transaction(open_row, monkeypatch):
    recorders = [Recorder(open_row(), received_at=0.0) for _ in range(20)]
    assert get_writer().flush()
    stored: list[int] = []
    monkeypatch.setattr(writer, "store", lambda entries: stored.append(len(entries)))
    # On a busy machine these ends may come further apart than those that are to share one.
    monkeypatch.setattr(writer, "END_DELAY_S", 0.5)
    for recorder in recorders:
        recorder.finish(end())
        time.sleep(0.001)
    wait_until(lambda: sum(stored) == 20, what="all ends")
    assert len(stored) < 10


def test_a_running_stream_is_stored_at_most_every_250_ms_when_others_end_all_the_time(open_row, delta):
    running = Recorder(open_row(), received_at=0.0)
    began_at = time.monotonic()
    for number in range(30):
        running.delta(delta("x", number), time.monotonic())
        Recorder(open_row(), received_at=0.0).finish(end())
        time.sleep(0.02)
    took_s = time.monotonic() - began_at
    assert get_writer().flush()
    assert Stream.objects.filter(state="done").count() == 30
    assert DeltaBatch.objects.filter(stream=running.stream_id).count() <= took_s / 0.25 + 2


def test_an_end_is_stored_at_once(open_row):
    quickest_s = 10.0
    for _ in range(10):
        recorder = Recorder(open_row(), received_at=0.0)
        assert get_writer().flush()  # the next checkpoint is 250 ms away
        began_at = time.monotonic()
        recorder.finish(end())
        wait_until(Stream.objects.filter(pk=recorder.stream_id, state="done").exists, what="the end")
        quickest_s = min(quickest_s, time.monotonic() - began_at)
    assert quickest_s < 0.125  # with the checkpoints it would be more


def test_many_ends_from_many_threads_are_all_stored(open_row, delta):
    recorders = [Recorder(open_row(), received_at=0.0) for _ in range(200)]

    def record(mine: list[Recorder]) -> None:
        for recorder in mine:
            for number in range(5):
                recorder.delta(delta(str(number), number), float(number))
            recorder.finish(end())

    threads = [threading.Thread(target=record, args=[recorders[start::4]]) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert get_writer().flush(timeout=30)
    assert set(Stream.objects.values_list("state", "text", "delta_count")) == {("done", "01234", 5)}
    seqs = [
        (batch.stream_id, batch.first_seq + offset)
        for batch in DeltaBatch.objects.all()
        for offset in range(len(batch.deltas))
    ]
    assert len(seqs) == len(set(seqs)) == 1000


def test_no_stream_fails_and_nothing_is_lost_when_the_database_is_away_for_a_while(open_row, delta, outage_noticed):
    recorder = Recorder(open_row(), received_at=0.0)
    ends_meanwhile = Recorder(open_row(), received_at=0.0)
    recorder.delta(delta("before "), 1.0)
    assert get_writer().flush()
    with database_away():
        recorder.delta(delta("meanwhile ", 1), 2.0)
        ends_meanwhile.delta(delta("all of it"), 2.0)
        ends_meanwhile.finish(end())
        assert outage_noticed.wait(20)
        recorder.delta(delta("still away ", 2), 3.0)
        assert not get_writer().flush(timeout=0.1)
    recorder.delta(delta("back", 3), 4.0)
    recorder.finish(end())
    assert get_writer().flush(timeout=60)
    forget_dead_connections()
    for stream_id, texts in (
        (recorder.stream_id, ["before ", "meanwhile ", "still away ", "back"]),
        (ends_meanwhile.stream_id, ["all of it"]),
    ):
        row = Stream.objects.get(pk=stream_id)
        assert (row.state, row.text, row.log_incomplete) == ("done", "".join(texts), False)
        assert [delta["text"] for batch in row.batches.all() for delta in batch.deltas] == texts


def test_closing_gives_up_in_time_when_the_database_stays_away(open_row, outage_noticed):
    recorder = Recorder(open_row(), received_at=0.0)
    own = get_writer()
    assert own.flush()
    with database_away():
        recorder.finish(end())
        assert outage_noticed.wait(20)
        began_at = time.monotonic()
        close_writer(timeout=0.2)
        assert time.monotonic() - began_at < 5
    # What it could not store is not thrown away: should the process live on after all, it is stored.
    wait_until(lambda: own.flush(timeout=1), timeout_s=60, what="the database to be back")
    own.close()
    forget_dead_connections()
    assert Stream.objects.get(pk=recorder.stream_id).state == "done"


def test_everything_is_stored_when_the_writer_is_closed(open_row, delta):
    recorder, ended = (Recorder(open_row(), received_at=0.0) for _ in range(2))
    recorder.delta(delta("open"), 1.0)
    ended.finish(end())
    close_writer()
    assert DeltaBatch.objects.get(stream=recorder.stream_id).deltas[0]["text"] == "open"
    assert Stream.objects.get(pk=ended.stream_id).state == "done"


def test_the_thread_is_gone_when_the_writer_is_closed(open_row):
    open_row()
    # Its own: an end that an earlier test's stream told later may have started another writer's again.
    thread = get_writer()._thread
    assert thread is not None
    assert thread in threading.enumerate()
    close_writer()
    assert thread not in threading.enumerate()


def test_an_end_is_stored_when_it_comes_after_closing(open_row):
    recorder = Recorder(open_row(), received_at=0.0)
    own = get_writer()
    own.close()
    recorder.finish(end())
    assert own.flush()
    own.close()
    assert Stream.objects.get(pk=recorder.stream_id).state == "done"


def test_no_connection_is_held_when_no_stream_is_open(open_row, delta):
    opened = []

    def note(connection, **_) -> None:
        if threading.current_thread().name == "stream-writer":
            opened.append(connection)

    connection_created.connect(note)
    try:
        recorder = Recorder(open_row(), received_at=0.0)
        recorder.delta(delta("open"), 1.0)
        assert get_writer().flush()
        assert any(one.connection is not None for one in opened)
        recorder.finish(end())
        assert get_writer().flush()
        wait_until(lambda: all(one.connection is None for one in opened), what="the connection to be given back")
    finally:
        connection_created.disconnect(note)


def test_a_forked_child_has_a_writer_of_its_own(open_row):
    open_row()
    own = get_writer()
    child = os.fork()
    if child == 0:
        # No database here: a forked connection is the forker's affair.
        os._exit(0 if writer._writer is None and own is not None else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert get_writer() is own


def forget_dead_connections() -> None:
    """After an outage the pool may still hand this thread a connection that the server has ended."""
    connection.close()
    for _ in range(5):
        try:
            Stream.objects.exists()
        except OperationalError:
            connection.close()
        else:
            return
