"""Shared set-up: hypothesis profiles, no skipped test in CI, and a quiet process between tests that write streams."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import cast

import hypothesis
import pytest

from tests.live_server import LiveServer, ServerName, live_server

pytest_plugins = ["tests.no_skips"]

hypothesis.settings.register_profile("ci", max_examples=2000, deadline=None)
hypothesis.settings.register_profile("fuzz", max_examples=1_000_000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Leave no writer to a database that is emptied under it, and no backend to the next test."""
    from generation.backends import backends
    from generation.recording import close_writer

    close_writer()
    backends.close_all()


@pytest.fixture(scope="session", params=["uvicorn", "daphne"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """One server of each kind, for all tests of a session that only talk to it."""
    name = cast("ServerName", request.param)
    with live_server(tmp_path_factory.mktemp(name), server=name, STREAMSITE_KEEP_ALIVE_S="0.2") as started:
        yield started
