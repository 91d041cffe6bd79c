"""The threads that let callers in and write the rows of new streams; their connections and statements live on.

A request's own thread would have to connect, which takes longer than its row, and when 200 requests come together as
many threads would fight for SQLite's write lock and for the interpreter, which the open streams need. SQLite has one
writer at a time, so one thread is enough; on PostgreSQL there are several, and connections go back to the pool.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import OperationalError, connection

P = ParamSpec("P")
Written = TypeVar("Written")

#: Rows that had to wait so long for those before them are refused at once, or the last of many would wait for minutes.
PATIENCE_S = 10.0
POSTGRESQL_THREADS = 8


def in_opener(work: Callable[P, Written], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[Written]:
    """Begin to read or write rows, from the event loop. The future raises OperationalError when it takes too long."""
    give_up_at = time.monotonic() + PATIENCE_S
    job = functools.partial(work, *args, **kwargs)
    return asyncio.get_running_loop().run_in_executor(_threads(), _run, job, give_up_at)


def _run(job: Callable[[], Written], give_up_at: float) -> Written:
    """Runs in an opener."""
    if time.monotonic() > give_up_at:
        raise OperationalError(f"others wrote to the database for {PATIENCE_S:g} s")
    keep = False
    try:
        written = job()
        keep = connection.vendor == "sqlite"
        return written
    finally:
        if not keep:
            connection.close()


@functools.cache
def _threads() -> ThreadPoolExecutor:
    count = 1 if connection.vendor == "sqlite" else POSTGRESQL_THREADS
    return ThreadPoolExecutor(max_workers=count, thread_name_prefix="stream-opener")


# In a forked child: the threads stayed with the parent.
os.register_at_fork(after_in_child=_threads.cache_clear)
