"""OpenAI JSON out: the chunks of a stream, of a chat or of a bare text completion.

Every string returned is one line of ASCII JSON. The constant parts of a stream's chunks are rendered once, because a
content chunk is made for every delta. A writer belongs to one stream and sees the deltas of each choice in order.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

from generation.output import Delta, FinishReason, Usage
from generation.protocol.logprobs import TextLogprobs, chat_logprobs
from generation.protocol.tool_calls import tool_call_piece


class ChunkWriter(ABC):
    """Renders the chunks of one stream; all carry the same id, created and model.

    With ``include_usage`` every chunk but the last carries ``"usage": null``, as the OpenAI API does.
    """

    object: ClassVar[str]

    def __init__(self, *, wire_id: str, created: int, model: str, include_usage: bool = False) -> None:
        head = json_line({"id": wire_id, "object": self.object, "created": created, "model": model})
        self._head = head[:-1]
        self._before_choice = f'{self._head},"choices":[{{"index":'
        self._after_choice = "}]" + (',"usage":null}' if include_usage else "}")

    @abstractmethod
    def first(self, choice: int) -> str | None:
        """The chunk with which a choice begins, before any text; None where it begins with its text."""

    @abstractmethod
    def delta(self, choice: int, delta: Delta) -> str:
        """A chunk of text (or of a tool call), never empty."""

    @abstractmethod
    def finish(self, choice: int, reason: FinishReason) -> str:
        """The chunk that says why a choice ended, in a frame of its own."""

    def usage(self, usage: Usage) -> str:
        """The last chunk when usage was asked for."""
        return f'{self._head},"choices":[],"usage":{json_line(usage_body(usage))}}}'

    def _chunk(self, choice: int, rest: str) -> str:
        return f"{self._before_choice}{choice},{rest}{self._after_choice}"


class ChatChunkWriter(ChunkWriter):
    """The chunks of ``POST /v1/chat/completions``."""

    object = "chat.completion.chunk"

    def first(self, choice: int) -> str:
        return self._chunk(choice, '"delta":{"role":"assistant","content":""},"finish_reason":null')

    def delta(self, choice: int, delta: Delta) -> str:
        if not delta.tool_calls and not delta.logprobs:
            return self._chunk(choice, f'"delta":{{"content":{json.dumps(delta.text)}}},"finish_reason":null')
        content: dict[str, Any] = {"content": delta.text} if delta.text else {}
        if delta.tool_calls:
            content["tool_calls"] = [tool_call_piece(piece) for piece in delta.tool_calls]
        logprobs = f',"logprobs":{json_line(chat_logprobs(delta.logprobs))}' if delta.logprobs else ""
        return self._chunk(choice, f'"delta":{json_line(content)}{logprobs},"finish_reason":null')

    def finish(self, choice: int, reason: FinishReason) -> str:
        return self._chunk(choice, f'"delta":{{}},"finish_reason":"{reason}"')


class TextChunkWriter(ChunkWriter):
    """The chunks of ``POST /v1/completions``."""

    object = "text_completion"

    def __init__(self, *, wire_id: str, created: int, model: str, include_usage: bool = False) -> None:
        super().__init__(wire_id=wire_id, created=created, model=model, include_usage=include_usage)
        self._logprobs: dict[int, TextLogprobs] = {}

    def first(self, choice: int) -> None:
        return None

    def delta(self, choice: int, delta: Delta) -> str:
        logprobs = "null"
        if delta.logprobs:
            logprobs = json_line(self._logprobs.setdefault(choice, TextLogprobs()).push(delta.logprobs))
        return self._chunk(choice, f'"text":{json.dumps(delta.text)},"logprobs":{logprobs},"finish_reason":null')

    def finish(self, choice: int, reason: FinishReason) -> str:
        return self._chunk(choice, f'"text":"","logprobs":null,"finish_reason":"{reason}"')


def chunk_writer(
    endpoint: Literal["chat", "completions"] | str, *, wire_id: str, created: int, model: str, include_usage: bool
) -> ChunkWriter:
    """The writer of a stream's form."""
    writer = TextChunkWriter if endpoint == "completions" else ChatChunkWriter
    return writer(wire_id=wire_id, created=created, model=model, include_usage=include_usage)


def json_line(value: object) -> str:
    """One line of ASCII JSON."""
    return json.dumps(value, separators=(",", ":"))


def usage_body(usage: Usage) -> dict[str, Any]:
    """The ``usage`` object; cached tokens are told where they are known."""
    body: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
    }
    if usage.cached_tokens is not None:
        body["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    return body
