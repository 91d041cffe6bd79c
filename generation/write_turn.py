"""Lets the threads of this process write to SQLite one after the other.

SQLite has one writer at a time and no queue: threads that find it busy sleep and try again, and of 200 that open a
stream at the same moment some are never lucky within their time-out. PostgreSQL needs no turns.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from django.db import OperationalError, connection

#: Longer than one thread waits for another process's lock.
TIMEOUT_S = 10.0

_turn = threading.Semaphore(1)


@contextlib.contextmanager
def write_turn(*, timeout_s: float = TIMEOUT_S) -> Iterator[None]:
    """Wait until no other thread of this process writes; not to be nested. OperationalError when it takes long."""
    if connection.vendor != "sqlite":
        yield
        return
    if not _turn.acquire(timeout=timeout_s):
        raise OperationalError(f"other threads wrote to the database for {timeout_s:g} s")
    try:
        yield
    finally:
        _turn.release()
