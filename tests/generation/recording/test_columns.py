from __future__ import annotations

import pytest

from generation.output import Delta, StopReason, ToolCallDelta, Usage
from generation.recording import Recorder, StreamEnd, get_writer


@pytest.mark.parametrize(
    ("end", "stop", "expected"),
    [
        pytest.param({"usage": Usage(prompt_tokens=9, completion_tokens=4)}, None, (9, 4), id="the backend counted"),
        pytest.param({}, None, (None, None), id="nobody knows"),
        pytest.param({}, (2.0, 5), (None, None), id="pieces are not tokens"),
        pytest.param({"token_ids": [1, 2], "prompt_tokens": 9}, None, (9, 2), id="counted here"),
        pytest.param({"token_ids": [1, 2], "prompt_tokens": 9}, (2.0, 3), (9, 3), id="one more after the end"),
        pytest.param(
            {"token_ids": [1, 2], "usage": Usage(prompt_tokens=9, completion_tokens=2)},
            (2.0, 3),
            (9, 3),
            id="one more after the usage was counted",
        ),
        pytest.param({"token_ids": [], "prompt_tokens": 9}, (2.0, 0), (9, 0), id="none made is zero, not null"),
    ],
)
def test_tokens_are_counted_and_never_guessed(open_row, stored, end, stop, expected):
    stream_id = open_row()
    recorder = Recorder(stream_id, received_at=0.0)
    if stop:
        recorder.stopped(*stop)
    recorder.finish(StreamEnd(stop_reason=StopReason.CLIENT_DISCONNECT, ended_at=1.0, **end))
    assert get_writer().flush()
    assert (stored(stream_id).prompt_tokens, stored(stream_id).completion_tokens) == expected


@pytest.mark.parametrize(
    ("reason", "state", "finish_reason", "ended_by"),
    [
        (StopReason.EOS, "done", "stop", "model"),
        (StopReason.LENGTH, "done", "length", "model"),
        (StopReason.CLIENT_STOP, "stopped", "stop", "user"),
        (StopReason.CLIENT_DISCONNECT, "stopped", None, "client"),
        (StopReason.SERVER_SHUTDOWN, "stopped", None, "server"),
        (StopReason.TIMEOUT, "failed", None, "server"),
        (StopReason.UPSTREAM_TRUNCATED, "failed", None, "upstream"),
    ],
)
def test_the_record_says_why_and_by_whom_a_stream_ended(open_row, stored, reason, state, finish_reason, ended_by):
    stream_id = open_row()
    Recorder(stream_id, received_at=0.0).finish(StreamEnd(stop_reason=reason, ended_at=1.0, error="what went wrong"))
    assert get_writer().flush()
    row = stored(stream_id)
    assert (row.state, row.stop_reason, row.finish_reason, row.ended_by) == (state, reason, finish_reason, ended_by)
    assert row.error == "what went wrong"


def test_the_record_keeps_what_an_upstream_and_its_tools_said(open_row, stored):
    stream_id = open_row()
    recorder = Recorder(stream_id, received_at=0.0)
    for piece in (ToolCallDelta(index=0, id="c", name="f"), ToolCallDelta(index=0, arguments="{}")):
        recorder.delta(Delta(text="", first_token=0, end_token=1, tool_calls=(piece,)), 0.5)
    error = {"error": {"message": "\x00", "type": "server_error", "param": None, "code": None}}
    recorder.finish(
        StreamEnd(
            stop_reason=StopReason.TOOL_CALLS,
            ended_at=1.0,
            usage=Usage(prompt_tokens=9, completion_tokens=2, cached_tokens=7),
            upstream_id="chatcmpl-theirs",
            error_body=error,
        )
    )
    assert get_writer().flush()
    row = stored(stream_id)
    assert (row.finish_reason, row.upstream_id, row.cached_tokens) == ("tool_calls", "chatcmpl-theirs", 7)
    assert row.error_body == error
    assert row.tool_calls == [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]


def test_the_record_is_closed_without_a_proof_when_the_proof_fails(open_row, stored, caplog):
    def prove(text: str) -> None:
        raise LookupError("the tokenizer is gone")

    stream_id = open_row()
    Recorder(stream_id, received_at=0.0).finish(StreamEnd(stop_reason=StopReason.EOS, ended_at=1.0, prove=prove))
    assert get_writer().flush()
    assert (stored(stream_id).state, stored(stream_id).proof) == ("done", None)
    assert f"The proof of stream {stream_id} could not be made." in caplog.text
