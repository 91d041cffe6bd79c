from __future__ import annotations

import contextlib
import io
import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from generation.management.commands.generate import Command
from generation.models import Stream
from generation.recording import get_writer

pytestmark = pytest.mark.django_db(transaction=True)


class Out(io.StringIO):
    """Standard output that keeps each write, and can be a terminal, press Ctrl-C, or lose its reader."""

    def __init__(self, *, terminal: bool = False, interrupt_at: int | None = None, gone_at: int | None = None) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.unflushed = 0
        self._terminal = terminal
        self._interrupt_at = interrupt_at
        self._gone_at = gone_at

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        if len(self.writes) == self._gone_at:
            raise BrokenPipeError
        assert self.unflushed == 0, "a delta waited for the next one"
        self.writes.append(text)
        self.unflushed += 1
        if len(self.writes) == self._interrupt_at:
            signal.raise_signal(signal.SIGINT)
        return len(text)

    def flush(self) -> None:
        self.unflushed = 0


@pytest.fixture
def err() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def spare_stdout(tmp_path: Path) -> Iterator[None]:
    """Another sys.stdout, for a command that gives its own away."""
    with (tmp_path / "stdout").open("w") as file, contextlib.redirect_stdout(file):
        yield


def generate(*arguments: str, out: Out, err: io.StringIO) -> None:
    call_command("generate", *arguments, stdout=out, stderr=err)


def test_each_delta_is_shown_as_it_comes_and_the_figures_after_it(err: io.StringIO) -> None:
    out = Out()
    generate("hi", out=out, err=err)
    stream = Stream.objects.get()
    assert out.writes == ["Hello", ", ", "world", "!"]
    assert re.fullmatch(
        rf"TTFT \d\.\d\d s · \d+\.\d tokens/s · 4 tokens · total \d\.\d\d s · eos · stream {stream.pk} "
        rf"\({stream.wire_id}\)\n",
        err.getvalue(),
    )
    assert (stream.source, stream.state, stream.text) == ("command", "done", "Hello, world!")


def test_the_options_are_those_of_the_request(err: io.StringIO) -> None:
    out = Out()
    generate("hi", "--system", "Be short.", "--max-tokens", "3", "--stop", "orl", "--stop", "x", out=out, err=err)
    stream = Stream.objects.get()
    assert stream.messages == [{"role": "system", "content": "Be short."}, {"role": "user", "content": "hi"}]
    assert stream.parameters == {"max_tokens": 3, "stop": ["orl", "x"]}
    assert ("".join(out.writes), stream.stop_reason) == ("Hello, w", "stop_string")


def test_the_prompt_is_read_from_standard_input_when_it_is_a_dash(
    err: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("नमस्ते\n\nचाय?\n".encode()), encoding="ascii"))
    generate("-", out=Out(), err=err)
    assert Stream.objects.get().messages == [{"role": "user", "content": "नमस्ते\n\nचाय?"}]


def test_the_place_is_named_when_standard_input_is_not_utf_8(err: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9"), encoding="ascii"))
    with pytest.raises(CommandError, match=r"^Standard input is not valid UTF-8 \(at byte 3\)\.$"):
        generate("-", out=Out(), err=err)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param([" "], 'The prompt is empty. Example: manage.py generate "What is tea?"', id="no prompt"),
        pytest.param(
            ["hi", "--model", "gpt-9"],
            "There is no model 'gpt-9'. Models here: default, scripted, ",
            id="no such model",
        ),
        pytest.param(
            ["hi", "--max-tokens", "0"],
            "'max_tokens' is not valid: Input should be greater than or equal to 1.",
            id="out of range",
        ),
        pytest.param(
            ["hi", "--seed", "1"],
            "'seed' is not supported by the model 'default'. Leave it out, or choose another model.",
            id="not supported",
        ),
    ],
)
def test_nothing_is_recorded_when_the_request_is_refused(arguments: list[str], words: str, err: io.StringIO) -> None:
    with pytest.raises(CommandError) as caught:
        generate(*arguments, out=Out(), err=err)
    assert str(caught.value).startswith(words)
    assert not Stream.objects.exists()


def test_what_was_said_and_the_figures_are_shown_when_the_answer_fails(err: io.StringIO) -> None:
    out = Out()
    with pytest.raises(CommandError, match=r"^The script fails here, after 2 pieces\.$"):
        generate("hi", "--model", "failing", out=out, err=err)
    assert out.writes == ["one ", "two "]
    assert " · engine_error · stream " in err.getvalue()
    assert Stream.objects.get().state == "failed"


def test_the_answer_ends_in_order_when_ctrl_c_is_pressed(err: io.StringIO) -> None:
    out = Out(interrupt_at=3)
    with pytest.raises(SystemExit) as caught:
        generate("hi", "--model", "slow", out=out, err=err)
    stream = Stream.objects.get()
    assert caught.value.code == 130
    assert (stream.state, stream.stop_reason, stream.ended_by) == ("stopped", "client_stop", "user")
    assert stream.text == "".join(out.writes) == "tick " * 3
    assert f" · client_stop · stream {stream.pk} " in err.getvalue()


@pytest.mark.usefixtures("spare_stdout")
def test_generation_ends_when_the_reader_of_the_pipe_has_gone(err: io.StringIO) -> None:
    with pytest.raises(SystemExit) as caught:
        generate("hi", "--model", "slow", out=Out(gone_at=2), err=err)
    assert caught.value.code == 141
    assert get_writer().flush(10)
    stream = Stream.objects.get()
    assert (stream.stop_reason, stream.text) == ("client_disconnect", "tick " * 3)


@pytest.mark.parametrize(
    ("terminal", "shown"),
    [
        pytest.param(True, "\\x1b[2J\\u202eevil👩‍👩‍👧\n", id="terminal"),
        pytest.param(False, "\x1b[2J\u202eevil👩‍👩‍👧", id="pipe"),
    ],
)
def test_a_terminal_shows_what_a_pipe_gets_bare_when_the_answer_is_hostile(
    terminal: bool, shown: str, err: io.StringIO, settings: Any
) -> None:
    settings.GENERATION_BACKENDS = {
        "default": {
            "BACKEND": "generation.backends.scripted.ScriptedBackend",
            "OPTIONS": {"model": "echo", "echo": True, "byte_pieces": 1},
        }
    }
    out = Out(terminal=terminal)
    generate("\x1b[2J\u202eevil👩‍👩‍👧", out=out, err=err)
    assert "".join(out.writes) == shown


def test_the_example_in_the_help_can_be_typed() -> None:
    parser = Command().create_parser("manage.py", "generate")
    assert parser.epilog
    words = shlex.split(parser.epilog.removeprefix("Example: manage.py generate "))
    options = parser.parse_args(words)
    assert (options.prompt, options.max_tokens) == ("Why is the sky blue?", 80)
