"""The search of streams: conditions that any query can have, and a walk that finds the first of its streams soon.

`StreamsFound` is true of the streams that have one of some ids, belong to one of some users, or hold all of some words.
No index gives these together with other conditions in the order of ids, nor several other conditions together, and both
databases guess badly how many there are: PostgreSQL read a million texts for a word of a hundred streams. So `walk`
asks for windows of ids, small ones first: a common word fills its page out of the newest thousand streams, a rare one
is looked up in the index of words.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.core.exceptions import EmptyResultSet
from django.db import connections, transaction
from django.db.models import BooleanField, Expression
from django.db.models.expressions import Col
from django.db.models.lookups import GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual
from django.db.models.sql.where import AND, WhereNode

from generation.text_index import words_condition

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models import QuerySet
    from django.db.models.sql import Query
    from django.db.models.sql.compiler import SQLCompiler

    from generation.models import Stream

Row = TypeVar("Row")

#: Ids in the first window; PostgreSQL makes words out of the texts of these, some 15 µs each.
FIRST_WINDOW = 1000
#: A window is at most so many times larger than the one before it.
_GROWTH = 32
#: For each window of a search PostgreSQL reads the whole list of a word's streams, 45 ms for 400,000, so there should
#: be few; and all rows of the window that have the word, 130 ms for 100,000. So large where the list is not short.
_LARGEST_BY_BITMAPS = 250_000
#: What another window should take: its cost grows with its ids.
_WINDOW_S = 0.03
_LARGEST_ID = 2**63 - 1
_RANGES = (GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)

# Bitmaps, which join the words' index with the others before a row is read, instead of a walk that hopes to meet enough
# rows; memory for a page bitmap of some ten million rows, as one that does not fit makes words out of texts again.
_BITMAPS = """
    SET LOCAL enable_indexscan = off; SET LOCAL enable_seqscan = off; SET LOCAL work_mem = '64MB';
    SET LOCAL cpu_operator_cost = 0.01; SET LOCAL jit = off; SET LOCAL max_parallel_workers_per_gather = 0
"""


class StreamsFound(Expression):
    """A condition on streams: one of these ids, one of these users, or all of these words in the text."""

    conditional = True
    output_field = BooleanField()

    def __init__(self, *, ids: Sequence[int] = (), users: Sequence[int] = (), words: str = "") -> None:
        super().__init__()
        self.ids, self.users, self.words = list(ids), list(users), words.strip()

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:  # type: ignore[override]
        """SQL of PostgreSQL: one alternative is a condition; of several, a list of ids is made and looked up."""
        table = compiler.quote_name_unless_alias(str(compiler.query.get_initial_alias()))
        conditions = self._conditions(f"{table}.", connection.vendor)
        if not conditions:
            raise EmptyResultSet
        if len(conditions) == 1:
            ((sql, value),) = conditions
            return sql, [value]
        low, high = id_bounds(compiler.query)
        selects = [
            f"SELECT id FROM generation_stream WHERE {sql} AND id BETWEEN {low} AND {high}"
            for sql, _ in self._conditions("", connection.vendor)
        ]
        return f"{table}.id = ANY(ARRAY({' UNION ALL '.join(selects)}))", [value for _, value in conditions]

    def as_sqlite(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:
        """SQL of SQLite: a list of ids, made of no more of the words' index than the query's bounds of ids reach."""
        table = compiler.quote_name_unless_alias(str(compiler.query.get_initial_alias()))
        low, high = id_bounds(compiler.query)
        selects: list[tuple[str, str]] = []
        for column, among in (("id", self.ids), ("user_id", self.users)):
            if among:
                listed = f"{column} IN (SELECT value FROM json_each(%s))"
                selects.append((f"SELECT id FROM generation_stream WHERE {listed} AND id", json.dumps(among)))
        if words := words_condition(self.words, connection.vendor):
            selects.append((f"SELECT rowid FROM generation_stream_words WHERE {words[0]} AND rowid", words[1]))
        if not selects:
            raise EmptyResultSet
        ids = " UNION ALL ".join(f"{select} BETWEEN {low} AND {high}" for select, _ in selects)
        return f"{table}.id IN ({ids})", [value for _, value in selects]

    def _conditions(self, prefix: str, vendor: str) -> list[tuple[str, Any]]:
        """What there is to look for, as conditions on columns with this prefix, each with its one value."""
        given = [(f"{prefix}id = ANY(%s)", self.ids), (f"{prefix}user_id = ANY(%s)", self.users)]
        words = words_condition(self.words, vendor, text=f"{prefix}text")
        return [(sql, among) for sql, among in given if among] + ([words] if words else [])


class StreamsLabelled(Expression):
    """A condition on streams: a review gave this label; of the reviews no more are read than bounds of ids reach."""

    conditional = True
    output_field = BooleanField()

    def __init__(self, label: str) -> None:
        super().__init__()
        self.label = label

    def as_sql(self, compiler: SQLCompiler, connection: BaseDatabaseWrapper) -> tuple[str, list[Any]]:  # type: ignore[override]
        table = compiler.quote_name_unless_alias(str(compiler.query.get_initial_alias()))
        low, high = id_bounds(compiler.query)
        reviews = f"SELECT stream_id FROM generation_review WHERE label = %s AND stream_id BETWEEN {low} AND {high}"
        return f"{table}.id IN ({reviews})", [self.label]


@dataclass(frozen=True, slots=True, kw_only=True)
class Walked(Generic[Row]):
    """The first rows; ``looked_to`` is the last id looked at where time was up, None where nothing was left out."""

    rows: list[Row]
    looked_to: int | None = None


def walk(
    streams: QuerySet[Stream, Row],
    limit: int,
    *,
    newest_first: bool = True,
    budget_s: float = inf,
    clock: Callable[[], float] = time.monotonic,
) -> Walked[Row]:
    """The first ``limit`` streams by id, exactly; with a budget, perhaps fewer and how far they were looked for.

    Bounds of ids among the conditions are where it begins and ends. What one index gives in order is asked for at once.
    """
    ordered = streams.order_by("-pk" if newest_first else "pk")
    is_search = _is_search(streams.query.where)
    if not is_search and _has_order(streams.query.where):
        return Walked(rows=list(ordered[:limit]))
    by_bitmaps = is_search and connections[streams.db].vendor == "postgresql"
    begun_at = window_at = clock()
    low, high = id_bounds(streams.query)
    every = streams.model._default_manager.values_list("pk", flat=True)
    # Two seeks; asked for both at once, SQLite reads the whole index.
    low, high = max(low, every.order_by("pk").first() or 1), min(high, every.order_by("-pk").first() or 0)
    rows: list[Row] = []
    size, looked = FIRST_WINDOW, 0
    with ExitStack() as plans:
        while low <= high and len(rows) < limit:
            if by_bitmaps and looked == 1:
                plans.enter_context(_bitmaps(streams.db))
            first, last = (max(low, high - size + 1), high) if newest_first else (low, min(high, low + size - 1))
            rows += ordered.filter(pk__gte=first, pk__lte=last)[: limit - len(rows)]
            low, high = (low, first - 1) if newest_first else (last + 1, high)
            now = clock()
            # Never after the first window: a page of a few hundred streams would be none.
            if looked and now - begun_at >= budget_s and low <= high and len(rows) < limit:
                return Walked(rows=rows, looked_to=first if newest_first else last)
            size, window_at, looked = _larger(size, now - window_at, by_bitmaps=by_bitmaps), now, looked + 1
    return Walked(rows=rows)


def id_bounds(query: Query) -> tuple[int, int]:
    """The least and the largest id that the conditions of a query let through, as far as they name them."""
    low, high = -_LARGEST_ID, _LARGEST_ID
    for condition in _conditions(query.where):
        lhs, rhs = getattr(condition, "lhs", None), getattr(condition, "rhs", None)
        if not isinstance(lhs, Col) or not lhs.target.primary_key or not isinstance(rhs, int):
            continue
        if lhs.alias != query.get_initial_alias():
            continue
        if isinstance(condition, GreaterThan | GreaterThanOrEqual):
            low = max(low, rhs + isinstance(condition, GreaterThan))
        elif isinstance(condition, LessThan | LessThanOrEqual):
            high = min(high, rhs - isinstance(condition, LessThan))
    return min(low, _LARGEST_ID), max(high, -_LARGEST_ID)


def _conditions(where: WhereNode) -> Iterator[object]:
    """The conditions all of which must hold."""
    if where.connector == AND and not where.negated:
        for child in where.children:
            if isinstance(child, WhereNode):
                yield from _conditions(child)
            else:
                yield child


def _is_search(where: WhereNode) -> bool:
    # Django wraps a condition that is no lookup in one: whether it equals true.
    return any(isinstance(getattr(condition, "lhs", None), StreamsFound) for condition in _conditions(where))


def _has_order(where: WhereNode) -> bool:
    """Whether one index has the streams in order, as they need keep to ranges and to one other condition only."""
    return sum(not isinstance(condition, _RANGES) for condition in _conditions(where)) < 2


def _larger(size: int, took_s: float, *, by_bitmaps: bool) -> int:
    """The size of the window after one of this size."""
    if by_bitmaps:
        larger = size * _GROWTH
        return larger if size > FIRST_WINDOW and took_s < _WINDOW_S else min(larger, _LARGEST_BY_BITMAPS)
    return int(size * min(_GROWTH, max(1.0, _WINDOW_S / max(took_s, 1e-6))))


@contextmanager
def _bitmaps(database: str) -> Iterator[None]:
    """Let PostgreSQL plan by `_BITMAPS`, in a transaction of its own."""
    with transaction.atomic(database):
        with connections[database].cursor() as cursor:
            cursor.execute(_BITMAPS)
        yield
