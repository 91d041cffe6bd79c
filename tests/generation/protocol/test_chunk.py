"""Every chunk, byte for byte as the OpenAI API writes it."""

from __future__ import annotations

import json

from generation.output import Delta, FinishReason, TokenLogprob, ToolCallDelta, Usage
from generation.protocol.chunk import ChatChunkWriter, TextChunkWriter, chunk_writer

HEAD = '{"id":"chatcmpl-7f3c","object":"chat.completion.chunk","created":1795964278,"model":"smollm2-135m",'
PLAIN = ChatChunkWriter(wire_id="chatcmpl-7f3c", created=1795964278, model="smollm2-135m")
WITH_USAGE = ChatChunkWriter(wire_id="chatcmpl-7f3c", created=1795964278, model="smollm2-135m", include_usage=True)
TEXT_HEAD = '{"id":"cmpl-7f3c","object":"text_completion","created":1795964278,"model":"smollm2-135m",'
CERTAIN = TokenLogprob(text="Hi", data=b"Hi", logprob=-0.5, top=(TokenLogprob(text="Ho", data=b"Ho", logprob=-1.5),))


def delta(text: str, **fields: object) -> Delta:
    return Delta(text=text, first_token=0, end_token=1, **fields)  # type: ignore[arg-type]


def text_writer() -> TextChunkWriter:
    return TextChunkWriter(wire_id="cmpl-7f3c", created=1795964278, model="smollm2-135m")


class TestChatChunkWriter:
    def test_role_comes_with_empty_content(self) -> None:
        assert PLAIN.first(0) == (
            HEAD + '"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}'
        )

    def test_content_carries_the_text(self) -> None:
        assert PLAIN.delta(0, delta("Hello")) == (
            HEAD + '"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}'
        )

    def test_each_answer_has_its_index(self) -> None:
        assert '"choices":[{"index":3,"delta":{"content":"a"},' in PLAIN.delta(3, delta("a"))

    def test_content_is_ascii_when_the_text_is_not(self) -> None:
        line = PLAIN.delta(0, delta('है\u2028\x85\x1e\x00"\\'))
        assert line.isascii()
        assert line.isprintable()
        assert json.loads(line)["choices"][0]["delta"]["content"] == 'है\u2028\x85\x1e\x00"\\'

    def test_log_probabilities_stand_beside_the_text(self) -> None:
        assert PLAIN.delta(0, delta("Hi", logprobs=(CERTAIN,))) == (
            HEAD + '"choices":[{"index":0,"delta":{"content":"Hi"},"logprobs":{"content":[{"token":"Hi","logprob":-0.5,'
            '"bytes":[72,105],"top_logprobs":[{"token":"Ho","logprob":-1.5,"bytes":[72,111]}]}]},"finish_reason":null}]}'
        )

    def test_tool_call_comes_without_content(self) -> None:
        pieces = (ToolCallDelta(index=0, id="call_1", name="find"), ToolCallDelta(index=0, arguments="{}"))
        assert [PLAIN.delta(0, delta("", tool_calls=(piece,))) for piece in pieces] == [
            HEAD + '"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function",'
            '"function":{"name":"find","arguments":""}}]},"finish_reason":null}]}',
            HEAD + '"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},'
            '"finish_reason":null}]}',
        ]

    def test_finish_has_an_empty_delta(self) -> None:
        assert PLAIN.finish(0, FinishReason.LENGTH) == (
            HEAD + '"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}'
        )

    def test_every_chunk_has_a_null_usage_when_usage_was_asked_for(self) -> None:
        for line in (WITH_USAGE.first(0), WITH_USAGE.delta(0, delta("a")), WITH_USAGE.finish(0, FinishReason.STOP)):
            assert line.endswith(',"usage":null}')
            assert json.loads(line)["usage"] is None

    def test_usage_chunk_has_no_choices(self) -> None:
        assert WITH_USAGE.usage(Usage(prompt_tokens=9, completion_tokens=2)) == (
            HEAD + '"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}'
        )

    def test_usage_tells_the_cached_tokens_when_they_are_known(self) -> None:
        assert WITH_USAGE.usage(Usage(prompt_tokens=9, completion_tokens=2, cached_tokens=8)).endswith(
            '"total_tokens":11,"prompt_tokens_details":{"cached_tokens":8}}}'
        )


class TestTextChunkWriter:
    def test_begins_with_its_text(self) -> None:
        assert text_writer().first(0) is None

    def test_text_stands_in_the_choice(self) -> None:
        assert text_writer().delta(1, delta("Hello")) == (
            TEXT_HEAD + '"choices":[{"index":1,"text":"Hello","logprobs":null,"finish_reason":null}]}'
        )

    def test_finish_has_an_empty_text(self) -> None:
        assert text_writer().finish(0, FinishReason.STOP) == (
            TEXT_HEAD + '"choices":[{"index":0,"text":"","logprobs":null,"finish_reason":"stop"}]}'
        )

    def test_offsets_run_on_in_each_answer_by_itself(self) -> None:
        writer = text_writer()
        lines = [writer.delta(choice, delta("Hi", logprobs=(CERTAIN,))) for choice in (0, 1, 0)]
        offsets = [json.loads(line)["choices"][0]["logprobs"]["text_offset"] for line in lines]
        assert offsets == [[0], [0], [2]]


def test_writer_is_that_of_the_endpoint() -> None:
    made = [
        chunk_writer(name, wire_id="x", created=1, model="m", include_usage=False) for name in ("chat", "completions")
    ]
    assert [type(writer) for writer in made] == [ChatChunkWriter, TextChunkWriter]
