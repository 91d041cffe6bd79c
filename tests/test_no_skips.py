"""The plugin that keeps CI from looking away, in pytest runs of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live_server import ROOT

PASSES = "def test_it(): pass\n"
SKIPS = "import pytest\n@pytest.mark.skip(reason='no luck')\ndef test_it(): pass\n"
SKIPS_WHOLE = "import pytest\npytest.skip('no luck', allow_module_level=True)\n"
FAILS_AS_EXPECTED = "import pytest\n@pytest.mark.xfail\ndef test_it(): assert 0\n"


def run(test: str, folder: Path, *, ci: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(test)
    (folder / "test_other.py").write_text(PASSES)
    command = [sys.executable, "-m", "pytest", "-p", "tests.no_skips", "-p", "no:django", "-c", os.devnull, str(folder)]
    environment = {**os.environ, "CI": ci, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("test", "ci", "status"),
    [
        pytest.param(PASSES, "true", 0, id="passed"),
        pytest.param(SKIPS, "true", 1, id="skipped"),
        pytest.param(SKIPS_WHOLE, "true", 1, id="module-skipped"),
        pytest.param(FAILS_AS_EXPECTED, "true", 0, id="expected-failure"),
        pytest.param(SKIPS, "", 0, id="skipped-at-home"),
    ],
)
def test_run_is_red_when_ci_skips(test: str, ci: str, status: int, tmp_path: Path) -> None:
    ran = run(test, tmp_path, ci=ci)
    assert ran.returncode == status, ran.stdout
    assert ("skipped, which CI does not accept" in ran.stdout) is (status == 1)
