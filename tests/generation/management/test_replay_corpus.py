from __future__ import annotations

import io
import json
import re
import shlex
import signal
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from generation.management.commands.replay_corpus import Command
from generation.models import Run, Stream

pytestmark = pytest.mark.django_db(transaction=True)

DATA = Path(__file__).parents[2] / "data"
TABLE = r"""Run {run}: 5 prompts, 0 failed, \d+\.\d\d s

                   n        p50        p95
TTFT, model        5 +\d+\.\d ms +\d+\.\d ms   request received → first token made
TTFT, visible      5 +\d+\.\d ms +\d+\.\d ms   request received → first text handed on
TPOT               5 +\d+\.\d ms +\d+\.\d ms   \(total − TTFT, model\) / \(tokens − 1\)
total              5 +\d+\.\d ms +\d+\.\d ms   request received → end
tokens/s +\d+\.\d   tokens of all answers / duration of the run
ends          length 5
"""


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def err() -> io.StringIO:
    return io.StringIO()


def test_a_run_is_recorded_and_summed_up(out: io.StringIO, err: io.StringIO) -> None:
    corpus = str(DATA / "corpus.txt")
    call_command("replay_corpus", corpus, "--max-tokens", "2", "--concurrency", "2", stdout=out, stderr=err)
    run = Run.objects.get()
    assert re.fullmatch(TABLE.format(run=run.pk), out.getvalue())
    assert (run.name, run.corpus, run.model, run.parameters) == ("corpus.txt", corpus, "scripted", {"max_tokens": 2})
    assert run.ended_at is not None
    assert [item.stream.text for item in run.items.select_related("stream") if item.stream] == ["Hello, "] * 5
    assert err.getvalue() == ""


def test_the_status_tells_that_a_line_was_bad(out: io.StringIO, err: io.StringIO) -> None:
    with pytest.raises(CommandError, match=r"^2 of 4 prompts failed; the lines above say why\.$") as caught:
        call_command("replay_corpus", str(DATA / "corpus.jsonl"), "--json", stdout=out, stderr=err)
    assert caught.value.returncode == 1
    assert err.getvalue() == (
        "line 2: The line is not valid JSON: Expecting value: line 1 column 12 (char 11).\n"
        "line 3: 'temperature' is not supported by the model 'default'. Leave it out, or choose another model.\n"
    )
    summary = json.loads(out.getvalue())
    assert {name: summary[name] for name in ("items", "failed", "tokens", "ends")} == {
        "items": 4,
        "failed": 2,
        "tokens": 8,
        "ends": {"eos": 2},
    }


def test_prompts_come_from_standard_input_when_the_file_is_a_dash(
    out: io.StringIO, err: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = io.BytesIO(b'{"id": "a", "prompt": "one"}\n{"id": "b", "prompt": "two"}\n{"id": "c", "prompt": "three"}\n')
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(corpus))
    call_command("replay_corpus", "-", "--limit", "2", "--name", "two of three", stdout=out, stderr=err)
    run = Run.objects.get()
    assert (run.name, run.corpus) == ("two of three", "-")
    assert list(run.items.values_list("item_id", flat=True)) == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["no/such.txt"], "Cannot read no/such.txt: No such file or directory.", id="no file"),
        pytest.param(["/dev/null"], "/dev/null holds no prompts. Write one on each line.", id="no prompts"),
        pytest.param([str(DATA / "corpus.txt"), "--model", "gpt-9"], "There is no model 'gpt-9'.", id="no such model"),
        pytest.param(
            [str(DATA / "corpus.txt"), "--seed", "1"], "'seed' is not supported by the model 'default'.", id="seed"
        ),
        pytest.param([str(DATA / "corpus.txt"), "--temperature", "3"], "'temperature' is not valid", id="out of range"),
        pytest.param(
            [str(DATA / "corpus.txt"), "--concurrency", "999"], "--concurrency may be at most 256.", id="many"
        ),
        pytest.param(
            [str(DATA / "corpus.txt"), "--concurrency", "0"],
            "Error: argument --concurrency: '0' is not a whole number from 1",
            id="none at a time",
        ),
    ],
)
def test_no_run_begins_when_the_command_makes_no_sense(
    arguments: list[str], words: str, out: io.StringIO, err: io.StringIO
) -> None:
    with pytest.raises(CommandError) as caught:
        call_command("replay_corpus", *arguments, stdout=out, stderr=err)
    assert str(caught.value).startswith(words)
    assert not Run.objects.exists()


def test_the_summary_covers_what_was_done_when_ctrl_c_is_pressed(out: io.StringIO, tmp_path: Path) -> None:
    class Interrupting(io.StringIO):
        """Presses Ctrl-C when the bad line is reported."""

        def write(self, text: str) -> int:
            signal.raise_signal(signal.SIGINT)
            return super().write(text)

    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"prompt": "endless"}\n{"prompt": bad\n' + '{"prompt": "endless"}\n' * 8)
    with pytest.raises(SystemExit) as caught:
        call_command(
            "replay_corpus", str(corpus), "--model", "slow", "--concurrency", "2", "--json",
            stdout=out, stderr=Interrupting(),
        )  # fmt: skip
    assert caught.value.code == 130
    summary = json.loads(out.getvalue())
    # The signal reaches the event loop when one more prompt may have begun.
    assert summary["ends"] in ({"client_stop": 1}, {"client_stop": 2})
    assert summary["failed"] == 1
    assert Run.objects.get().ended_at is not None
    assert set(Stream.objects.values_list("state", flat=True)) == {"stopped"}


def test_the_example_in_the_help_can_be_typed() -> None:
    parser = Command().create_parser("manage.py", "replay_corpus")
    assert parser.epilog
    options = parser.parse_args(shlex.split(parser.epilog.removeprefix("Example: manage.py replay_corpus ")))
    assert (options.file, options.concurrency, options.max_tokens) == ("prompts.jsonl", 4, 100)
