from __future__ import annotations

import threading

import pytest
from django.db import OperationalError, connection

from generation.models import Stream
from generation.streaming import openers
from generation.streaming.openers import in_opener

pytestmark = pytest.mark.django_db(transaction=True)


def look() -> tuple[str, object]:
    Stream.objects.count()
    return threading.current_thread().name, connection.connection


async def test_one_thread_keeps_its_connection_on_sqlite_and_the_pool_has_it_back_on_postgresql():
    looks = [await in_opener(look) for _ in range(3)]
    kept = [await in_opener(lambda: connection.connection) for _ in range(3)]
    if connection.vendor == "sqlite":
        assert len(set(looks)) == 1
        assert kept == [looks[0][1]] * 3
    else:
        assert kept == [None] * 3


async def test_what_is_raised_reaches_the_caller_and_the_connection_is_given_back():
    await in_opener(look)
    with pytest.raises(ZeroDivisionError):
        await in_opener(lambda: 1 / 0)
    assert await in_opener(lambda: connection.connection) is None


async def test_rows_are_refused_when_those_before_them_took_too_long(monkeypatch):
    monkeypatch.setattr(openers, "PATIENCE_S", 0.05)
    entered, leave = threading.Semaphore(0), threading.Event()

    def stuck() -> bool:
        entered.release()
        return leave.wait(10)

    threads = 1 if connection.vendor == "sqlite" else openers.POSTGRESQL_THREADS
    blocking = [in_opener(stuck) for _ in range(threads)]
    for _ in range(threads):
        assert entered.acquire(timeout=10)
    late = in_opener(look)
    threading.Timer(0.2, leave.set).start()
    with pytest.raises(OperationalError):
        await late
    assert [await one for one in blocking] == [True] * threads
    assert (await in_opener(look))[0].startswith("stream-opener")
