"""Takes the test's database away for real, and brings it back."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

import psycopg
from django.db import connection


@contextlib.contextmanager
def database_away() -> Iterator[None]:
    """Let nobody write: SQLite's write lock is taken; PostgreSQL ends all connections and takes no new ones."""
    connection.close()
    name = connection.settings_dict["NAME"]
    if connection.vendor == "sqlite":
        with contextlib.closing(sqlite3.connect(name, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
        return
    server = {"host": connection.settings_dict["HOST"], "user": connection.settings_dict["USER"], "dbname": "postgres"}
    with psycopg.connect(**server, autocommit=True) as other:
        other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        try:
            yield
        finally:
            other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
