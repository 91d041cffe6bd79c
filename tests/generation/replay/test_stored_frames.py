from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries, Settings

from generation.models import Stream
from generation.output import StopReason
from generation.protocol.completion_request import completion_request
from generation.protocol.text_request import text_completion_request
from generation.recording import get_writer
from generation.replay.stored_frames import stored_deltas, stored_frames
from generation.streaming import EventStream, Origin, begin_all
from tests.stored_streams import MakeStream

HEAD = (
    'data: {"id":"chatcmpl-a","object":"chat.completion.chunk","created":1772366400,"model":"scripted","choices":'
    '[{"index":0,"delta":'
)
HALF = "generation.backends.scripted.ScriptedBackend"


def frames(stream: Stream, *, include_usage: bool = False) -> list[tuple[float, str]]:
    return [(at_s, frame.decode()) for at_s, frame in stored_frames(stream, include_usage=include_usage)]


def test_every_frame_comes_again_when_a_stream_is_done(make_stream: MakeStream) -> None:
    stream = make_stream(["Hi", " 👋"], wire_id="chatcmpl-a", prompt_tokens=3, completion_tokens=2, total_s=0.5)
    assert frames(stream, include_usage=True) == [
        (0.0, HEAD + '{"role":"assistant","content":""},"finish_reason":null}],"usage":null}\n\n'),
        (0.1, HEAD + '{"content":"Hi"},"finish_reason":null}],"usage":null}\n\n'),
        (0.2, HEAD + '{"content":" \\ud83d\\udc4b"},"finish_reason":null}],"usage":null}\n\n'),
        (0.5, HEAD + '{},"finish_reason":"stop"}],"usage":null}\n\n'),
        (
            0.5,
            HEAD.removesuffix('[{"index":0,"delta":')
            + '[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n',
        ),
        (0.5, "data: [DONE]\n\n"),
    ]


def test_the_error_is_the_last_frame_but_one_when_a_stream_failed(make_stream: MakeStream) -> None:
    error = {"error": {"message": "Too long.", "type": "server_error", "param": None, "code": "timeout"}}
    stream = make_stream(
        ["Hi"], state="failed", stop_reason="timeout", finish_reason=None, error_body=error, total_s=9.0
    )
    assert frames(stream)[-2:] == [
        (
            9.0,
            'data: {"error":{"message":"Too long.","type":"server_error","param":null,"code":"timeout"}}\n\n',
        ),
        (9.0, "data: [DONE]\n\n"),
    ]


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param({"state": "running"}, id="running"),
        pytest.param({"state": "stopped", "stop_reason": "client_disconnect", "finish_reason": None}, id="client left"),
        pytest.param({"state": "lost", "stop_reason": "lost", "finish_reason": None, "total_s": None}, id="lost"),
    ],
)
def test_there_is_no_last_frame_when_the_client_got_none(make_stream: MakeStream, columns: dict[str, Any]) -> None:
    stream = make_stream(["Hi"], wire_id="chatcmpl-a", **columns)
    assert frames(stream)[1:] == [(0.1, HEAD + '{"content":"Hi"},"finish_reason":null}]}\n\n')]


def test_usage_counts_only_what_was_made_before_the_end(make_stream: MakeStream) -> None:
    stream = make_stream(stop_reason="client_stop", prompt_tokens=3, completion_tokens=8, wasted_tokens=1)
    assert '"completion_tokens":7,"total_tokens":10}' in frames(stream, include_usage=True)[-2][1]


def test_usage_is_left_out_when_the_tokens_are_not_known(make_stream: MakeStream) -> None:
    assert not any('"prompt_tokens"' in frame for _, frame in frames(make_stream(), include_usage=True))


def test_deltas_are_read_in_parts_and_only_when_they_are_due(
    make_stream: MakeStream, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    texts = [f"{number} " for number in range(300)]
    stream = make_stream(texts, batch_size=3)
    with django_assert_num_queries(1):
        deltas = stored_deltas(stream)
        first = [next(deltas) for _ in range(120)]
    with django_assert_num_queries(3):
        rest = list(deltas)
    assert [text for _, text in first + rest] == texts


FIND = {"type": "function", "function": {"name": "find"}}
BACKENDS = {
    "default": {
        "BACKEND": HALF,
        "OPTIONS": {
            "model": "halves",
            "texts": ["Line\u2028one, \u0000 नमस्ते 👩‍👩‍👧 \x10 and 🇮🇳."],
            "byte_pieces": 1,
            "prompt_tokens": 9,
        },
    },
    "failing": {
        "BACKEND": HALF,
        "OPTIONS": {"model": "failing", "pieces": ["one ", "two "], "fail_at": 1},
    },
    "upstream": {
        "BACKEND": HALF,
        "OPTIONS": {"model": "upstream", "pieces": ["a"], "fail_at": 1, "error": "UpstreamTruncatedError"},
    },
    "ticking": {
        "BACKEND": HALF,
        "OPTIONS": {"model": "ticking", "pieces": ["tick "], "repeat": 100_000, "prompt_tokens": 2},
    },
    "silent": {"BACKEND": HALF, "OPTIONS": {"model": "silent", "pieces": []}},
    "tools": {
        "BACKEND": "generation.backends.scripted_tools.ScriptedToolsBackend",
        "OPTIONS": {
            "model": "tools",
            "pieces": ["Let me see."],
            "tool_calls": [{"name": "find", "arguments": {"q": "tea"}}, {"name": "now", "arguments": {}}],
            "prompt_tokens": 3,
        },
    },
}


async def stream_and_keep(fields: dict[str, Any], *, include_usage: bool, stop_after: int | None) -> tuple[int, bytes]:
    if "prompt" in fields:
        requests = text_completion_request(fields).generations
    else:
        requests = completion_request({"messages": [{"role": "user", "content": "hi"}], **fields}).generations
    generations = await begin_all(
        requests, Origin(source="api"), received_at=time.monotonic(), include_usage=include_usage
    )
    sent = []
    async for frame in EventStream(generations, include_usage=include_usage, keep_alive_s=60):
        sent.append(frame)
        if len(sent) == stop_after:
            generations[0].stop(StopReason.CLIENT_STOP)
    return generations[-1].stream_id, b"".join(sent)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("include_usage", [pytest.param(True, id="with usage"), pytest.param(False, id="without")])
@pytest.mark.parametrize(
    ("fields", "stop_after"),
    [
        pytest.param({"model": "default"}, None, id="done"),
        pytest.param({"model": "default", "max_tokens": 12}, None, id="length"),
        pytest.param({"model": "default", "stop": ["👩‍👩"]}, None, id="stop string"),
        pytest.param({"model": "ticking"}, 20, id="stopped"),
        pytest.param({"model": "failing"}, None, id="failed"),
        pytest.param({"model": "upstream"}, None, id="truncated"),
        pytest.param({"model": "silent"}, None, id="empty"),
        pytest.param({"model": "default", "logprobs": True, "top_logprobs": 2}, None, id="log-probabilities"),
        pytest.param({"model": "tools", "tools": [FIND]}, None, id="tool calls"),
        pytest.param({"model": "default", "n": 3}, None, id="three answers"),
        pytest.param({"model": "failing", "n": 2}, None, id="one of two failed"),
        pytest.param({"model": "ticking", "n": 2, "max_tokens": 50}, 20, id="one of two stopped"),
        pytest.param({"model": "default", "prompt": ["a", "b"], "n": 2, "logprobs": 2}, None, id="two prompts"),
    ],
)
def test_the_stored_frames_equal_those_that_were_sent(
    settings: Settings, fields: dict[str, Any], stop_after: int | None, include_usage: bool
) -> None:
    settings.GENERATION_BACKENDS = BACKENDS
    stream_id, sent = asyncio.run(stream_and_keep(fields, include_usage=include_usage, stop_after=stop_after))
    assert get_writer().flush(10)
    stored = stored_frames(Stream.objects.get(pk=stream_id))
    assert b"".join(frame for _, frame in stored) == sent
