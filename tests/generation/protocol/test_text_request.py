from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generation.exceptions import InvalidRequestError
from generation.protocol import parse_text_completion


def body(**fields: Any) -> bytes:
    return json.dumps({"model": "default", "prompt": "Once", **fields}).encode()


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        pytest.param("Once", ["Once"], id="text"),
        pytest.param([1, 2], [(1, 2)], id="token ids"),
        pytest.param(["a", "b"], ["a", "b"], id="texts"),
        pytest.param([[1], [2, 3]], [(1,), (2, 3)], id="lists of ids"),
        pytest.param(["a", [1]], ["a", (1,)], id="mixed"),
    ],
)
def test_makes_a_request_for_each_prompt(prompt: object, prompts: list) -> None:
    parsed = parse_text_completion(body(prompt=prompt))
    assert [request.prompt for request in parsed.generations] == prompts
    assert all(request.messages == () and request.endpoint == "completions" for request in parsed.generations)


@pytest.mark.parametrize(
    "prompt", ["", [], [""], [[]], [1, "a"], [True], [-1], [2**31], [1.0], None, 5, {"a": 1}, ["a"] * 17], ids=repr
)
def test_refuses_what_is_no_prompt(prompt: object) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_text_completion(body(prompt=prompt))
    assert caught.value.param == "prompt"
    assert caught.value.message.startswith("'prompt' is not valid: ")


def test_prompt_must_be_there() -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_text_completion(b'{"model": "m"}')
    assert (caught.value.param, caught.value.message) == ("prompt", "'prompt' is not valid: Field required.")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"echo": True}, "echo"),
        ({"suffix": "."}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"logprobs": 6}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"messages": []}, "messages"),
        ({"max_completion_tokens": 5}, "max_completion_tokens"),
        ({"n": 5}, "n"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
    ids=str,
)
def test_names_the_field_that_is_not_carried_out(fields: dict, param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_text_completion(body(**fields))
    assert caught.value.param == param


def test_takes_values_that_ask_for_nothing() -> None:
    parsed = parse_text_completion(body(echo=False, suffix="", best_of=2, n=2, presence_penalty=0)).generation
    assert (parsed.asked_for, parsed.n, parsed.sampling.max_tokens) == (frozenset(), 2, 16)


def test_carries_the_older_log_probabilities_over() -> None:
    parsed = parse_text_completion(body(logprobs=0, max_tokens=7, stop="x", seed=3)).generation
    assert (parsed.sampling.logprobs, parsed.sampling.top_logprobs, parsed.sampling.max_tokens) == (True, 0, 7)
    assert (parsed.sampling.stop, parsed.sampling.seed) == (("x",), 3)
    assert parsed.asked_for == {"logprobs", "max_tokens", "stop", "seed"}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(["prompt", "logprobs", "echo", "suffix", "best_of", "n"]), _json, max_size=4))
def test_never_fails_otherwise_when_fields_are_arbitrary_json(fields: dict) -> None:
    with contextlib.suppress(InvalidRequestError):
        parse_text_completion(body(**fields))
