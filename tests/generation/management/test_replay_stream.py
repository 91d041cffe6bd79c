from __future__ import annotations

import datetime
import io
import shlex
import time
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from generation.management.commands.replay_stream import Command
from generation.models import Stream

pytestmark = pytest.mark.django_db

HEAD = 'data: {"id":"chatcmpl-a","object":"chat.completion.chunk","created":1772366400,"model":"scripted","choices":'
FRAMES = (
    HEAD + '[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"usage":null}\n\n'
    + HEAD + '[{"index":0,"delta":{"content":"\\u0939\\u093f"},"finish_reason":null}],"usage":null}\n\n'
    + HEAD + '[{"index":0,"delta":{"content":"\\u001b[2J"},"finish_reason":null}],"usage":null}\n\n'
    + HEAD + '[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}\n\n'
    + HEAD + '[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
    "data: [DONE]\n\n"
)  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def stream() -> Stream:
    """Two deltas, 0.4 s apart."""
    stream = Stream.objects.create(
        wire_id="chatcmpl-a",
        source="api",
        model="scripted",
        backend="default",
        started_at=datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.UTC),
        state="done",
        stop_reason="eos",
        finish_reason="stop",
        text="हि\x1b[2J",
        include_usage=True,
        prompt_tokens=3,
        completion_tokens=2,
        total_s=0.4,
    )
    for seq, text, sent_s in ((1, "हि", 0.0), (2, "\x1b[2J", 0.4)):
        delta = {"text": text, "first_token": seq - 1, "end_token": seq, "made_s": None, "sent_s": sent_s, "holds": []}
        stream.batches.create(first_seq=seq, deltas=[delta])
    return stream


def replay(*arguments: str, out: io.StringIO) -> str:
    err = io.StringIO()
    call_command("replay_stream", *arguments, stdout=out, stderr=err)
    return err.getvalue()


@pytest.mark.parametrize(
    ("out", "shown"),
    [
        pytest.param(io.StringIO(), "हि\x1b[2J", id="pipe"),
        pytest.param(Terminal(), "हि\\x1b[2J\n", id="terminal"),
    ],
)
def test_the_text_is_printed_as_it_was_said(stream: Stream, out: io.StringIO, shown: str) -> None:
    told = replay(str(stream.pk), "--no-wait", out=out)
    assert out.getvalue() == shown
    assert told == f"2 tokens · total 0.40 s · eos · stream {stream.pk} (chatcmpl-a)\n"


def test_the_frames_are_printed_when_asked_for(stream: Stream) -> None:
    out = io.StringIO()
    replay("chatcmpl-a", "--json", "--no-wait", out=out)
    assert out.getvalue() == FRAMES


def test_the_frames_are_those_of_a_client_that_asked_for_no_usage(stream: Stream) -> None:
    out = io.StringIO()
    replay("chatcmpl-a", "--json", "--no-wait", "--no-usage", out=out)
    *chunks, usage, done, end = FRAMES.replace(',"usage":null', "").split("\n\n")
    assert usage.endswith('"total_tokens":5}}')
    assert out.getvalue() == "\n\n".join([*chunks, done, end])


@pytest.mark.parametrize(
    ("options", "least_s"),
    [
        pytest.param([], 0.4, id="as it was"),
        pytest.param(["--speed", "4"], 0.1, id="faster"),
        pytest.param(["--json", "--speed", "4"], 0.1, id="frames"),
    ],
)
def test_it_takes_as_long_as_the_stream_did(stream: Stream, options: list[str], least_s: float) -> None:
    began_at = time.monotonic()
    replay("chatcmpl-a", *options, out=io.StringIO())
    assert time.monotonic() - began_at >= least_s


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        pytest.param(
            {"state": "failed", "stop_reason": "engine_error", "finish_reason": None, "error": "No \x1b[2J memory."},
            "failed: No \\x1b[2J memory.\n",
            id="failed",
        ),
        pytest.param(
            {"log_incomplete": True},
            "Some deltas of this stream were not stored; the admin shows its whole text.\n",
            id="incomplete",
        ),
    ],
)
def test_it_is_told_what_is_wrong_with_the_stream(stream: Stream, columns: dict[str, Any], told: str) -> None:
    Stream.objects.filter(pk=stream.pk).update(**columns)
    assert replay("chatcmpl-a", "--no-wait", out=io.StringIO()).startswith(told)


@pytest.mark.parametrize("key", ["99999", "chatcmpl-b", "٣", "9" * 30])
def test_the_newest_are_named_when_there_is_no_such_stream(stream: Stream, key: str) -> None:
    with pytest.raises(CommandError) as caught:
        replay(key, out=io.StringIO())
    assert str(caught.value) == (
        f"There is no stream {key!r}. The newest are {stream.pk}; the admin lists all under /admin/generation/stream/."
    )


def test_it_is_told_how_to_make_a_stream_when_there_is_none() -> None:
    with pytest.raises(CommandError) as caught:
        replay("1", out=io.StringIO())
    assert str(caught.value) == 'No stream is recorded yet. Make one: manage.py generate "What is tea?"'


@pytest.mark.parametrize("speed", ["0", "0.2", "101", "fast", "nan"])
def test_a_speed_is_refused_when_it_is_out_of_range(speed: str) -> None:
    with pytest.raises(CommandError, match=f"'{speed}' is not a number from 0.25 to 100"):
        replay("1", "--speed", speed, out=io.StringIO())


def test_the_example_in_the_help_can_be_typed() -> None:
    parser = Command().create_parser("manage.py", "replay_stream")
    assert parser.epilog
    options = parser.parse_args(shlex.split(parser.epilog.removeprefix("Example: manage.py replay_stream ")))
    assert (options.stream, options.speed) == ("12", 2.0)
