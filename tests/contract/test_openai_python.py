"""The official Python client against the real server: what it makes of our frames is what users get."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from tests.contract.conftest import ApiServer

pytestmark = pytest.mark.servers

MESSAGES: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
FIND: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "Find a thing",
        "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
    },
}


@pytest.fixture
def client(api_server: ApiServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=api_server.base_url, api_key=api_server.api_key, max_retries=0) as made:
        yield made


class TestChat:
    def test_raw_iterator_gives_the_text_and_the_usage(self, client: OpenAI) -> None:
        stream = client.chat.completions.create(
            model="default", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "Hello, world!"
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
        assert chunks[-1].usage is not None
        assert (chunks[-1].usage.prompt_tokens, chunks[-1].usage.completion_tokens) == (9, 4)
        assert {chunk.id for chunk in chunks} == {chunks[0].id}

    def test_stream_helper_gives_the_final_completion(self, client: OpenAI) -> None:
        with client.chat.completions.stream(
            model="default", messages=MESSAGES, stream_options={"include_usage": True}
        ) as stream:
            deltas = [event.delta for event in stream if event.type == "content.delta"]
            final = stream.get_final_completion()
        # The role chunk's empty content is an event too, as with OpenAI's own servers.
        assert deltas == ["", "Hello", ", ", "world", "!"]
        assert final.choices[0].message.content == "Hello, world!"
        assert final.choices[0].finish_reason == "stop"
        assert final.usage is not None
        assert final.usage.total_tokens == 13

    def test_whole_answer_is_the_same(self, client: OpenAI) -> None:
        completion = client.chat.completions.create(model="default", messages=MESSAGES)
        assert completion.choices[0].message.content == "Hello, world!"
        assert completion.usage is not None
        assert completion.usage.completion_tokens == 4
        again = client.chat.completions.create(
            model="default",
            messages=[*MESSAGES, completion.choices[0].message.to_dict(), *MESSAGES],  # type: ignore[list-item]
        )
        assert again.choices[0].finish_reason == "stop"

    def test_stop_and_length_are_told(self, client: OpenAI) -> None:
        stopped = client.chat.completions.create(model="default", messages=MESSAGES, stop=["wor"])
        assert (stopped.choices[0].message.content, stopped.choices[0].finish_reason) == ("Hello, ", "stop")
        cut = client.chat.completions.create(model="default", messages=MESSAGES, max_completion_tokens=1)
        assert (cut.choices[0].message.content, cut.choices[0].finish_reason) == ("Hello", "length")

    def test_several_answers_are_told_apart(self, client: OpenAI) -> None:
        whole = client.chat.completions.create(model="default", messages=MESSAGES, n=3)
        assert [(choice.index, choice.message.content) for choice in whole.choices] == [
            (0, "Hello, world!"),
            (1, "Hello, world!"),
            (2, "Hello, world!"),
        ]
        assert whole.usage is not None
        assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (9, 12)
        with client.chat.completions.stream(model="default", messages=MESSAGES, n=2) as stream:
            final = stream.get_final_completion()
        assert [(choice.index, choice.message.content, choice.finish_reason) for choice in final.choices] == [
            (0, "Hello, world!", "stop"),
            (1, "Hello, world!", "stop"),
        ]

    def test_log_probabilities_come_with_their_text(self, client: OpenAI) -> None:
        whole = client.chat.completions.create(model="default", messages=MESSAGES, logprobs=True, top_logprobs=1)
        entries = whole.choices[0].logprobs and whole.choices[0].logprobs.content
        assert entries is not None
        assert [entry.token for entry in entries] == ["Hello", ", ", "world", "!"]
        assert all(entry.top_logprobs[0].bytes == list(entry.token.encode()) for entry in entries)
        with client.chat.completions.stream(model="default", messages=MESSAGES, logprobs=True) as stream:
            told = [event.content[0].token for event in stream if event.type == "logprobs.content.delta"]
            final = stream.get_final_completion()
        assert told == ["Hello", ", ", "world", "!"]
        assert final.choices[0].logprobs is not None
        assert final.choices[0].logprobs.content is not None
        assert [entry.logprob for entry in final.choices[0].logprobs.content] == [0.0] * 4


async def test_asynchronous_client_reads_several_streams_at_once(api_server: ApiServer) -> None:
    async with AsyncOpenAI(base_url=api_server.base_url, api_key=api_server.api_key, max_retries=0) as client:

        async def read(model: str) -> str:
            stream = await client.chat.completions.create(model=model, messages=MESSAGES, stream=True, max_tokens=5)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

        texts = await asyncio.gather(*[read(model) for model in ("default", "scripted-slow", "scripted-late")])
    assert texts == ["Hello, world!", "tick " * 5, "late"]


class TestTools:
    def test_calls_are_joined_by_the_helper(self, client: OpenAI) -> None:
        with client.chat.completions.stream(model="scripted-tools", messages=MESSAGES, tools=[FIND]) as stream:
            done = [event.arguments for event in stream if event.type == "tool_calls.function.arguments.done"]
            final = stream.get_final_completion().choices[0]
        assert [json.loads(arguments) for arguments in done] == [{"what": "tea"}, {"what": "चाय"}]
        assert (final.finish_reason, final.message.content) == ("tool_calls", "Let me see.")
        assert [call.function.name for call in final.message.tool_calls or []] == ["find", "find"]

    def test_whole_calls_can_be_answered(self, client: OpenAI) -> None:
        first = client.chat.completions.create(model="scripted-tools", messages=MESSAGES, tools=[FIND])
        message = first.choices[0].message
        assert first.choices[0].finish_reason == "tool_calls"
        answers = [
            {"role": "tool", "tool_call_id": call.id, "content": "It is hot."} for call in message.tool_calls or []
        ]
        assert len(answers) == 2
        last = client.chat.completions.create(
            model="scripted-tools",
            messages=[*MESSAGES, message.to_dict(), *answers],  # type: ignore[list-item]
            tools=[FIND],
            tool_choice="none",
        )
        assert (last.choices[0].finish_reason, last.choices[0].message.content) == ("stop", "Let me see.")

    def test_a_model_without_tools_refuses_them(self, client: OpenAI) -> None:
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="default", messages=MESSAGES, tools=[FIND], tool_choice="auto")
        assert refused.value.param == "tools"
        with pytest.raises(openai.BadRequestError) as unformed:
            client.chat.completions.create(model="default", messages=MESSAGES, response_format={"type": "json_object"})
        assert unformed.value.param == "response_format"


class TestCompletions:
    def test_text_streams_without_a_role(self, client: OpenAI) -> None:
        stream = client.completions.create(
            model="default", prompt="Say", stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
        assert [chunk.choices[0].text for chunk in chunks if chunk.choices] == ["Hello", ", ", "world", "!", ""]
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
        assert chunks[-1].usage is not None
        assert chunks[-1].usage.completion_tokens == 4
        assert chunks[0].object == "text_completion"
        assert chunks[0].id.startswith("cmpl-")

    def test_each_prompt_has_its_answers(self, client: OpenAI) -> None:
        whole = client.completions.create(
            model="default", prompt=[[1, 2], [3]], n=2, max_tokens=2, logprobs=1, stop="world"
        )
        assert [(choice.index, choice.text, choice.finish_reason) for choice in whole.choices] == [
            (index, "Hello, ", "length") for index in range(4)
        ]
        assert whole.choices[0].logprobs is not None
        assert whole.choices[0].logprobs.tokens == ["Hello", ", "]
        assert whole.choices[0].logprobs.text_offset == [0, 5]
        assert whole.usage is not None
        assert (whole.usage.prompt_tokens, whole.usage.completion_tokens) == (18, 8)

    def test_what_is_not_carried_out_is_named(self, client: OpenAI) -> None:
        with pytest.raises(openai.BadRequestError) as refused:
            client.completions.create(model="default", prompt="Say", echo=True)
        assert refused.value.param == "echo"


class TestSilence:
    def test_keep_alive_comments_do_no_harm(self, client: OpenAI) -> None:
        stream = client.chat.completions.create(model="scripted-late", messages=MESSAGES, stream=True)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "late"

    def test_a_long_prefill_is_waited_for_when_the_client_waits_less_than_that(self, client: OpenAI) -> None:
        patient = client.with_options(timeout=openai.Timeout(20, read=1.5))
        for stream in (
            patient.chat.completions.create(model="scripted-silent", messages=MESSAGES, stream=True),
            patient.completions.create(model="scripted-silent", prompt="Say", stream=True),
        ):
            assert list(stream)[-1].choices[0].finish_reason == "stop"


class TestEnds:
    def test_closing_the_stream_ends_the_generation(self, client: OpenAI, api_server: ApiServer) -> None:
        with client.chat.completions.create(model="scripted-slow", messages=MESSAGES, stream=True) as stream:
            first = next(iter(stream))
        assert api_server.records.stream(first.id, timeout_s=10)["stop_reason"] == "client_disconnect"

    def test_closing_the_stream_ends_every_answer(self, client: OpenAI, api_server: ApiServer) -> None:
        with client.completions.create(model="scripted-slow", prompt="Say", n=3, stream=True) as stream:
            first = next(iter(stream))
        api_server.records.stream(first.id, timeout_s=10)
        sql = "SELECT choice, stop_reason FROM generation_stream WHERE wire_id = ? ORDER BY choice"
        assert [tuple(row.values()) for row in api_server.records.rows(sql, first.id)] == [
            (choice, "client_disconnect") for choice in range(3)
        ]

    def test_error_before_the_first_byte_is_the_clients_own_exception(self, client: OpenAI) -> None:
        with pytest.raises(openai.NotFoundError) as caught:
            client.chat.completions.create(model="none", messages=MESSAGES)
        assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model="default", messages=MESSAGES, n=9, stream=True)
        assert refused.value.param == "n"

    @pytest.mark.parametrize("n", [1, 2])
    def test_error_in_mid_stream_is_raised_and_never_a_clean_end(self, client: OpenAI, n: int) -> None:
        stream = client.chat.completions.create(model="scripted-failing", messages=MESSAGES, stream=True, n=n)
        read = []
        with pytest.raises(openai.APIError) as caught:
            read.extend(chunk.choices[0] for chunk in stream)
        # What came before the error stays read, and none of it said that it was the end.
        assert [choice.delta.content for choice in read if choice.index == 0] == ["", "one ", "two "]
        assert {choice.finish_reason for choice in read} == {None}
        assert caught.value.code == "engine_error"

    def test_error_in_a_bare_completion_is_raised(self, client: OpenAI) -> None:
        with pytest.raises(openai.APIError) as caught:
            list(client.completions.create(model="scripted-failing", prompt="Say", stream=True))
        assert caught.value.code == "engine_error"

    def test_error_in_a_whole_answer_is_a_status(self, client: OpenAI, api_server: ApiServer) -> None:
        with pytest.raises(openai.InternalServerError) as caught:
            client.chat.completions.create(model="scripted-failing", messages=MESSAGES)
        assert (caught.value.status_code, caught.value.code) == (api_server.failure_status, "engine_error")


def test_models_are_listed_and_found(client: OpenAI) -> None:
    assert "scripted" in {model.id for model in client.models.list()}
    assert client.models.retrieve("scripted").id == "scripted"
