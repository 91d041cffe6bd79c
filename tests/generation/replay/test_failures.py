from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import OperationalError

from generation.exceptions import ModelNotFoundError
from generation.replay.failures import told_in_words

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        pytest.param(
            ModelNotFoundError("There is no model 'a\x1b[2J'."), "There is no model 'a\\x1b[2J'.", id="generation"
        ),
        pytest.param(
            ImproperlyConfigured("GENERATION_BACKENDS is a list."), "GENERATION_BACKENDS is a list.", id="set"
        ),
        pytest.param(
            OperationalError("no such table: generation_stream\n"),
            "The database cannot be used: no such table: generation_stream.\n`manage.py migrate` makes missing tables; "
            "DATABASE_URL names another database.",
            id="database",
        ),
    ],
)
def test_a_failure_becomes_a_command_error(failure: Exception, words: str) -> None:
    with pytest.raises(CommandError) as caught, told_in_words():
        raise failure
    assert str(caught.value) == words


def test_the_status_is_that_of_an_interrupted_command_when_ctrl_c_is_pressed() -> None:
    with pytest.raises(SystemExit) as caught, told_in_words():
        raise KeyboardInterrupt
    assert caught.value.code == 130


def test_other_failures_keep_their_traceback() -> None:
    with pytest.raises(ZeroDivisionError), told_in_words():
        raise ZeroDivisionError


def test_the_command_ends_without_a_word_when_the_reader_of_its_pipe_has_gone() -> None:
    writer = (
        "import sys\n"
        "from generation.replay.failures import told_in_words\n"
        "with told_in_words():\n"
        "    while True:\n"
        "        sys.stdout.write('x' * 5000)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", writer], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 141
