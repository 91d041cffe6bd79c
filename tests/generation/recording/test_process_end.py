"""Processes that record streams end in every way; another one cleans up after them. Real processes, real SIGKILL."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import connection
from django.db.models.functions import Now

from generation.models import DeltaBatch, Stream, Worker
from generation.recording import get_writer
from tests.live_server import ROOT, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

#: `make soak` asks for more.
KILLS = int(os.environ.get("STREAMSITE_KILLS", "50"))
AT_ONCE = 10
LONGEST_LIFE_S = 1.5
HEARTBEAT_S = 0.5
#: 250 ms between checkpoints, and one write on a busy machine.
LONGEST_UNLOGGED_S = 0.25 + 0.75

Start = Callable[[str, int], "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start ``record_streams.py`` on this test's database."""
    processes: list[subprocess.Popen[str]] = []

    def start(how: str, count: int) -> subprocess.Popen[str]:
        database = connection.settings_dict
        address = (
            f"sqlite:///{database['NAME']}"
            if connection.vendor == "sqlite"
            else f"postgres://{database['USER']}@{database['HOST']}:{database['PORT']}/{database['NAME']}"
        )
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("record_streams.py")), how, str(count), str(HEARTBEAT_S)],
            cwd=ROOT,
            env={
                **os.environ,
                "DATABASE_URL": address,
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "PYTHONPATH": str(ROOT),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_nothing_stays_running_when_processes_are_killed_at_random_moments(start, settings):
    settings.STREAMSITE_HEARTBEAT_S = HEARTBEAT_S
    living = start("until-told", 1)
    living_id = int(living.stdout.readline())
    while living.stdout.readline() != "waiting\n":
        pass

    sent: dict[int, list[tuple[float, str]]] = defaultdict(list)
    parent = start("victims", AT_ONCE)
    with timed_writes() as writes:
        for _ in range(KILLS // AT_ONCE):
            for line in killed_at_random_moments(parent):
                stream_id, sent_at, text = line.split()
                sent[int(stream_id)].append((float(sent_at), f"{text} "))
    killed_at = time.monotonic()

    get_writer()  # another process that lives: this one
    wait_until(lambda: Stream.objects.running().count() == 1, timeout_s=15, what="the streams of the killed to be lost")
    assert time.monotonic() - killed_at < 15
    lost = Stream.objects.exclude(pk=living_id)
    for row in lost:
        check_lost(row, sent.pop(row.pk, []), writes)
    assert not sent
    assert 2 * KILLS < len(lost) <= 4 * KILLS  # most of the kills came in mid-stream

    assert Stream.objects.running().get().pk == living_id
    living.communicate("go\n", timeout=20)
    assert Stream.objects.get(pk=living_id).state == "done"


def killed_at_random_moments(parent: subprocess.Popen[str]) -> list[str]:
    """Let ``parent`` have children that open streams and send, kill them all, and return what they said before."""
    print("go", file=parent.stdin, flush=True)
    said: list[str] = []
    pids: list[int] = []
    while len(pids) < AT_ONCE:
        line = parent.stdout.readline()
        assert line, "the victims ended by themselves"
        if line.startswith("pid "):
            pids.append(int(line.removeprefix("pid ")))
        else:
            said.append(line)
    # Read meanwhile, or they would wait for room in the pipe.
    reader = threading.Thread(target=lambda: said.extend(iter(parent.stdout.readline, "gone\n")))
    reader.start()
    moments = sorted((random.uniform(0.0, LONGEST_LIFE_S), pid) for pid in pids)
    begun_at = time.monotonic()
    for moment, pid in moments:  # the moment of the kill is what is random here
        time.sleep(max(0.0, begun_at + moment - time.monotonic()))
        os.kill(pid, signal.SIGKILL)
    reader.join(10)
    assert not reader.is_alive()
    return said


@contextlib.contextmanager
def timed_writes() -> Iterator[list[tuple[float, float]]]:
    """Write all the time; yields when each began and ended, because a database may stall for a second by itself."""
    writes: list[tuple[float, float]] = []
    done = threading.Event()

    def write() -> None:
        worker = Worker.objects.create(hostname="beside", pid=1)
        while not done.wait(0.05):
            began_at = time.monotonic()
            Worker.objects.filter(pk=worker.pk).update(heartbeat_at=Now())
            writes.append((began_at, time.monotonic()))
        connection.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield writes
    finally:
        done.set()
        thread.join(20)


def check_lost(row: Stream, sent: list[tuple[float, str]], writes: list[tuple[float, float]]) -> None:
    """The record is a prefix of what was sent, ends shortly before the kill, and agrees with its own log."""
    assert (row.state, row.stop_reason, row.ended_by) == ("lost", "lost", "server")
    assert "".join(text for _, text in sent).startswith(row.text)
    missing = sent[row.delta_count :]
    if missing:
        first_at, last_at = missing[0][0], missing[-1][0]
        meanwhile = [end - began for began, end in writes if began < last_at and end > first_at]
        assert last_at - first_at <= LONGEST_UNLOGGED_S + max(meanwhile, default=0.0)
    batches = DeltaBatch.objects.filter(stream=row)
    assert "".join(delta["text"] for batch in batches for delta in batch.deltas) == row.text
    first_seqs = [batch.first_seq for batch in batches]
    ends = [batch.first_seq + len(batch.deltas) for batch in batches]
    assert first_seqs == [1, *ends][: len(first_seqs)]


def test_what_was_ended_is_stored_when_a_process_leaves_without_flushing(start, settings):
    settings.STREAMSITE_HEARTBEAT_S = HEARTBEAT_S
    process = start("exit", 3)
    first, *rest = (int(word) for word in process.stdout.readline().split())
    process.communicate(timeout=20)
    assert process.returncode == 0
    assert {Stream.objects.get(pk=stream_id).state for stream_id in rest} == {"done"}
    assert {Stream.objects.get(pk=stream_id).text for stream_id in rest} == {"0 1 2 "}

    get_writer()
    wait_until(lambda: not Stream.objects.running().exists(), timeout_s=15, what="the stream without an end to be lost")
    assert Stream.objects.get(pk=first).text == "0 1 2 "
