from __future__ import annotations

from typing import Any

import pytest

from generation.export.corpus_lines import corpus_item
from generation.export.json_lines import json_line
from generation.models import Stream
from generation.protocol.completion_request import completion_request
from generation.protocol.text_request import text_completion_request
from generation.recording.opening import _messages, _parameters
from generation.replay.corpus import CorpusItem, read_corpus
from generation.request import GenerationRequest

ASKED = [{"role": "user", "content": "What is tea?"}]
TOOL = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "find", "arguments": '{"what": "चाय"}'}}


def recorded(request: GenerationRequest) -> Stream:
    return Stream(pk=12, endpoint=request.endpoint, messages=_messages(request), parameters=_parameters(request))


def replayed(stream: Stream) -> GenerationRequest:
    """What `replay_corpus` makes of the stream's line."""
    (item,) = read_corpus([json_line(corpus_item(stream))], {"model": "scripted"})
    assert isinstance(item, CorpusItem), item
    assert item.item_id == "12"
    return item.request


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {
            "messages": [
                {"role": "system", "content": "Be\u2028short.\x00"},
                *ASKED,
                {"role": "assistant", "content": ""},
            ]
        },
        {"temperature": 0.0, "top_p": 0.5, "top_k": 4, "min_p": 0.1, "seed": -7, "max_tokens": 5, "min_tokens": 1},
        {"repetition_penalty": 1.5, "presence_penalty": 1.0, "frequency_penalty": -1.0, "ignore_eos": True},
        {"stop": ["\n\n", "END"], "include_stop_str_in_output": True, "logit_bias": {"7": -100.0}},
        {"logprobs": True, "top_logprobs": 3},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "tea", "schema": {"type": "object"}}}},
        {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
        {
            "messages": [
                *ASKED,
                {"role": "assistant", "content": "", "tool_calls": [CALL]},
                {"role": "tool", "content": "a leaf", "tool_call_id": "call_1"},
            ],
            "tools": [TOOL],
        },
        {"user": "reader", "metadata": {"case": "7"}},
    ],
    ids=[
        "plain",
        "messages",
        "numbers",
        "penalties",
        "stop",
        "logprobs",
        "json",
        "schema",
        "tools",
        "tool's answer",
        "metadata",
    ],
)
def test_the_same_is_asked_for_when_a_stream_is_exported_and_replayed(fields: dict[str, Any]) -> None:
    request = completion_request({"model": "scripted", "messages": ASKED, **fields}).generation
    assert replayed(recorded(request)) == request


def test_each_answer_is_an_item_when_one_request_asked_for_several() -> None:
    request = completion_request({"model": "scripted", "messages": ASKED, "n": 3}).generation
    assert replayed(recorded(request)).n == 1


def test_a_bare_prompt_becomes_a_users_message() -> None:
    request = text_completion_request({"model": "scripted", "prompt": "Once ", "logprobs": 2}).generation
    again = replayed(recorded(request))
    assert [(message.role, message.content) for message in again.messages] == [("user", "Once ")]
    assert again.sampling == request.sampling


@pytest.mark.parametrize(
    "fields",
    [{"has_text": False, "messages": []}, {"messages": []}, {"messages": [{"role": "prompt", "content": [1, 2]}]}],
    ids=["no text", "no messages", "token ids"],
)
def test_there_is_no_item_when_nothing_could_be_asked(fields: dict[str, Any]) -> None:
    assert corpus_item(Stream(pk=12, **fields)) is None
