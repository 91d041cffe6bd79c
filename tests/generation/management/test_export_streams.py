from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from generation.management.commands.export_streams import Command
from generation.models import Review, Run, Stream

MakeStream = Callable[..., Stream]


@pytest.fixture
def make_stream(db: None) -> MakeStream:
    """Write a stream of two deltas; ``fields`` are columns."""

    def make(**fields: Any) -> Stream:
        columns = {
            "wire_id": f"chatcmpl-{Stream.objects.count()}", "source": "api", "model": "scripted",
            "backend": "default", "state": "done", "stop_reason": "eos", "text": "tea time", "delta_count": 2,
            "started_at": datetime(2026, 3, 1, 12, tzinfo=UTC), "messages": [{"role": "user", "content": "What?"}],
        }  # fmt: skip
        stream = Stream.objects.create(**{**columns, **fields})
        delta = {"first_token": None, "end_token": None, "made_s": None, "sent_s": 0.5, "holds": []}
        stream.batches.create(first_seq=1, deltas=[{**delta, "text": "tea "}, {**delta, "text": "time"}])
        return stream

    return make


def export(*arguments: str) -> tuple[str, str]:
    """What the command wrote to its output, and what it told."""
    out, err = io.StringIO(newline=""), io.StringIO()
    call_command("export_streams", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def exported_ids(*arguments: str) -> list[int]:
    return [json.loads(line)["id"] for line in export("-", *arguments)[0].splitlines()]


@pytest.mark.parametrize(
    ("name", "options", "read"),
    [
        ("all.csv", [], lambda text: [row["text"] for row in csv.DictReader(io.StringIO(text, newline=""))]),
        ("all.jsonl", [], lambda text: [json.loads(line)["text"] for line in text.splitlines()]),
        ("all", ["--format", "jsonl"], lambda text: [json.loads(line)["text"] for line in text.splitlines()]),
    ],
    ids=["csv", "jsonl", "format"],
)
def test_a_file_has_a_line_for_each_stream(
    name: str, options: list[str], read: Callable[[str], list[str]], make_stream: MakeStream, tmp_path: Path
) -> None:
    make_stream(text="older")
    make_stream(text="चाय")
    file = tmp_path / name
    assert export(str(file), *options) == ("", "2 streams exported.\n")
    assert read(file.read_bytes().decode()) == ["चाय", "older"]
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_deltas_are_lines_when_asked_for(make_stream: MakeStream) -> None:
    stream = make_stream()
    out, told = export("-", "--format", "deltas", "--stream", str(stream.pk))
    assert [json.loads(line)["text"] for line in out.splitlines()] == ["tea ", "time"]
    assert told == "1 streams exported.\n"


@pytest.mark.parametrize("export_format", ["csv", "jsonl", "deltas"])
def test_words_are_left_out_when_figures_are_asked_for(export_format: str, make_stream: MakeStream) -> None:
    make_stream(ttft_visible_s=0.125)
    out, _ = export("-", "--format", export_format, "--figures-only")
    assert not [word for word in ("tea", "time", "What?") if word in out.replace("_time", "")]
    assert ("0.125" in out) is (export_format != "deltas")


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ([], "fedcba"),
        (["--limit", "2"], "fe"),
        (["--model", "other"], "b"),
        (["--source", "page"], "c"),
        (["--state", "stopped"], "d"),
        (["--stop-reason", "client_stop"], "d"),
        (["--since", "2026-03-02"], "e"),
        (["--until", "2026-03-01"], "f"),
        (["--label", "good"], "a"),
        (["--label", "good", "--model", "other"], ""),
        (["--run", "1"], "c"),
    ],
    ids=lambda value: " ".join(value) or "all",
)
def test_streams_are_chosen_by_options(options: list[str], chosen: str, make_stream: MakeStream) -> None:
    streams = {
        "a": make_stream(),
        "b": make_stream(model="other"),
        "c": make_stream(source="page"),
        "d": make_stream(state="stopped", stop_reason="client_stop"),
        "e": make_stream(started_at=datetime(2026, 3, 2, tzinfo=UTC)),
        "f": make_stream(started_at=datetime(2026, 2, 28, 23, 59, tzinfo=UTC)),
    }
    for label in ("good", "good", "long"):
        Review.objects.create(stream=streams["a"], label=label)
    Run.objects.create(pk=1, corpus="c", model="m").items.create(position=1, item_id="1", stream=streams["c"])
    assert exported_ids(*options) == [streams[name].pk for name in chosen]


@pytest.mark.django_db(transaction=True)
def test_the_same_is_asked_again_when_the_messages_are_replayed(tmp_path: Path) -> None:
    corpus, again = tmp_path / "prompts.jsonl", tmp_path / "again.jsonl"
    asked = [
        {"messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "चाय\u2028?"}]},
        {"prompt": "=1+1", "stop": ["world"], "max_tokens": 3},
    ]
    corpus.write_text("".join(json.dumps(item) + "\n" for item in asked))
    call_command("replay_corpus", str(corpus), stdout=io.StringIO(), stderr=io.StringIO())
    first = list(Stream.objects.order_by("-pk"))
    Stream.objects.create(
        wire_id="old", source="api", model="m", backend="b", state="done", stop_reason="eos", has_text=False,
        started_at=datetime(2026, 3, 1, tzinfo=UTC),
    )  # fmt: skip
    assert export(str(again), "--format", "messages")[1] == (
        "1 streams left out: no words are stored, or the prompt was token ids.\n2 streams exported.\n"
    )
    call_command("replay_corpus", str(again), stdout=io.StringIO(), stderr=io.StringIO())
    items = Run.objects.latest("pk").items.select_related("stream")
    replayed = [item.stream for item in items if item.stream]
    assert [item.item_id for item in items] == [str(stream.pk) for stream in first]
    assert [(s.messages, s.parameters, s.text) for s in replayed] == [(s.messages, s.parameters, s.text) for s in first]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["x.jsonl", "--format", "messages", "--figures-only"], "leave --figures-only out"),
        (["no/such/folder/x.csv"], r"^Cannot write no/such/folder/x\.csv: No such file or directory\.$"),
        (["-", "--since", "yesterday"], "'yesterday' is not a day such as 2026-03-01"),
        (["-", "--until", "2026-02-30"], "'2026-02-30' is not a day such as 2026-03-01"),
        (["-", "--limit", "0"], "'0' is not a whole number from 1"),
    ],
    ids=["figures", "folder", "since", "until", "limit"],
)
@pytest.mark.django_db
def test_it_is_told_in_words_when_an_option_is_wrong(arguments: list[str], told: str) -> None:
    with pytest.raises(CommandError, match=told):
        export(*arguments)


def test_a_file_stays_as_it_was_when_the_export_fails(make_stream: MakeStream, tmp_path: Path) -> None:
    make_stream(parameters={"seed": 7})
    file = tmp_path / "all.jsonl"
    file.write_text("before")
    # No columns of deltas: the rows were damaged by something else.
    Stream.objects.get().batches.update(deltas={})
    with pytest.raises(KeyError):
        export(str(file), "--format", "deltas")
    assert file.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["all.jsonl"]


def test_the_example_in_the_help_can_be_typed() -> None:
    parser = Command().create_parser("manage.py", "export_streams")
    assert parser.epilog
    options = parser.parse_args(shlex.split(parser.epilog.removeprefix("Example: manage.py export_streams ")))
    assert (options.file, options.format, options.label) == ("good.jsonl", "messages", "good")
    assert options.since == datetime(2026, 3, 1, tzinfo=UTC)
