"""The PostgreSQL server of the tests: its address, and databases on it that are made for a test."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator

import psycopg
import pytest

ADDRESS = os.environ.get("STREAMSITE_TEST_POSTGRES", "postgres://postgres@127.0.0.1:5432/test")


def need_postgresql() -> str:
    """The server's address; without a server the test is skipped, or fails in CI."""
    try:
        psycopg.connect(ADDRESS, connect_timeout=5).close()
    except psycopg.OperationalError as exc:
        message = f"No PostgreSQL at {ADDRESS} (STREAMSITE_TEST_POSTGRES names another): {exc}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return ADDRESS


@contextlib.contextmanager
def new_database() -> Iterator[str]:
    """The address of an empty database, dropped afterwards."""
    name = f"streamsite_{uuid.uuid4().hex}"
    with psycopg.connect(need_postgresql(), autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"{ADDRESS.rpartition('/')[0]}/{name}"
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
