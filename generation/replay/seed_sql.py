"""The SQL that multiplies streams inside the database, SQLite or PostgreSQL; `seeding` runs it.

Every value in it is a number or a name made here, or a quoted label of the settings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import connection

from generation.models import DeltaBatch, Review, Stream

#: One stream in so many has a review.
REVIEWED = 23


@dataclass(frozen=True, slots=True, kw_only=True)
class Originals:
    """Ids of the streams to copy: one for each of a hundred copies, and of those that one in so many is a copy of."""

    by_share: Sequence[int]
    seldom: Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Copies:
    """The SQL of the copies ``first`` to ``last``; key number k belongs to user number k."""

    originals: Originals
    users: Sequence[int]
    keys: Sequence[int]
    labels: Sequence[str]
    prefix: str
    first_s: float
    step_s: float

    def streams_sql(self, first: int, last: int) -> str:
        started_s = f"({self.first_s!r} + n * {self.step_s!r})"
        caller = f"n % {2 * len(self.users)}"
        # One in 50 waits long for its first words, one in 80 stands still, and no two are quite as fast.
        pace, wait = "(1.0 + (n % 97) / 100.0)", "CASE WHEN n % 50 = 0 THEN 1.0 + n % 12 ELSE 0 END"
        still = "CASE WHEN n % 80 = 0 THEN 1.0 + n % 40 ELSE 0 END"
        total = f"s.total_s * {pace} + {wait} + {still}"
        changed = {
            "wire_id": f"'{self.prefix}' || n",
            "client_stream_id": "NULL",
            "message_id": "NULL",
            "worker_id": "NULL",
            "started_at": _moment(started_s),
            "ended_at": _moment(f"({started_s} + {total})"),
            "user_id": _one_of(caller, self.users),
            "api_key_id": f"CASE s.source WHEN 'api' THEN {_one_of(caller, self.keys)} END",
            "ttft_visible_s": f"s.ttft_visible_s * {pace} + {wait}",
            "ttft_model_s": f"s.ttft_model_s * {pace} + {wait}",
            "icl_max_s": f"s.icl_max_s * {pace} + {still}",
            "total_s": total,
            "tpot_s": f"s.tpot_s * {pace}",
        }
        columns = [str(each.column) for each in Stream._meta.concrete_fields if not each.primary_key]
        values = ", ".join(changed.get(column, f"s.{_quoted(column)}") for column in columns)
        return f"""
            INSERT INTO {Stream._meta.db_table} ({", ".join(map(_quoted, columns))})
            {self._numbers(first, last)} SELECT {values} FROM numbers
            JOIN originals ON slot = {self._slot()}
            JOIN {Stream._meta.db_table} s ON s.id = original ORDER BY n"""

    def batches_sql(self, first: int, last: int) -> str:
        return f"""
            INSERT INTO {DeltaBatch._meta.db_table} (stream_id, first_seq, deltas)
            {self._numbers(first, last)} SELECT s.id, b.first_seq, b.deltas FROM numbers
            JOIN originals ON slot = {self._slot()}
            JOIN {Stream._meta.db_table} s ON s.wire_id = '{self.prefix}' || n AND s.choice = 0
            JOIN {DeltaBatch._meta.db_table} b ON b.stream_id = original"""

    def reviews_sql(self, first: int, last: int) -> str:
        label = _one_of(f"(n / {REVIEWED}) % {len(self.labels)}", list(map(_literal, self.labels)))
        return f"""
            INSERT INTO {Review._meta.db_table} (stream_id, reviewer_id, label, score, comment, created_at)
            {self._numbers(first, last)}
            SELECT s.id, {self.users[0]}, {label}, 1 + n % 5, CASE WHEN n % 3 = 0 THEN 'Seen.' ELSE '' END, s.ended_at
            FROM numbers JOIN {Stream._meta.db_table} s ON s.wire_id = '{self.prefix}' || n AND s.choice = 0
            WHERE n % {REVIEWED} = 0"""

    def _slot(self) -> str:
        """SQL of which original the copy n is of, by its place in `_numbers`."""
        by_share = self.originals.by_share
        seldom = (
            f"WHEN n % {every} = 0 THEN {slot}"
            for slot, (every, _) in enumerate(self.originals.seldom, start=len(by_share))
        )
        return f"CASE {' '.join(seldom)} ELSE (n * 37) % {len(by_share)} END"

    def _numbers(self, first: int, last: int) -> str:
        ids = [*self.originals.by_share, *(pk for _, pk in self.originals.seldom)]
        originals = ", ".join(f"({slot}, {pk})" for slot, pk in enumerate(ids))
        return f"""
            WITH RECURSIVE numbers(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last}),
            originals(slot, original) AS (VALUES {originals})"""


def _one_of(number: str, values: Sequence[object]) -> str:
    """SQL that chooses a value by its number; null beyond the last."""
    choices = " ".join(f"WHEN {at} THEN {value}" for at, value in enumerate(values))
    return f"CASE {number} {choices} END"


def _literal(text: str) -> str:
    return "'{}'".format(text.replace("'", "''"))


def _moment(seconds: str) -> str:
    """SQL of a moment from Unix seconds, as Django's column holds it."""
    if connection.vendor == "sqlite":
        return f"strftime('%Y-%m-%d %H:%M:%f', {seconds}, 'unixepoch')"
    return f"to_timestamp({seconds})"


def _quoted(column: str) -> str:
    return connection.ops.quote_name(column)
