"""What the body may say, and how each wrong one is told."""

from __future__ import annotations

import contextlib
import functools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generation.exceptions import InvalidRequestError
from generation.protocol import parse_chat_completion
from generation.request import ChatMessage, ResponseFormat
from tests.request_cases import NEED_A_TOKENIZER, REQUESTS, body_of

#: An unknown model, and what a tokenizer must judge.
NEED_A_BACKEND = {"requests-17"} | NEED_A_TOKENIZER


FIND = {"type": "function", "function": {"name": "find", "parameters": {"type": "object"}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
DEEP = functools.reduce(lambda inner, _: {"properties": inner}, range(200), {})


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "default", "messages": [{"role": "user", "content": "hi"}], **fields}).encode()


def refusal(raw: bytes) -> InvalidRequestError:
    with pytest.raises(InvalidRequestError) as caught:
        parse_chat_completion(raw)
    return caught.value


@pytest.mark.parametrize(
    "case", [case for case in REQUESTS if case["id"] not in NEED_A_BACKEND], ids=lambda case: case["id"]
)
def test_gives_the_listed_status_and_param(case: dict) -> None:
    raw = body_of(case)
    if case["status"] == 200:
        parse_chat_completion(raw)
        return
    error = refusal(raw)
    assert (error.status, error.param) == (case["status"], case["param"])


def test_names_what_is_wrong_when_the_nesting_is_absurd() -> None:
    error = refusal(b"[" * 100_000)
    assert (error.status, error.param, error.message) == (400, None, "The body's JSON is nested too deeply.")


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"temperature": "hot"}, "temperature", "'temperature' is not valid: Input should be a valid number."),
        ({"temperature": True}, "temperature", "'temperature' is not valid: Input should be a valid number."),
        ({"max_tokens": 1.5}, "max_tokens", "'max_tokens' is not valid: Input should be a valid integer."),
        (
            {"messages": [{"role": "user", "content": 7}]},
            "messages",
            "'messages[0].content' is not valid: it must be a string or a list of text parts.",
        ),
        ({"messages": [{"role": "user"}]}, "messages", "'messages[0].content' is not valid: Field required."),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages",
            "'messages[0].content[0].type' is not valid: Input should be 'text'.",
        ),
        ({"logit_bias": {"x": 1}}, "logit_bias", None),
        ({"logit_bias": {str(n): 1 for n in range(301)}}, "logit_bias", None),
        ({"logit_bias": {"5": 101}}, "logit_bias", None),
        ({"metadata": {str(n): "v" for n in range(17)}}, "metadata", None),
        ({"min_tokens": 9, "max_tokens": 3}, "min_tokens", "'min_tokens' is 9, more than the 3 tokens allowed."),
        ({"seed": 2**63}, "seed", None),
        ({"functions": []}, "functions", "Unknown field 'functions'."),
        ({"tools": []}, "tools", None),
        ({"tools": [{"type": "retrieval"}]}, "tools", None),
        ({"tool_choice": "auto"}, "tool_choice", "'tool_choice' is only allowed with 'tools'."),
        ({"parallel_tool_calls": True}, "parallel_tool_calls", "'parallel_tool_calls' is only allowed with 'tools'."),
        (
            {"tools": [FIND], "tool_choice": {"type": "function", "function": {"name": "fund"}}},
            "tool_choice",
            "'tool_choice' names 'fund'; 'tools' has find.",
        ),
        ({"tools": [FIND], "tool_choice": "any"}, "tool_choice", None),
        (
            {"messages": [{"role": "tool", "content": "4"}]},
            "messages",
            "'messages[0]' is not valid: 'tool_call_id' must be there for the role tool, and only for it.",
        ),
        (
            {"messages": [{"role": "user", "content": "4", "tool_calls": [CALL]}]},
            "messages",
            "'messages[0]' is not valid: 'tool_calls' are for the role assistant only.",
        ),
        (
            {"response_format": {"type": "json_schema"}},
            "response_format",
            "'response_format' is not valid: 'json_schema' must be there for the type json_schema, and only for it.",
        ),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "a b"}}}, "response_format", None),
        ({"tools": [{"type": "function", "function": {"name": "f", "parameters": DEEP}}]}, "tools", None),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs", None),
        ({"stream": "yes"}, "stream", "'stream' is not valid: Input should be a valid boolean."),
        ({"user": 5}, "user", None),
    ],
    ids=str,
)  # fmt: skip
def test_names_the_field_when_a_value_is_wrong(fields: dict, param: str, message: str | None) -> None:
    error = refusal(body(**fields))
    assert error.param == param
    assert param in error.message or "nested too deeply" in error.message
    if message is not None:
        assert error.message == message


def test_names_the_field_when_a_number_deep_inside_is_beyond_all_range() -> None:
    # JSON has no word for infinity, so no database would take it.
    tools = b'[{"type": "function", "function": {"name": "f", "parameters": {"maximum": 1e999}}}]'
    error = refusal(body(tools=0).replace(b'"tools": 0', b'"tools": ' + tools))
    assert (error.param, error.message) == ("tools", "A number is beyond the range of a float.")


def test_refuses_an_object_that_names_a_field_twice() -> None:
    assert "same field twice" in refusal(b'{"model": "a", "model": "b"}').message


def test_takes_null_for_an_optional_field_as_absent() -> None:
    parsed = parse_chat_completion(body(temperature=None, stop=None, n=None, stream_options=None))
    assert parsed.generation.sampling.temperature is None
    assert parsed.generation.sampling.stop == ()
    assert parsed.generation.asked_for == frozenset()


def test_joins_text_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    parsed = parse_chat_completion(body(messages=[{"role": "user", "content": parts}]))
    assert parsed.generation.messages == (ChatMessage(role="user", content="ab"),)


def test_takes_back_an_assistant_message_as_clients_send_it() -> None:
    message = {"role": "assistant", "content": "Hi", "refusal": None, "tool_calls": None}
    parsed = parse_chat_completion(body(messages=[message, {"role": "user", "content": "x"}]))
    assert parsed.generation.messages[0] == ChatMessage(role="assistant", content="Hi")


def test_carries_every_sampling_field_over() -> None:
    parsed = parse_chat_completion(
        body(
            max_completion_tokens=5, temperature=0.5, top_p=0.9, top_k=40, min_p=0.1, repetition_penalty=1.1,
            presence_penalty=0.2, frequency_penalty=-0.3, seed=7, logit_bias={"11": -100}, stop=["a", "b"],
            include_stop_str_in_output=True, min_tokens=2, ignore_eos=True, user="u", metadata={"k": "v"},
        )
    )  # fmt: skip
    sampling = parsed.generation.sampling
    assert (sampling.max_tokens, sampling.temperature, sampling.top_p, sampling.top_k) == (5, 0.5, 0.9, 40)
    assert (sampling.min_p, sampling.repetition_penalty, sampling.presence_penalty) == (0.1, 1.1, 0.2)
    assert (sampling.frequency_penalty, sampling.seed, dict(sampling.logit_bias)) == (-0.3, 7, {11: -100})
    assert (sampling.stop, sampling.include_stop, sampling.min_tokens, sampling.ignore_eos) == (
        ("a", "b"),
        True,
        2,
        True,
    )
    assert (parsed.generation.end_user, dict(parsed.generation.metadata)) == ("u", {"k": "v"})
    assert {"temperature", "seed", "logit_bias", "max_completion_tokens"} <= parsed.generation.asked_for


def test_asks_for_nothing_when_a_client_spells_out_the_defaults() -> None:
    fields = {
        "n": 1,
        "logprobs": False,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "response_format": {"type": "text"},
    }
    assert parse_chat_completion(body(**fields)).generation.asked_for == frozenset()


def test_carries_tools_and_their_messages_over() -> None:
    messages = [
        {"role": "user", "content": "Where?"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "Here.", "tool_call_id": "c1"},
    ]
    parsed = parse_chat_completion(
        body(
            messages=messages,
            tools=[FIND],
            tool_choice={"type": "function", "function": {"name": "find"}},
            parallel_tool_calls=False,
        )
    ).generation
    assert parsed.messages[1:] == (
        ChatMessage(role="assistant", content="", tool_calls=(CALL,)),
        ChatMessage(role="tool", content="Here.", tool_call_id="c1"),
    )
    assert (parsed.tools, parsed.parallel_tool_calls) == ((FIND,), False)
    assert parsed.tool_choice == {"type": "function", "function": {"name": "find"}}
    assert parsed.asked_for == {"tools", "tool_choice", "parallel_tool_calls"}


def test_asks_for_tools_when_only_the_messages_speak_of_them() -> None:
    message = {"role": "tool", "content": "4", "tool_call_id": "c1"}
    assert parse_chat_completion(body(messages=[message])).generation.asked_for == {"tools"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param({"type": "text"}, None, id="text"),
        pytest.param({"type": "json_object"}, ResponseFormat(kind="json_object"), id="json_object"),
        pytest.param(
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True}},
            ResponseFormat(kind="json_schema", name="n", schema={"type": "object"}),
            id="json_schema",
        ),
    ],
)
def test_carries_the_response_format_over(given: dict, wanted: ResponseFormat | None) -> None:
    parsed = parse_chat_completion(body(response_format=given)).generation
    assert parsed.sampling.response_format == wanted
    assert parsed.asked_for == (frozenset() if wanted is None else {"response_format"})


def test_leaves_the_number_of_answers_and_who_reads_them_to_the_spine() -> None:
    parsed = parse_chat_completion(body(n=3, logprobs=True, top_logprobs=2, user="u")).generation
    assert (parsed.n, parsed.sampling.logprobs, parsed.sampling.top_logprobs) == (3, True, 2)
    assert parsed.asked_for == {"logprobs", "top_logprobs"}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = [
    "model", "messages", "stream", "stream_options", "max_completion_tokens", "max_tokens", "stop", "temperature",
    "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed", "logit_bias", "n",
    "logprobs", "top_logprobs", "response_format", "user", "metadata", "include_stop_str_in_output", "ignore_eos",
    "min_tokens", "chat_template", "tools", "tool_choice", "parallel_tool_calls",
]  # fmt: skip


@settings(max_examples=500)
@given(st.dictionaries(st.sampled_from(_FIELDS), _json, max_size=5), st.booleans())
def test_never_fails_otherwise_when_fields_are_arbitrary_json(fields: dict, complete: bool) -> None:
    raw = body(**fields) if complete else json.dumps(fields).encode()
    with contextlib.suppress(InvalidRequestError):
        parse_chat_completion(raw)


@settings(max_examples=500)
@given(st.binary(max_size=60))
def test_never_fails_otherwise_when_the_body_is_noise(raw: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        parse_chat_completion(raw)
