from __future__ import annotations

import contextlib
import errno
import json
import resource
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from django.db import OperationalError, connection

from generation.models import DeltaBatch, Stream
from generation.output import StopReason
from generation.recording import Recorder, StreamEnd, Writer
from generation.recording.entries import Entry, EntryKind, amendment_entry, deltas_entry, end_entry
from generation.recording.spool import Spool
from generation.recording.store import store
from tests.generation.recording.outage import database_away
from tests.live_server import wait_until

END = StreamEnd(stop_reason=StopReason.EOS, ended_at=2.0)
LINE = Entry(kind=EntryKind.DELTAS, stream_id=1, first_seq=1, deltas=[{"text": "é \x00 \u2028"}])


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*"))


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in files(folder))


class Store:
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def __call__(self, entries: Sequence[Entry]) -> None:
        self.entries += entries


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Let no file of this process grow past 4 KB."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture
def spool(tmp_path) -> Iterator[Spool]:
    spool = Spool(tmp_path)
    yield spool
    spool.release()


class TestFile:
    def test_entries_come_back_as_they_were_when_imported(self, spool, tmp_path):
        entries = [
            LINE,
            Entry(kind=EntryKind.END, stream_id=2, model="m", deltas=[], columns={"text": "🙂", "token_ids": [1, 2]}),
            Entry(kind=EntryKind.AMENDMENT, stream_id=3, deltas=[], columns={"wasted_tokens": None}),
        ]
        stored = Store()
        spool.append(entries[:1])
        spool.append(entries[1:])
        assert spool.import_all(stored) == 3
        assert stored.entries == entries
        assert files(tmp_path) == []

    def test_nothing_is_made_when_there_is_nothing_to_keep(self, tmp_path):
        spool = Spool(tmp_path / "spool")
        spool.append([])
        assert spool.import_all(Store()) == 0
        assert not (tmp_path / "spool").exists()

    def test_only_its_owner_may_read_it(self, spool, tmp_path):
        spool.append([LINE])
        assert files(tmp_path)[0].stat().st_mode & 0o777 == 0o600

    def test_it_is_left_alone_while_its_process_holds_it(self, spool, tmp_path):
        other, stored = Spool(tmp_path), Store()
        spool.append([LINE])
        assert other.import_all(stored) == 0
        spool.release()
        assert other.import_all(stored) == 1
        assert files(tmp_path) == []

    def test_it_stays_when_the_database_goes_away_in_the_middle(self, spool, tmp_path):
        stored = Store()
        spool.append([LINE] * 100)

        def store_once(entries: Sequence[Entry]) -> None:
            if stored.entries:
                raise OperationalError
            stored(entries)

        with pytest.raises(OperationalError):
            spool.import_all(store_once)
        assert spool.import_all(stored) == 100
        assert files(tmp_path) == []

    @pytest.mark.parametrize("cut", [1, 2, 30])
    def test_only_the_last_line_is_lost_when_the_process_died_while_writing_it(self, spool, tmp_path, caplog, cut):
        stored = Store()
        spool.append([LINE, LINE, LINE])
        spool.release()
        path = files(tmp_path)[0]
        path.write_bytes(path.read_bytes()[:-cut])
        assert spool.import_all(stored) == 2
        assert stored.entries == [LINE, LINE]
        assert "Line 4" in caplog.text

    def test_only_the_broken_line_is_lost_when_the_disk_changed_it(self, spool, tmp_path, caplog):
        stored = Store()
        spool.append([LINE, LINE, LINE])
        spool.release()
        path = files(tmp_path)[0]
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(lines[0] + lines[1] + lines[2].replace(b"text", b"test") + lines[3])
        assert spool.import_all(stored) == 2
        assert "Line 3" in caplog.text

    def test_it_stays_when_it_is_of_another_database(self, spool, tmp_path, caplog):
        spool.append([LINE])
        spool.release()
        name = connection.settings_dict["NAME"]
        connection.settings_dict["NAME"] = "another"
        try:
            assert spool.import_all(Store()) == 0
        finally:
            connection.settings_dict["NAME"] = name
        assert "another database" in caplog.text
        assert spool.import_all(Store()) == 1

    def test_nothing_of_it_is_kept_when_the_disk_is_full(self, spool, tmp_path):
        stored = Store()
        spool.append([LINE])
        with full_disk(), pytest.raises(OSError) as raised:
            spool.append([LINE] * 100)
        assert raised.value.errno == errno.EFBIG
        spool.append([LINE])
        assert spool.import_all(stored) == 2
        assert stored.entries == [LINE, LINE]

    def test_it_never_grows_past_its_limit(self, tmp_path):
        small = Spool(tmp_path, most_bytes=300)
        small.append([LINE])
        with pytest.raises(OSError, match="limit of 300 bytes"):
            small.append([LINE] * 3)
        small.release()
        assert files(tmp_path)[0].stat().st_size <= 300


def test_a_stream_is_whole_when_its_spooled_record_is_imported_twice(open_row, delta, spool):
    recorder = Recorder(open_row(), received_at=0.0)
    for number, text in enumerate(["a", "b \x00"]):
        recorder.delta(delta(text, number), 1.0 + number)
    entries = [
        deltas_entry(recorder, 1, [(delta("a", 0), 1.0)]),
        deltas_entry(recorder, 2, [(delta("b \x00", 1), 2.0)]),
        end_entry(recorder, END),
        amendment_entry(recorder, END),
    ]
    store(entries[:1])  # as when the process died in the middle of an import
    for _ in range(2):
        spool.append(entries)
        spool.import_all(store)
    row = Stream.objects.get()
    assert (row.state, row.text, row.total_s, row.log_incomplete) == ("done", "ab \x00", 2.0, False)
    assert (row.ended_at - row.started_at).total_seconds() == 2.0
    assert [batch.deltas[0]["text"] for batch in row.batches.all()] == ["a", "b \x00"]


class TestWriter:
    @pytest.fixture
    def writer(self, transactional_db, tmp_path):
        writer = Writer(unsaved_deltas=80, spool=Spool(tmp_path))
        yield writer
        writer.close()

    def test_the_log_is_whole_when_more_waits_than_memory_may_hold(self, writer, open_row, delta, tmp_path):
        recorder = Recorder(open_row(), received_at=0.0, writer=writer)
        assert writer.flush()
        with database_away():
            send(recorder, delta)
            wait_until(lambda: files(tmp_path), timeout_s=30, what="the spool file")
            for _ in range(3):
                size = size_of(tmp_path)
                for _ in range(30):
                    send(recorder, delta)
                wait_until(lambda s=size: size_of(tmp_path) > s, timeout_s=30, what="the next deltas")
        recorder.finish(END)
        assert writer.flush(timeout=60)
        row = reread(recorder.stream_id)
        assert (row.state, row.log_incomplete) == ("done", False)
        assert row.delta_count == 91
        batches = DeltaBatch.objects.filter(stream=row)
        assert "".join(delta["text"] for batch in batches for delta in batch.deltas) == row.text
        assert files(tmp_path) == []

    def test_the_end_is_stored_by_the_next_process_when_this_one_leaves_meanwhile(
        self, writer, open_row, delta, tmp_path
    ):
        recorder = Recorder(open_row(), received_at=0.0, writer=writer)
        assert writer.flush()
        with database_away():
            recorder.delta(delta("before leaving"), 1.0)
            recorder.finish(END)
            writer.close()
            lines = files(tmp_path)[0].read_bytes().splitlines()
        assert [json.loads(line[9:]).get("kind") for line in lines] == [None, "deltas", "end"]
        following = Writer(spool=Spool(tmp_path))
        wait_until(lambda: following.flush(timeout=1), timeout_s=60, what="the database to be back")
        following.close()
        assert reread(recorder.stream_id).text == "before leaving"

    def test_the_gap_is_flagged_when_the_disk_is_full_too(self, writer, open_row, delta):
        recorder = Recorder(open_row(), received_at=0.0, writer=writer)
        assert writer.flush()
        with database_away(), full_disk():
            wait_until(
                lambda: send(recorder, delta) and recorder.log_incomplete, timeout_s=30, what="the memory to be full"
            )
            recorder.finish(END)
        # SQLite's own files may not grow in here either, so the disk is no longer full from here on.
        resource.setrlimit(
            resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
        )
        assert writer.flush(timeout=60)
        row = reread(recorder.stream_id)
        assert (row.state, row.log_incomplete, row.text) == ("done", True, recorder.text)


def send(recorder: Recorder, delta) -> bool:
    number = recorder.delta_count
    recorder.delta(delta(f"{number} ", number), float(number))
    return True


def reread(stream_id: int) -> Stream:
    from tests.generation.recording.test_writer import forget_dead_connections

    forget_dead_connections()
    return Stream.objects.get(pk=stream_id)
