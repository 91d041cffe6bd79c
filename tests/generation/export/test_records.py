from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User

from generation.access import create_key
from generation.export.json_lines import json_line
from generation.export.records import COLUMNS, CONTENT, WORDS, delta_records, stream_record
from generation.models import Review, Stream

MakeStream = Callable[..., Stream]

#: Columns that are exported under another name, or are secrets or of no use elsewhere.
OTHERWISE = {"id", "user", "api_key", "conversation", "wire_id", "choice", "endpoint", "source", "client_stream_id"}
NOT_EXPORTED = {"session_key", "worker", "message"}


def test_every_column_is_exported_or_left_out_on_purpose() -> None:
    columns = {field.name for field in Stream._meta.concrete_fields}
    assert columns == {*COLUMNS, *CONTENT, *OTHERWISE, *NOT_EXPORTED}


def test_a_record_holds_everything_but_secrets(make_stream: MakeStream) -> None:
    ada = User.objects.create_user("ada", password="pass-secret")
    key, whole = create_key(ada, "laptop")
    stream = make_stream(
        ["tea"], user=ada, api_key=key, session_key="session-secret", ttft_visible_s=0.0, parameters={"seed": 7},
        messages=[{"role": "user", "content": "What?"}], token_ids=[1], stop_string="",
    )  # fmt: skip
    Review.objects.create(stream=stream, reviewer=ada, label="good", score=5, comment="nice", first_seq=1, last_seq=1)
    record = stream_record(stream, content=True)
    assert (record["id"], record["user"], record["api_key"]) == (stream.pk, "ada", key.prefix)
    assert (record["text"], record["token_ids"], record["parameters"]) == ("tea", [1], {"seed": 7})
    assert (record["ttft_visible_s"], record["total_s"], record["stop_string"]) == (0.0, None, "")
    (review,) = record["reviews"]
    assert {**review, "created_at": None} == {
        "reviewer": "ada", "label": "good", "score": 5, "comment": "nice", "first_seq": 1, "last_seq": 1,
        "created_at": None,
    }  # fmt: skip
    line = json_line(record).decode()
    assert not [secret for secret in ("secret", whole, key.secret_sha256) if secret in line]


def test_no_content_is_told_when_it_is_left_out(make_stream: MakeStream) -> None:
    stream = make_stream(
        ["the-words"], messages=[{"role": "user", "content": "the-words"}], parameters={"stop": ["the-words"]},
        stop_string="the-words", error="the-words", error_body={"error": "the-words"}, tool_calls=["the-words"],
        token_ids=[424242],
    )  # fmt: skip
    Review.objects.create(stream=stream, label="good", comment="the-words")
    line = json_line(stream_record(stream, content=False)).decode()
    assert "the-words" not in line
    assert "424242" not in line
    assert not set(CONTENT) & set(json.loads(line))


def test_words_are_null_when_the_text_is_not_stored(make_stream: MakeStream) -> None:
    stream = make_stream([""], has_text=False, parameters={"seed": 7}, total_s=1.5)
    record = stream_record(stream, content=True)
    assert {name: record[name] for name in WORDS} == dict.fromkeys(WORDS)
    assert (record["parameters"], record["total_s"], record["has_text"]) == ({"seed": 7}, 1.5, False)


def test_the_text_so_far_is_told_when_the_stream_runs(make_stream: MakeStream) -> None:
    assert stream_record(make_stream(["so ", "far"], state="running"), content=True)["text"] == "so far"


DELTA = {
    "text": "tea", "first_token": 3, "end_token": 5, "made_s": 0.1, "sent_s": 0.2,
    "holds": [{"cause": "stop", "size": 2, "held_s": 0.05}],
}  # fmt: skip
FIGURES = {"made_s": 0.1, "sent_s": 0.2, "first_token": 3, "end_token": 5, "holds": DELTA["holds"]}


@pytest.mark.parametrize(
    ("delta", "content", "has_text", "told"),
    [
        (DELTA, True, True, {"chars": 3, "text": "tea"}),
        (DELTA | {"tool_calls": [{"index": 0}]}, True, True, {"chars": 3, "text": "tea", "tool_calls": [{"index": 0}]}),
        (DELTA | {"logprobs": [{"text": "tea"}]}, False, True, {"chars": 3}),
        (DELTA | {"text": "", "chars": 3}, True, False, {"chars": 3, "text": None}),
        (DELTA | {"text": "", "chars": 3}, False, False, {"chars": 3}),
    ],
    ids=["content", "tools", "figures", "no text", "no text, figures"],
)
def test_deltas_are_numbered_records(
    delta: dict[str, object], content: bool, has_text: bool, told: dict[str, object]
) -> None:
    records = list(delta_records(7, 41, [delta, delta], content=content, has_text=has_text))
    assert records == [{"stream": 7, "seq": seq, **FIGURES, **told} for seq in (41, 42)]
