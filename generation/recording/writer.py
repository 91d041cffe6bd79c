"""One thread per process that carries recorders to the database, beats for the process, and buries dead ones.

In: recorders, from any thread, without waiting. Out: their deltas at most every 250 ms, and their ends at once.
While the database is away for longer than a moment they go to the spool file; where that has no room either, they wait
here, ends without limit (there are no more than open streams, and none can be opened), deltas up to `UNSAVED_DELTAS`.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from django.conf import settings
from django.db import connection

from generation.recording.entries import Entry, amendment_entry, deltas_entry, end_entry
from generation.recording.heartbeat import Heartbeat
from generation.recording.spool import Spool
from generation.recording.store import AWAY, store
from generation.write_turn import write_turn

if TYPE_CHECKING:
    from generation.recording.recorder import Recorder

logger = logging.getLogger(__name__)
Waiting = TypeVar("Waiting")

#: A stream's deltas are stored at most this often, so a killed process loses no more than this.
CHECKPOINT_S = 0.25
#: Ends that come this soon after one another share a transaction, whose own cost is that of several ends.
END_DELAY_S = 0.02
#: Larger transactions would keep SQLite's write lock for too long.
TRANSACTION_ENTRIES = 64
#: A lock that another process holds for less than this is waited for; after it what waits goes to the spool file.
SPOOL_AFTER_S = 1.0
LOCK_TIMEOUT_MS = 1000
#: How often to look for what dead processes left in spool files.
SPOOL_CHECK_S = 5.0
#: Deltas that may wait in this process while the database is away (some 300 bytes each).
UNSAVED_DELTAS = 200_000
SHORTEST_BACK_OFF_S = 0.1
LONGEST_BACK_OFF_S = 5.0
CLOSE_TIMEOUT_S = 5.0
#: How long a request waits for what this process has yet to store.
REQUEST_FLUSH_TIMEOUT_S = 1.0


class Writer:
    """The thread and what waits for it; `get_writer` returns the one of this process."""

    def __init__(self, *, unsaved_deltas: int = UNSAVED_DELTAS, spool: Spool | None = None) -> None:
        self.heartbeat = Heartbeat()
        self._spool = spool or Spool(settings.STREAMSITE_VAR / "spool")
        self._unsaved_deltas = unsaved_deltas
        self._open: dict[Recorder, None] = {}
        self._ended: deque[Recorder] = deque()
        self._flushes: deque[threading.Event] = deque()
        self._wake = threading.Event()
        #: Whether the thread sleeps, or may be about to, until something comes.
        self._idle = True
        self._thread: threading.Thread | None = None
        # Guards the thread's coming and going, so that nothing is handed to a thread that has looked for the last time.
        self._life = threading.Lock()
        self._closing = threading.Event()
        self._give_up_at = 0.0
        # The rest belongs to the thread.
        self._entries: deque[Entry] = deque()
        self._acknowledge: list[threading.Event] = []
        self._sweep_at = 0.0
        self._back_off_s = 0.0
        self._retry_at = 0.0
        self._away_since: float | None = None
        self._import_at = 0.0
        self._spool_is_full = False

    def start(self) -> None:
        """Start the thread if it does not run. Idempotent, returns at once."""
        with self._life:
            if self._thread is not None:
                return
            self._closing.clear()
            thread = threading.Thread(target=self._run, name="stream-writer", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no threads left; what waits is safe, and the next call tries again
                logger.exception("The record writer could not start.")
            else:
                self._thread = thread

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until all that was recorded before this call is stored; False when it took too long."""
        stored = threading.Event()
        self._flushes.append(stored)
        self._rouse()
        return stored.wait(timeout)

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """Store what waits and end the thread. Idempotent; an end recorded later starts it again."""
        with self._life:
            thread = self._thread
            self._give_up_at = time.monotonic() + timeout
            self._closing.set()
        if thread is not None:
            self._wake.set()
            thread.join(timeout + 1)

    def add(self, recorder: Recorder) -> None:
        """Take in a recorder whose deltas are to be stored from now on. From any thread."""
        self._open[recorder] = None
        # In this order, and in the other one in `_wait`: either this sees that the thread sleeps for long, or the
        # thread that there is a recorder. Otherwise the next checkpoint is near enough.
        if self._idle:
            self._rouse()

    def ended(self, recorder: Recorder) -> None:
        """Take the end of a recorder, or news about its abort; never waits for the database. From any thread."""
        self._ended.append(recorder)
        self._rouse()

    @property
    def unsaved_limit(self) -> int:
        """How many unsaved deltas one recorder may keep: its share of the process's."""
        return self._unsaved_deltas // (len(self._open) or 1)

    def _rouse(self) -> None:
        self.start()
        self._wake.set()

    def _run(self) -> None:
        while True:
            self._wait()
            self._wake.clear()
            if time.monotonic() >= self._retry_at:
                self._try_pass()
            self._spool_what_waits()
            with self._life:
                if self._may_leave():
                    self._thread = None
                    break
        connection.close()

    def _wait(self) -> None:
        """Sleep until there is something to do; a failing database is left alone for longer and longer."""
        now = time.monotonic()
        if self._closing.is_set():
            time.sleep(max(0.0, min(self._retry_at, self._give_up_at) - now))
        elif self._back_off_s:
            self._closing.wait(max(0.0, min(self._retry_at - now, CHECKPOINT_S)))
        else:
            self._idle = True
            due_in_s = self.heartbeat.due_in_s
            if self._open:
                self._idle = False
                due_in_s = min(due_in_s, CHECKPOINT_S)
            self._wake.wait(due_in_s)
            self._idle = False
            if self._ended and not self._flushes:
                self._closing.wait(END_DELAY_S)

    def _may_leave(self) -> bool:
        if not self._closing.is_set():
            return False
        left = len(self._entries) + len(self._ended)
        if (left or self._flushes) and time.monotonic() < self._give_up_at:
            return False
        self._spool_what_waits()
        self._spool.release()
        if self._entries or self._ended:
            logger.error("Neither the database nor the spool file took %d records.", len(self._entries))
        return True

    def _try_pass(self) -> None:
        try:
            _wait_less_for_locks()
            if not self.heartbeat.due_in_s:
                with write_turn():
                    self.heartbeat.tick()
            self._import_spooled()
            self._store_entries()  # left from a failed pass
            self._gather()
            self._store_entries()
        except Exception as exc:
            self._note_failure(exc)
            return
        if self._back_off_s:
            logger.warning("The database can be written to again.")
            self._back_off_s = self._retry_at = 0.0
            self._away_since = None
        if not self._open:
            connection.close()
        while self._acknowledge:
            self._acknowledge.pop().set()

    def _note_failure(self, exc: Exception) -> None:
        if not isinstance(exc, AWAY):
            logger.exception("The record writer failed; it tries again.", exc_info=exc)
        elif not self._back_off_s:
            logger.warning("The database cannot be written to; records wait. %s", exc)
        now = time.monotonic()
        self._away_since = self._away_since or now
        self._back_off_s = min(max(SHORTEST_BACK_OFF_S, 2 * self._back_off_s), LONGEST_BACK_OFF_S)
        self._retry_at = now + self._back_off_s
        self._import_at = 0.0
        connection.close()

    def _spool_what_waits(self) -> None:
        """While the database is away, put on the disk what recorders and this thread hold."""
        if self._away_since is None:
            return
        # A process that ends has no time to wait for the database.
        if not self._closing.is_set() and time.monotonic() < self._away_since + SPOOL_AFTER_S:
            return
        try:
            self._spool_entries()
            # Only then: what the spool does not take stays with the recorders, which bound it.
            self._gather()
            self._spool_entries()
        except OSError as exc:
            if not self._spool_is_full:
                logger.error("The spool file takes no more; records wait in memory. %s", exc)
            self._spool_is_full = True
        except Exception:
            logger.exception("The record writer could not use its spool file.")
        else:
            self._spool_is_full = False

    def _spool_entries(self) -> None:
        self._spool.append(list(self._entries))
        self._entries.clear()

    def _import_spooled(self) -> None:
        now = time.monotonic()
        if now >= self._import_at:
            self._spool.import_all(store)
            self._import_at = now + SPOOL_CHECK_S

    def _gather(self) -> None:
        """Turn what recorders hold into entries: of all of them when a checkpoint is due, else of the ended ones."""
        # In this order: whoever flushes has handed over its ends before.
        self._acknowledge += _drain(self._flushes)
        ended = _drain(self._ended)
        now = time.monotonic()
        if now >= self._sweep_at or self._acknowledge or self._closing.is_set():
            self._sweep_at = now + CHECKPOINT_S
            sweep = list(self._open)
        else:
            sweep = ended
        for recorder in sweep:
            first_seq, deltas = recorder.take_unsaved()
            if deltas:
                self._entries.append(deltas_entry(recorder, first_seq, deltas))
        for recorder in ended:
            if recorder.end is None:
                continue
            known = recorder in self._open
            self._open.pop(recorder, None)
            entry = (end_entry if known else amendment_entry)(recorder, recorder.end)
            self._entries.append(entry)
            if known and recorder.span is not None:
                recorder.span.end(entry.columns)

    def _store_entries(self) -> None:
        while self._entries:
            entries = list(islice(self._entries, TRANSACTION_ENTRIES))
            store(entries)
            for _ in entries:
                self._entries.popleft()


def get_writer() -> Writer:
    """The writer of this process, running."""
    global _writer
    with _writer_lock:
        if _writer is None:
            _writer = Writer()
        writer = _writer
    writer.start()
    return writer


def close_writer(timeout: float = CLOSE_TIMEOUT_S) -> None:
    """Store what waits, end the thread, and forget this process's writer. At shutdown, and between tests."""
    global _writer
    with _writer_lock:
        writer, _writer = _writer, None
    if writer is not None:
        writer.close(timeout)


def _forget_writer() -> None:
    """In a forked child: the thread and what waits for it stayed with the parent."""
    global _writer, _writer_lock
    _writer, _writer_lock = None, threading.Lock()


def _wait_less_for_locks() -> None:
    """SQLite blocks this thread while it waits for another's lock, and nothing can be spooled meanwhile."""
    if connection.vendor == "sqlite" and connection.connection is None:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout={LOCK_TIMEOUT_MS}")


def _drain(waiting: deque[Waiting]) -> list[Waiting]:
    return [waiting.popleft() for _ in range(len(waiting))]


_writer: Writer | None = None
_writer_lock = threading.Lock()
atexit.register(close_writer)
os.register_at_fork(after_in_child=_forget_writer)
