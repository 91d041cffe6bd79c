"""The upstream backend against real sockets: what is sent, what becomes of what comes back, and every bad end."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pytest_django.fixtures import Settings

from generation.backends import backends
from generation.backends.base import BackendState
from generation.backends.upstream import UpstreamBackend
from generation.backends.upstream_kind import KINDS
from generation.backends.upstream_reply import UpstreamLimits, UpstreamTarget, open_reply
from generation.backends.upstream_stream import UpstreamStream
from generation.exceptions import (
    BackendUnavailableError,
    GenerationError,
    InvalidRequestError,
    RateLimitError,
    UpstreamError,
    UpstreamTruncatedError,
)
from generation.output import StopReason, Usage
from generation.request import ChatMessage, GenerationRequest, SamplingParams
from tests.canned_upstream import DONE, USAGE, Canned, CannedUpstream, canned_upstream, chunk, event
from tests.generation.backends.asking import ask, read, text, until

CASES = [json.loads(line) for line in Path("tests/data/event_stream.jsonl").read_text().split("\n") if line]
LIMITS = UpstreamLimits(
    connect_timeout_s=5,
    first_token_timeout_s=5,
    gap_timeout_s=5,
    retries=0,
    max_event_bytes=10_000,
    max_answer_bytes=10_000,
)
GOOD = Canned(pieces=[chunk("", role="assistant"), chunk("Hel"), chunk("lo"), chunk(finish="stop"), USAGE, DONE])


@asynccontextmanager
async def upstream(*answers: Canned, **options: Any) -> AsyncIterator[tuple[CannedUpstream, UpstreamBackend]]:
    """A canned server and the backend in front of it."""
    async with canned_upstream(*answers) as server:
        backend = UpstreamBackend("up", base_url=server.base_url, **{"models": ["canned"], "retries": 0, **options})
        try:
            yield server, backend
        finally:
            await asyncio.to_thread(backend.close)


async def ending(*answers: Canned, request: GenerationRequest | None = None, **options: Any) -> tuple[str, Any]:
    """The text that came, and the stop reason or the error that ended it."""
    async with upstream(*answers, **options) as (_, backend):
        stream = await backend.stream(request or ask())
        came = []
        try:
            while (delta := await anext(stream, None)) is not None:
                came.append(delta)
        except GenerationError as exc:
            return text(came), exc
        assert stream.outcome is not None
        return text(came), stream.outcome.stop_reason


async def test_text_usage_and_id_are_taken_when_all_is_well() -> None:
    async with upstream(GOOD, kind="vllm") as (server, backend):
        stream = await backend.stream(ask())
        assert text(await read(stream)) == "Hello"
        assert stream.outcome is not None
        assert stream.outcome.stop_reason is StopReason.EOS
        assert stream.outcome.usage == Usage(prompt_tokens=7, completion_tokens=3)
        assert (stream.upstream_id, stream.token_times, stream.token_ids) == ("up-1", [], None)
        assert stream.first_token_at is not None
        assert server.requests == [
            {
                "model": "canned",
                "stream": True,
                "stream_options": {"include_usage": True},
                "messages": [{"role": "user", "content": "Tea?"}],
            }
        ]


class Cut(httpx2.AsyncByteStream):
    """A body in pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


@pytest.mark.parametrize("case", [case for case in CASES if case["end"] != "raw"], ids=lambda case: case["id"])
async def test_end_is_the_listed_one_when_the_bytes_are_cut_anywhere(case: dict[str, Any]) -> None:
    whole = b"".join(bytes.fromhex(piece) for piece in case["chunks"])
    bodies = [Cut(*(bytes.fromhex(piece) for piece in case["chunks"])), Cut(*(bytes([byte]) for byte in whole))]
    bodies += [Cut(whole[:cut], whole[cut:]) for cut in range(1, len(whole))]
    waiting = iter(bodies)
    transport = httpx2.MockTransport(
        lambda _: httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, stream=next(waiting))
    )
    target = UpstreamTarget(base_url="http://x/v1", key="", kind=KINDS["other"], model="m")
    async with httpx2.AsyncClient(transport=transport) as client:
        for _ in bodies:
            stream = UpstreamStream(
                partial(open_reply, client, [target], ask(), LIMITS),
                ask(),
                reasoning="inline",
                on_begin=lambda _: None,
                on_end=lambda _: None,
            )
            assert await end_of(stream) == case["end"]
            await stream.closed()


async def end_of(stream: UpstreamStream) -> str:
    try:
        await read(stream)
    except UpstreamTruncatedError:
        return "truncated"
    except UpstreamError:
        return "failed"
    return "done"


async def test_connection_is_used_again_when_an_answer_was_whole() -> None:
    async with upstream(GOOD) as (server, backend):
        for _ in range(3):
            stream = await backend.stream(ask())
            await read(stream)
            await stream.closed()
        # One, and one for the probe unless that was over before.
        assert server.connections <= 2
        assert backend.active == 0


async def test_connection_closes_at_once_when_the_stream_is_cancelled() -> None:
    async with upstream(Canned(pieces=[chunk("one")], hold=True)) as (server, backend):
        stream = await backend.stream(ask())
        stopped: list[tuple[float, int | None]] = []
        stream.on_stopped = lambda at, tokens: stopped.append((at, tokens))
        assert (await anext(stream)).text == "one"
        reading = asyncio.ensure_future(anext(stream, None))
        await asyncio.sleep(0)
        stream.cancel()
        stream.cancel()
        async with asyncio.timeout(5):
            await server.gone.wait()
            assert await reading is None
            await stream.closed()
        assert [tokens for _, tokens in stopped] == [None]
        assert stream.outcome is not None
        assert stream.outcome.stop_reason is StopReason.CLIENT_STOP
        assert backend.active == 0


async def test_connection_closes_at_once_when_the_reader_is_cancelled() -> None:
    async with upstream(Canned(pieces=[chunk("one")], hold=True)) as (server, backend):
        stream = await backend.stream(ask())
        await anext(stream)
        reading = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        reading.cancel()
        async with asyncio.timeout(5):
            await server.gone.wait()
            await asyncio.wait({reading})
        assert reading.cancelled()


async def test_nothing_is_sent_when_cancelled_before_the_first_read() -> None:
    async with upstream(GOOD) as (server, backend):
        stream = await backend.stream(ask())
        stopped = []
        stream.on_stopped = lambda at, tokens: stopped.append(tokens)
        stream.cancel()
        assert await read(stream) == []
        assert (server.requests, stopped) == ([], [0])


async def test_cancel_ends_the_opening_when_the_upstream_does_not_answer() -> None:
    async with upstream(Canned(mute=True)) as (server, backend):
        stream = await backend.stream(ask())
        reading = asyncio.ensure_future(anext(stream, None))
        async with asyncio.timeout(5):
            await server.arrived.wait()
            stream.cancel()
            assert await reading is None
            await server.gone.wait()


async def test_admission_tells_a_refusal_before_the_first_read() -> None:
    async with upstream(Canned(status=400), GOOD, Canned(mute=True)) as (_, backend):
        refused = await backend.stream(ask())
        assert await refused.admitted() is False
        with pytest.raises(InvalidRequestError):
            await anext(refused)
        taken = await backend.stream(ask())
        assert await taken.admitted() is True
        assert text(await read(taken)) == "Hello"
        silent = await backend.stream(ask())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(silent.admitted(), 0.05)
        silent.cancel()
        assert await silent.admitted() is False
        assert await read(silent) == []


class TestRequest:
    async def sent(self, request: GenerationRequest, **options: Any) -> dict[str, Any]:
        async with upstream(GOOD, **options) as (server, backend):
            await read(await backend.stream(request))
            return server.requests[0]

    async def test_no_header_or_field_of_the_client_goes_along(self) -> None:
        request = GenerationRequest(
            model="canned", messages=(ChatMessage(role="user", content="x"),), end_user="me", metadata={"a": "b"}
        )
        async with upstream(GOOD, key="sk-1") as (server, backend):
            await read(await backend.stream(request))
        head = server.heads[0]
        assert head[""] == "POST /v1/chat/completions HTTP/1.1"
        assert set(head) == {"", "host", "accept", "accept-encoding", "connection", "user-agent", "authorization",
                             "content-length", "content-type"}  # fmt: skip
        assert (head["accept-encoding"], head["authorization"]) == ("identity", "Bearer sk-1")
        assert set(server.requests[0]) == {"model", "stream", "stream_options", "messages"}

    async def test_no_cookie_of_an_earlier_answer_goes_along(self) -> None:
        answer = Canned(pieces=GOOD.pieces, headers=(*GOOD.headers, "Set-Cookie: who=ada; Path=/"))
        async with upstream(answer) as (server, backend):
            for _ in range(2):
                await read(await backend.stream(ask()))
            assert ["cookie" in head for head in server.heads] == [False, False]

    async def test_no_proxy_of_the_environment_is_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
        assert await self.sent(ask())

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [
            ("vllm", {"max_tokens": 5, "repetition_penalty": 1.1, "top_k": 3, "stop": ["END"]}),
            ("llama.cpp", {"max_tokens": 5, "repeat_penalty": 1.1, "top_k": 3, "stop": ["END"]}),
        ],
    )
    async def test_fields_have_the_servers_own_names_when_of_kind(self, kind: str, expected: dict[str, Any]) -> None:
        request = ask(max_tokens=5, repetition_penalty=1.1, top_k=3, stop=("END",))
        body = await self.sent(request, kind=kind)
        assert {name: body[name] for name in expected} == expected

    async def test_token_limit_has_its_newer_name_when_the_upstream_is_openai(self) -> None:
        body = await self.sent(ask(max_tokens=5), kind="openai")
        assert (body["max_completion_tokens"], "max_tokens" in body) == (5, False)

    @pytest.mark.parametrize(("kind", "role"), [("openai", "developer"), ("vllm", "system")])
    async def test_developer_role_is_system_when_the_server_does_not_know_it(self, kind: str, role: str) -> None:
        request = GenerationRequest(model="canned", messages=(ChatMessage(role="developer", content="x"),))
        assert (await self.sent(request, kind=kind))["messages"] == [{"role": role, "content": "x"}]

    async def test_tools_and_their_messages_are_passed_on(self) -> None:
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        tool = {"type": "function", "function": {"name": "f"}}
        request = GenerationRequest(
            model="canned",
            messages=(
                ChatMessage(role="assistant", content="", tool_calls=(call,)),
                ChatMessage(role="tool", content="42", tool_call_id="c1"),
            ),
            tools=(tool,),
            tool_choice="auto",
        )
        body = await self.sent(request, kind="vllm")
        assert body["messages"] == [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "42", "tool_call_id": "c1"},
        ]
        assert (body["tools"], body["tool_choice"]) == ([tool], "auto")

    async def test_prompt_goes_to_the_other_route(self) -> None:
        piece = event({"id": "cmpl-1", "choices": [{"index": 0, "text": "more", "finish_reason": "length"}]})
        async with upstream(Canned(pieces=[piece, DONE]), kind="vllm") as (server, backend):
            stream = await backend.stream(GenerationRequest(model="canned", messages=(), prompt="once"))
            assert text(await read(stream)) == "more"
        assert server.heads[0][""] == "POST /v1/completions HTTP/1.1"
        assert (server.requests[0]["prompt"], "messages" in server.requests[0]) == ("once", False)

    async def test_name_is_mapped_when_the_upstream_calls_the_model_otherwise(self) -> None:
        assert (await self.sent(ask(), models={"ours": "org/theirs"}))["model"] == "org/theirs"

    async def test_field_is_refused_by_name_when_the_server_would_ignore_it(self) -> None:
        async with upstream(GOOD, kind="ollama") as (server, backend):
            with pytest.raises(InvalidRequestError) as caught:
                await backend.stream(ask(asked_for=frozenset({"min_p"}), min_p=0.1))
            assert (caught.value.param, server.requests) == ("min_p", [])


class TestStopStrings:
    LEAKY = Canned(pieces=[chunk("one E"), chunk("ND two"), chunk(" three", finish="stop"), USAGE, DONE])

    async def test_text_ends_before_them_when_the_upstream_leaks_them(self) -> None:
        assert await ending(self.LEAKY, request=ask(stop=("END",)), kind="sglang") == ("one ", StopReason.STOP_STRING)

    async def test_usage_is_still_taken_when_the_upstream_ends_by_itself(self) -> None:
        async with upstream(self.LEAKY, kind="tgi") as (_, backend):
            stream = await backend.stream(ask(stop=("END",)))
            await read(stream)
            assert stream.outcome is not None
            assert stream.outcome.stop_string == "END"
            assert stream.outcome.usage == Usage(prompt_tokens=7, completion_tokens=3)

    async def test_upstream_is_cut_off_when_it_was_not_told_of_them(self) -> None:
        answer = Canned(pieces=[chunk("one END"), chunk(" two")], hold=True)
        async with upstream(answer, kind="ollama") as (server, backend):
            stream = await backend.stream(ask(stop=("END",), include_stop=True))
            assert (await anext(stream)).text == "one END"
            assert stream.outcome is not None
            assert await read(stream) == []
            async with asyncio.timeout(5):
                await server.gone.wait()
            assert "stop" not in server.requests[0]

    async def test_upstreams_word_is_taken_when_it_says_which_one_matched(self) -> None:
        said = {"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": "END"}
        answer = Canned(pieces=[chunk("one "), event({"choices": [said]}), DONE])
        async with upstream(answer, kind="vllm") as (_, backend):
            stream = await backend.stream(ask(stop=("END",)))
            await read(stream)
            assert stream.outcome is not None
            assert (stream.outcome.stop_reason, stream.outcome.stop_string) == (StopReason.STOP_STRING, "END")


def told(word: str, *tokens: str) -> bytes:
    """A chunk that tells its tokens."""
    content = [{"token": token, "logprob": -0.5, "bytes": list(token.encode())} for token in tokens]
    choice = {"index": 0, "delta": {"content": word}, "logprobs": {"content": content}, "finish_reason": None}
    return event({"choices": [choice]})


class TestAnswer:
    @pytest.mark.parametrize(
        ("word", "reason"),
        [
            ("stop", StopReason.EOS),
            ("eos_token", StopReason.EOS),
            ("length", StopReason.LENGTH),
            ("tool_calls", StopReason.TOOL_CALLS),
            ("content_filter", StopReason.CONTENT_FILTER),
        ],
    )
    async def test_finish_reason_is_understood_when(self, word: str, reason: StopReason) -> None:
        assert await ending(Canned(pieces=[chunk("a", finish=word), DONE])) == ("a", reason)

    async def test_half_characters_wait_for_the_other_half_when_an_escape_was_cut(self) -> None:
        halves = [
            event('{"choices":[{"delta":{"content":"a\\ud83d"}}]}'),
            event('{"choices":[{"delta":{"content":"\\ude00"}}]}'),
        ]
        assert (await ending(Canned(pieces=[*halves, chunk(finish="stop"), DONE])))[0] == "a😀"

    async def test_reasoning_stands_in_marks_before_the_answer(self) -> None:
        pieces = [chunk(reasoning="Hm"), chunk(reasoning_content=", tea"), chunk("Yes"), chunk(finish="stop"), DONE]
        assert (await ending(Canned(pieces=pieces)))[0] == "<think>Hm, tea</think>Yes"
        assert (await ending(Canned(pieces=pieces), reasoning="drop"))[0] == "Yes"

    async def test_tool_calls_come_in_their_pieces(self) -> None:
        pieces = [
            chunk(
                tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]
            ),
            chunk(tool_calls=[{"index": 0, "function": {"arguments": '{"a":'}}]),
            chunk(tool_calls=[{"index": 0, "function": {"arguments": "1}"}}]),
            chunk(finish="stop"),
            DONE,
        ]
        async with upstream(Canned(pieces=pieces), kind="ollama") as (_, backend):
            stream = await backend.stream(ask())
            deltas = [delta async for delta in stream]
            calls = [call for delta in deltas for call in delta.tool_calls]
            assert [(call.id, call.name, call.arguments) for call in calls] == [
                ("c1", "f", ""),
                (None, None, '{"a":'),
                (None, None, "1}"),
            ]
            assert [(delta.first_token, delta.end_token) for delta in deltas] == [(0, 1), (1, 2), (2, 3)]
            assert stream.outcome is not None
            assert stream.outcome.stop_reason is StopReason.TOOL_CALLS

    async def test_tokens_are_counted_when_logprobs_tell_them(self) -> None:
        answer = Canned(pieces=[told("Hello", "Hel", "lo"), told("!", "!"), chunk(finish="stop"), DONE])
        async with upstream(answer, kind="vllm") as (server, backend):
            stream = await backend.stream(ask(logprobs=True, top_logprobs=0))
            deltas = await read(stream)
            assert [[entry.text for entry in delta.logprobs] for delta in deltas] == [["Hel", "lo"], ["!"]]
            assert [(delta.first_token, delta.end_token) for delta in deltas] == [(0, 2), (2, 3)]
            assert len(stream.token_times) == 3
            assert server.requests[0]["logprobs"] is True

    async def test_logprobs_stay_with_their_text_when_it_waits_or_is_cut_off(self) -> None:
        answer = Canned(pieces=[told("a E", "a", " E"), told("X E", "X", " E"), told("ND b", "ND", " b"), DONE])
        async with upstream(answer, kind="sglang") as (_, backend):
            deltas = await read(await backend.stream(ask(logprobs=True, stop=("END",))))
            assert [(delta.text, [entry.text for entry in delta.logprobs]) for delta in deltas] == [
                ("a ", ["a", " E"]),
                ("EX ", ["X", " E"]),
            ]

    async def test_logprobs_of_a_prompt_come_as_parallel_lists(self) -> None:
        lists = {"tokens": ["mo", "re"], "token_logprobs": [-0.1, -0.2], "top_logprobs": [{"mo": -0.1}, None]}
        piece = event({"choices": [{"text": "more", "finish_reason": "length", "logprobs": lists}]})
        async with upstream(Canned(pieces=[piece, DONE]), kind="vllm") as (server, backend):
            request = GenerationRequest(
                model="canned", messages=(), prompt=(1, 2), sampling=SamplingParams(logprobs=True, top_logprobs=1)
            )
            [delta] = await read(await backend.stream(request))
            assert [(entry.text, entry.logprob, len(entry.top)) for entry in delta.logprobs] == [
                ("mo", -0.1, 1),
                ("re", -0.2, 0),
            ]
            assert (server.requests[0]["prompt"], server.requests[0]["logprobs"]) == ([1, 2], 1)

    async def test_end_without_a_word_is_good_when_the_server_is_known_for_it(self) -> None:
        answer = Canned(pieces=[chunk("a"), DONE])
        assert (await ending(answer, quirks={"ends_without_finish": True})) == ("a", StopReason.EOS)

    async def test_answer_is_whole_when_only_its_usage_stays_away(self) -> None:
        answer = Canned(pieces=[chunk("a", finish="length")], hold=True)
        assert await ending(answer, gap_timeout_s=30) == ("a", StopReason.LENGTH)


class TestBadEnd:
    @pytest.mark.parametrize(
        ("answer", "code"),
        [
            pytest.param(Canned(pieces=[event("{")]), "upstream_malformed", id="malformed JSON"),
            pytest.param(Canned(pieces=[event("[1]")]), "upstream_malformed", id="no object"),
            pytest.param(Canned(pieces=[event('{"a":1}')]), "upstream_malformed", id="no chunk"),
            pytest.param(Canned(pieces=[chunk("a", tool_calls=5)]), "upstream_malformed", id="wrong type"),
            pytest.param(Canned(pieces=[event("[" * 4000)]), "upstream_malformed", id="nested absurdly"),
            pytest.param(Canned(pieces=[b"data: \xff\n\n"]), "upstream_malformed", id="bad UTF-8"),
            pytest.param(Canned(pieces=[b"data: " + b"x" * 5000], hold=True), "upstream_too_large", id="giant line"),
            pytest.param(Canned(pieces=[chunk("a" * 900)] * 40), "upstream_too_large", id="giant answer"),
            pytest.param(Canned(pieces=[event({"error": {"message": "no"}})]), "upstream_error", id="error in a 200"),
            pytest.param(Canned(pieces=[event({"error": "no"})]), "upstream_error", id="error of TGI in a 200"),
            pytest.param(Canned(pieces=[event({"error": {"code": "oom"}})]), "oom", id="error with a code of its own"),
            pytest.param(Canned(pieces=[chunk("a", finish="odd")]), "upstream_malformed", id="unknown finish"),
            pytest.param(Canned(pieces=[chunk("a")]), "upstream_truncated", id="end of input"),
            pytest.param(Canned(pieces=[chunk("a"), DONE]), "upstream_truncated", id="only [DONE]"),
            pytest.param(Canned(mute=True), "upstream_timeout", id="no head"),
            pytest.param(Canned(hold=True), "upstream_timeout", id="silence"),
            pytest.param(Canned(pieces=[chunk("a")], hold=True), "upstream_timeout", id="silence in the middle"),
            pytest.param(Canned(pieces=[b":\n"] * 99, pause_s=0.02), "upstream_timeout", id="comments only"),
            pytest.param(
                Canned(pieces=[chunk("a"), *[b":\n"] * 99], pause_s=0.02), "upstream_timeout", id="then comments only"
            ),
            pytest.param(Canned(status=500, pieces=[b"x" * 70_000], hold=True), "upstream_error", id="endless error"),
            pytest.param(
                Canned(headers=("Content-Encoding: gzip", "Content-Type: text/event-stream")),
                "upstream_compressed",
                id="compressed",
            ),
            pytest.param(Canned(headers=("Content-Type: text/html",)), "upstream_malformed", id="a page"),
            pytest.param(Canned(status=307, headers=("Location: http://x/",)), "upstream_redirect", id="redirect"),
            pytest.param(Canned(status=401), "upstream_unauthorized", id="wrong key"),
            pytest.param(Canned(status=404), "upstream_not_found", id="unknown model"),
            pytest.param(Canned(status=500), "upstream_error", id="failure"),
        ],
    )
    async def test_end_has_its_name_when(self, answer: Canned, code: str) -> None:
        before = asyncio.all_tasks()
        # Only where silence is the fault is it waited for.
        limit_s = 0.3 if code == "upstream_timeout" else 60
        _, error = await ending(
            answer, first_token_timeout_s=limit_s, gap_timeout_s=limit_s, max_event_bytes=4096, max_answer_bytes=16384
        )
        assert isinstance(error, UpstreamError)
        assert (error.code, error.status) == (code, 502)
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before

    async def test_text_that_waited_comes_before_the_error(self) -> None:
        came, error = await ending(Canned(pieces=[chunk("one E")]), request=ask(stop=("END",)))
        assert came == "one E"
        assert isinstance(error, UpstreamTruncatedError)

    @pytest.mark.parametrize(
        ("body", "param"),
        [
            ({"error": {"message": "too hot", "param": "temperature"}}, "temperature"),
            ({"error": {"message": "too much", "param": "repeat_penalty"}}, "repetition_penalty"),
            ({"detail": [{"loc": ["body", "top_p"], "msg": "no"}]}, "top_p"),
            ({"object": "error", "message": "too long", "param": None}, None),
        ],
    )
    async def test_refusal_is_the_clients_own_when_the_request_is_at_fault(
        self, body: dict[str, Any], param: str | None
    ) -> None:
        answer = Canned(status=400, pieces=[json.dumps(body).encode()], headers=("Content-Type: application/json",))
        _, error = await ending(answer, kind="llama.cpp")
        assert isinstance(error, InvalidRequestError)
        assert (error.status, error.param, error.stop_reason) == (400, param, StopReason.UPSTREAM_ERROR)

    async def test_client_is_told_to_wait_when_the_upstream_says_for_how_long(self) -> None:
        _, error = await ending(Canned(status=429, headers=("Retry-After: 20",)), retries=2)
        assert isinstance(error, RateLimitError)
        assert error.retry_after_s == 20


class TestRetries:
    BUSY = Canned(status=503, headers=("Retry-After: 0.01",))

    async def test_request_is_sent_again_when_the_upstream_was_busy(self) -> None:
        async with upstream(self.BUSY, self.BUSY, GOOD, retries=2) as (server, backend):
            assert text(await read(await backend.stream(ask()))) == "Hello"
            assert len(server.requests) == 3

    async def test_error_is_given_when_the_tries_are_used_up(self) -> None:
        async with upstream(self.BUSY, retries=1) as (server, backend):
            with pytest.raises(UpstreamError, match="answered 503"):
                await read(await backend.stream(ask()))
            assert len(server.requests) == 2

    @pytest.mark.parametrize("answer", [Canned(status=500), Canned(pieces=[chunk("a")]), Canned(status=400)])
    async def test_request_is_sent_once_when_it_was_answered(self, answer: Canned) -> None:
        async with upstream(answer, GOOD, retries=2) as (server, backend):
            with pytest.raises(GenerationError):
                await read(await backend.stream(ask()))
            assert len(server.requests) == 1

    async def test_fallback_answers_when_the_upstream_is_away(self, unused_port: Callable[[], int]) -> None:
        async with canned_upstream(GOOD) as second:
            backend = UpstreamBackend(
                "up",
                base_url=f"http://127.0.0.1:{unused_port()}/v1",
                models=["canned"],
                retries=0,
                fallback=second.base_url,
            )
            assert text(await read(await backend.stream(ask()))) == "Hello"
            await asyncio.to_thread(backend.close)

    @pytest.mark.parametrize(
        ("asked_for", "code"), [(frozenset({"stop"}), None), (frozenset({"stop", "top_k"}), "upstream_unreachable")]
    )
    async def test_fallback_by_alias_answers_when_it_carries_out_all_fields(
        self, asked_for: frozenset[str], code: str | None, settings: Settings, unused_port: Callable[[], int]
    ) -> None:
        async with canned_upstream(GOOD) as second:
            entry = "generation.backends.upstream.UpstreamBackend"
            away = {"base_url": f"http://127.0.0.1:{unused_port()}/v1", "kind": "vllm", "models": ["a"], "retries": 0}
            settings.GENERATION_BACKENDS = {
                "default": {"BACKEND": entry, "OPTIONS": {**away, "fallback": "spare"}},
                "spare": {"BACKEND": entry, "OPTIONS": {"base_url": second.base_url, "models": {"b": "theirs"}}},
            }
            stream = await backends["default"].stream(ask(asked_for=asked_for))
            if code is None:
                assert text(await read(stream)) == "Hello"
                backends.start_all()
                await until(lambda: backends["default"].health.state is BackendState.READY)
                assert backends["default"].health.message.endswith("; spare answers in its place")
                assert second.requests[0]["model"] == "theirs"
            else:
                with pytest.raises(UpstreamError) as caught:
                    await read(stream)
                assert (caught.value.code, second.requests) == (code, [])
            await asyncio.to_thread(backends.close_all)


class TestModels:
    async def test_models_are_those_of_the_upstream_when_the_settings_name_none(self) -> None:
        async with upstream(GOOD, models=()) as (server, backend):
            assert [card.id for card in backend.models()] == ["up"]
            await read(await backend.stream(ask()))
            assert [(card.id, card.context_length) for card in backend.models()] == [("canned", 4096), ("second", None)]
            assert server.requests[0]["model"] == "canned"
            assert backend.health.state is BackendState.READY

    async def test_start_returns_and_health_says_why_when_the_upstream_is_away(
        self, unused_port: Callable[[], int]
    ) -> None:
        backend = UpstreamBackend("up", base_url=f"http://127.0.0.1:{unused_port()}/v1", connect_timeout_s=1)
        backend.start()
        await asyncio.to_thread(backend._probe.probed.wait, 5)
        assert backend.health.state is BackendState.FAILED
        assert backend.health.message == "the upstream cannot be reached (ConnectError)"
        with pytest.raises(BackendUnavailableError, match="No models of 'up' are known yet: the upstream cannot"):
            await backend.stream(ask())
        await asyncio.to_thread(backend.close)


class TestOptions:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"base_url": "ftp://x/"}, "base_url must look like"),
            ({"base_url": "http://user:pw@x/v1"}, "base_url must look like"),
            ({"kind": "vlm"}, "kind is 'vlm'; it must be one of openai, vllm"),
            ({"quirks": {"stop": 1}}, "quirks has stop; it may have"),
            ({"reasoning": "hide"}, "must be 'inline' or 'drop'"),
            ({"retries": -1}, "retries is -1"),
        ],
    )
    def test_options_are_refused_in_clear_words_when(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            UpstreamBackend("up", **{"base_url": "http://x/v1", **options})

    def test_key_is_not_shown(self) -> None:
        backend = UpstreamBackend("up", base_url="http://x/v1", key="sk-secret", models=["a"])
        assert "sk-secret" not in repr(backend._target("a"))


@pytest.fixture
def unused_port() -> Callable[[], int]:
    from tests.live_server import free_port

    return free_port


def test_no_torch_is_loaded_when_the_model_is_elsewhere(tmp_path: Path) -> None:
    program = (
        "import sys, streamsite.asgi; from generation.backends import backends; backends.start_all(); "
        "print(type(backends['default']).__name__, 'torch' in sys.modules, 'transformers' in sys.modules)"
    )
    variables = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "streamsite.settings",
        "STREAMSITE_VAR": str(tmp_path),
        "STREAMSITE_UPSTREAM_URL": "http://127.0.0.1:9/v1",
    }
    ran = subprocess.run([sys.executable, "-c", program], env=variables, capture_output=True, text=True, timeout=60)
    assert ran.stdout.split() == ["UpstreamBackend", "False", "False"], ran.stderr
