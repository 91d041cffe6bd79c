"""Whatever a body holds, a real server answers it at once with a 4xx that says why, and goes on as before.

`make fuzz` sends 20,000 bodies, a test run 1,000.
"""

from __future__ import annotations

import http.client
import json
import os
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.live_server import LiveServer, live_server

pytestmark = pytest.mark.servers

EXAMPLES = 20_000 if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 1_000
TIMEOUT_S = 30
GOOD: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "default", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3},
    "/v1/completions": {"model": "default", "prompt": "hi", "max_tokens": 3},
}
FIELDS = [
    "model", "messages", "prompt", "stream", "stream_options", "max_completion_tokens", "max_tokens", "stop",
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed",
    "logit_bias", "n", "logprobs", "top_logprobs", "response_format", "user", "metadata", "include_stop_str_in_output",
    "ignore_eos", "min_tokens", "tools", "tool_choice", "parallel_tool_calls", "echo", "suffix", "best_of",
    "chat_template", "api_base", "",
]  # fmt: skip

numbers = st.integers() | st.floats() | st.sampled_from([0, -1, 10**9, 2**63, -(2**64), 10**400, 1e308, 5e-324])
words = st.text(max_size=20) | st.sampled_from(["", "\x00", "\ud800", "\u2028", "default", "x" * 5000])
values = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)
messages = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "role": st.sampled_from(["user", "assistant", "system", "tool", "robot"]) | values,
            "content": words | values,
            "tool_calls": values,
            "tool_call_id": values,
        },
    ),
    max_size=3,
)
tools = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("function"), "function": st.fixed_dictionaries({"name": words, "parameters": values})}
    ),
    max_size=2,
)
fields = st.dictionaries(st.sampled_from(FIELDS), values, max_size=4)
shaped = st.fixed_dictionaries(
    {}, optional={"messages": messages, "tools": tools, "prompt": words | st.lists(st.integers()) | values}
)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, bytes]:
    """A path, and a body for it that is a good one spoilt, or never was one."""
    path = draw(st.sampled_from(sorted(GOOD)))
    model = draw(st.sampled_from(["default", "scripted-tools"]))
    body = {**GOOD[path], "model": model, **draw(shaped), **draw(fields)}
    for name in draw(st.lists(st.sampled_from(sorted(body)), max_size=2)):
        body.pop(name, None)
    raw = json.dumps(body).encode()
    how = draw(st.sampled_from(["as it is", "cut", "doubled", "spliced", "noise"]))
    if how == "cut":
        return path, raw[: draw(st.integers(0, len(raw)))]
    if how == "doubled":
        return path, raw[:-1] + b"," + raw[1:]
    if how == "spliced":
        at = draw(st.integers(0, len(raw)))
        return path, raw[:at] + draw(st.binary(max_size=8)) + raw[at:]
    return path, draw(st.binary(max_size=200)) if how == "noise" else raw


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(tmp_path_factory.mktemp("malformed")) as started:
        yield started


class Client:
    """One connection, kept; where the server has closed it in an idle moment, another one, which must then serve."""

    def __init__(self, server: LiveServer) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)

    def close(self) -> None:
        self._connection.close()

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        kept = self._connection.sock is not None
        try:
            return self._exchange(path, body)
        except (BrokenPipeError, ConnectionResetError, http.client.RemoteDisconnected):
            if not kept:
                raise
        return self._exchange(path, body)

    def _exchange(self, path: str, body: bytes) -> tuple[int, bytes]:
        try:
            self._connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            return response.status, response.read()
        except BaseException:
            self._connection.close()
            raise


@pytest.fixture(scope="module")
def client(server: LiveServer) -> Iterator[Client]:
    with closing(Client(server)) as made:
        yield made


@pytest.fixture(scope="module")
def good_answers(client: Client) -> Iterator[dict[str, bytes]]:
    """The answers to good requests, before; they must be the same afterwards, to the byte."""
    before = answers(client)
    yield before
    assert answers(client) == before


def answers(client: Client) -> dict[str, bytes]:
    found = {}
    for path, body in GOOD.items():
        for stream in (False, True):
            status, answer = client.post(path, json.dumps({**body, "stream": stream}).encode())
            assert status == 200
            found[f"{path} {stream}"] = re.sub(rb'"(id|created)": ?("[^"]*"|\d+)', rb'"\1":0', answer)
    return found


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(bodies())
@example(("/v1/chat/completions", b"[" * 100_000))
@example(("/v1/chat/completions", b'{"model":"default","messages":' + b'[{"a":' * 50_000))
@example(("/v1/chat/completions", b'{"n": ' + b"9" * 100_000 + b"}"))
@example(("/v1/completions", b'{"model":"default","prompt":"a","metadata":{"a":"\\u0000"}}'))
def test_every_body_is_answered_with_a_reason_and_never_a_fault(
    client: Client, good_answers: dict[str, bytes], body: tuple[str, bytes]
) -> None:
    path, raw = body
    status, answer = client.post(path, raw)
    if status == 200:
        # It was not malformed after all; then it is answered whole.
        assert answer.endswith((b"data: [DONE]\n\n", b"}"))
        return
    assert 400 <= status < 500, answer
    assert json.loads(answer)["error"].keys() == {"message", "type", "param", "code"}
