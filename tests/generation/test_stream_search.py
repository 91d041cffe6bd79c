from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Q, QuerySet
from django.test.utils import CaptureQueriesContext

from generation import stream_search
from generation.models import Stream
from generation.stream_search import StreamsFound, Walked, id_bounds, walk
from generation.text_index import index_since

BEGUN = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_user("ada")


@pytest.fixture
def streams(ada: User, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Thirty streams, the oldest first, in windows of 2, 6 … ids; every fifth has the word, every third a user."""
    monkeypatch.setattr(stream_search, "FIRST_WINDOW", 2)
    monkeypatch.setattr(stream_search, "_larger", lambda size, took_s, by_bitmaps: size * 3)
    rows = [
        Stream(
            wire_id=f"s-{number}", source="api", model="even" if number % 2 == 0 else "odd", backend="default",
            state="done", stop_reason="eos", started_at=BEGUN, text="green chai" if number % 5 == 0 else "tea",
            user=ada if number % 3 == 0 else None,
        )
        for number in range(30)
    ]  # fmt: skip
    pks = [stream.pk for stream in Stream.objects.bulk_create(rows)]
    index_since(pks[0] - 1)
    return pks


def ids(streams: QuerySet[Stream]) -> QuerySet[Stream, int]:
    return streams.values_list("pk", flat=True)


CHAI = [25, 20, 15, 10, 5, 0]


@pytest.mark.parametrize("limit", [1, 2, 5, 6, 9])
def test_the_first_streams_are_found_when_walked_from_either_end(limit: int, streams: list[int]) -> None:
    found = ids(Stream.objects.filter(StreamsFound(words="chai")))
    assert walk(found, limit) == Walked(rows=[streams[at] for at in CHAI[:limit]])
    assert walk(found, limit, newest_first=False) == Walked(rows=[streams[at] for at in CHAI[::-1][:limit]])


def test_other_conditions_and_bounds_hold_when_searched(streams: list[int]) -> None:
    found = ids(Stream.objects.filter(StreamsFound(words="chai"), model="even"))
    assert walk(found, 9).rows == [streams[20], streams[10], streams[0]]
    assert walk(found.filter(pk__lt=streams[20], pk__gte=streams[1]), 9).rows == [streams[10]]
    assert walk(found.filter(pk__gt=streams[10]), 1, newest_first=False).rows == [streams[20]]
    assert walk(found.filter(pk__gt=streams[29]), 9).rows == []


def test_streams_of_any_kind_are_found_once_when_several_are_asked_for(streams: list[int], ada: User) -> None:
    search = StreamsFound(ids=[streams[1], streams[25]], users=[ada.pk], words="chai green")
    expected = sorted({1, 25, *CHAI, *range(0, 30, 3)}, reverse=True)
    assert walk(ids(Stream.objects.filter(search)), 99).rows == [streams[at] for at in expected]
    assert walk(ids(Stream.objects.filter(search, model="odd", pk__lt=streams[9])), 99).rows == [
        streams[at] for at in (5, 3, 1)
    ]


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        (StreamsFound(words="chai"), CHAI),
        (StreamsFound(words=" \n"), []),
        (StreamsFound(), []),
        (StreamsFound(words="coffee"), []),
    ],
    ids=["words", "blank", "nothing", "no such word"],
)
def test_the_condition_alone_is_exact_when_not_walked(
    search: StreamsFound, expected: list[int], streams: list[int]
) -> None:
    matching = Stream.objects.filter(search)
    assert list(ids(matching)) == [streams[at] for at in expected]
    assert matching.count() == len(expected)
    either = Stream.objects.filter(Q(search) | Q(wire_id="s-1"))
    assert list(ids(either)) == [streams[at] for at in sorted({1, *expected}, reverse=True)]


def test_it_looks_on_from_where_it_stopped_when_time_was_up(streams: list[int]) -> None:
    seconds = count()
    found = ids(Stream.objects.filter(StreamsFound(words="chai"), model="odd"))
    first = walk(found, 3, budget_s=1.0, clock=lambda: float(next(seconds)))
    assert first == Walked(rows=[streams[25]], looked_to=streams[22])
    rows, looked_to = first.rows, first.looked_to
    pages = 0
    while looked_to is not None:
        walked = walk(found.filter(pk__lt=looked_to), 3, budget_s=2.0, clock=lambda: float(next(seconds)))
        rows, looked_to, pages = rows + walked.rows, walked.looked_to, pages + 1
    assert (rows, pages) == ([streams[25], streams[15], streams[5]], 3)


def test_it_looks_up_from_where_it_stopped_when_time_was_up(streams: list[int]) -> None:
    seconds = count()
    found = ids(Stream.objects.filter(StreamsFound(words="chai"), model="even", pk__gt=streams[0]))
    walked = walk(found, 1, newest_first=False, budget_s=1.0, clock=lambda: float(next(seconds)))
    assert walked == Walked(rows=[], looked_to=streams[8])


def test_an_index_is_asked_when_the_first_window_did_not_fill(streams: list[int]) -> None:
    with CaptureQueriesContext(connection) as queries:
        walk(ids(Stream.objects.filter(StreamsFound(words="chai"), model="even")), 9)
    sql = [query["sql"] for query in queries if "chai" in query["sql"]][-1]
    with connection.cursor() as cursor:
        # PostgreSQL's plans are as the walk asked for until the test's transaction ends.
        cursor.execute(("EXPLAIN QUERY PLAN " if connection.vendor == "sqlite" else "EXPLAIN ") + sql)
        plan = str(cursor.fetchall())
    # Of a few rows PostgreSQL may join any indexes, but it must not walk one in the hope of meeting enough rows.
    expected = "generation_stream_words VIRTUAL TABLE INDEX" if connection.vendor == "sqlite" else "Bitmap Heap Scan"
    assert (expected in plan, "Seq Scan" in plan) == (True, False)


def test_a_plain_list_is_one_query_when_nothing_is_searched(streams: list[int]) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert walk(ids(Stream.objects.filter(model="even")), 2).rows == [streams[28], streams[26]]
    assert len(queries) == 1


@pytest.mark.parametrize(
    ("conditions", "bounds"),
    [
        ([Q(pk__gte=3), Q(pk__lt=9)], (3, 8)),
        ([Q(pk__gt=3) & Q(pk__lte=9), Q(id__gte=2)], (4, 9)),
        ([Q(pk__gte=3) | Q(pk__lt=9)], None),
        ([~Q(pk__gte=3)], None),
        ([Q(choice__gte=3), Q(user__pk__gte=4), Q(pk=5)], None),
        ([Q(pk__lt=-(10**30))], (-(2**63) + 1, -(2**63) + 1)),
    ],
    ids=["both", "several", "either", "not", "other columns", "too small"],
)
def test_bounds_are_those_that_all_rows_keep_to_when_read(conditions: list[Q], bounds: tuple[int, int] | None) -> None:
    query: Any = Stream.objects.filter(*conditions).query
    assert id_bounds(query) == (bounds or (-(2**63) + 1, 2**63 - 1))
