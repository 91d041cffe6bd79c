"""The Makefile's promises: every command is listed, and without a Python it says what to install."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.live_server import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def test_commands_are_listed_when_make_is_called_alone() -> None:
    listed = [line.split()[:2] for line in make().stdout.splitlines()]
    assert [name for _, name in listed] == [
        "help",
        "run",
        "test",
        "test-fast",
        "lint",
        "fuzz",
        "soak",
        "bench",
        "format",
        "clean",
    ]
    assert all(word == "make" for word, _ in listed)


def test_every_target_without_a_file_is_phony() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


@pytest.mark.parametrize("target", ["run", "test", "test-fast", "lint"])
def test_message_says_what_to_install_when_there_is_no_python(target: str) -> None:
    ran = make(target, "PYTHON=")
    assert ran.returncode == 2
    assert ran.stderr.startswith("Python 3.11 is needed, found none. Install it")


@pytest.mark.parametrize(
    ("environment", "file", "shown"),
    [
        pytest.param({}, "", "1", id="demo"),
        pytest.param({"STREAMSITE_DEBUG": "0"}, "", "0", id="variable"),
        pytest.param({}, "HOST=127.0.0.1\nSTREAMSITE_DEBUG=0\n", "", id="left-to-the-file"),
        pytest.param({}, "# STREAMSITE_DEBUG=0\n", "1", id="commented-out"),
    ],
)
def test_run_is_the_local_demo_unless_asked_otherwise(
    environment: dict[str, str], file: str, shown: str, tmp_path: Path
) -> None:
    recipe = re.search(r"^run:.*\n\t@(.*\\\n\texec) ", MAKEFILE, re.MULTILINE)
    assert recipe is not None
    script = recipe[1].replace("$$", "$") + " sh -c 'echo $STREAMSITE_DEBUG'"
    (tmp_path / ".env").write_text(file)
    environment = {"PATH": os.environ["PATH"], **environment}
    ran = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert (ran.stdout.strip(), ran.stderr) == (shown, "")
