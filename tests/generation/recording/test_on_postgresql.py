"""Runs the tests of the record once more, on PostgreSQL: the production database must not only be configured."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.live_server import ROOT
from tests.postgresql.databases import need_postgresql

HERE = "tests/generation/recording"
FILES = [
    "tests/generation/access/test_limits.py",
    "tests/generation/export/test_reading.py",
    "tests/generation/test_delta_columns.py",
    "tests/generation/test_fields.py",
    "tests/generation/test_models.py",
    "tests/generation/test_querysets.py",
    "tests/generation/test_text_index.py",
    *(
        f"{HERE}/test_{name}.py"
        for name in (
            "heartbeat",
            "opening",
            "process_end",
            "reaper",
            "spool",
            "statements",
            "store",
            "trends",
            "writer",
        )
    ),
]


@pytest.mark.timeout(300)
def test_the_record_is_kept_on_postgresql():
    environment = {**os.environ, "DATABASE_URL": need_postgresql()}
    # A folder of its own, and no coverage of the outer run.
    environment.pop("STREAMSITE_VAR", None)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *FILES, "-q", "--no-header", "-p", "no:cacheprovider"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    print(result.stdout[-20_000:], result.stderr[-5_000:])
    assert result.returncode == 0, result.stdout.strip().splitlines()[-1]
