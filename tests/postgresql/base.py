"""Django's PostgreSQL, emptied between tests by DELETE: TRUNCATE makes every table's files anew.

That took 0.6 s after each of some hundred tests; the few rows that a test leaves are deleted in a millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.backends.postgresql import base
from django.db.backends.postgresql.operations import DatabaseOperations as PostgresqlOperations


class DatabaseOperations(PostgresqlOperations):
    def sql_flush(self, style: Any, tables: Sequence[str], **options: Any) -> list[str]:
        # In any order: Django's foreign keys are checked at the end of the transaction.
        return [f"DELETE FROM {self.quote_name(table)};" for table in tables]


class DatabaseWrapper(base.DatabaseWrapper):
    ops_class = DatabaseOperations
