"""OpenAI JSON out: whole answers in one body, and model objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from generation.output import FinishReason, TokenLogprob, Usage
from generation.protocol.chunk import usage_body
from generation.protocol.logprobs import TextLogprobs, chat_logprobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One choice, whole; ``logprobs`` is None where none were asked for, ``tool_calls`` are OpenAI's JSON."""

    text: str
    finish_reason: FinishReason
    logprobs: tuple[TokenLogprob, ...] | None = None
    tool_calls: Sequence[dict[str, Any]] = ()


def completion_body(
    *,
    endpoint: Literal["chat", "completions"],
    wire_id: str,
    created: int,
    model: str,
    answers: Sequence[Answer],
    usage: Usage | None,
) -> dict[str, Any]:
    """All answers in one body; ``usage`` is null when the backend does not know its tokens."""
    choice_body = _chat_choice if endpoint == "chat" else _text_choice
    return {
        "id": wire_id,
        "object": "chat.completion" if endpoint == "chat" else "text_completion",
        "created": created,
        "model": model,
        "choices": [choice_body(index, answer) for index, answer in enumerate(answers)],
        "usage": usage_body(usage) if usage else None,
    }


def model_body(*, model: str, created: int, owned_by: str) -> dict[str, Any]:
    """One model object."""
    return {"id": model, "object": "model", "created": created, "owned_by": owned_by}


def model_list_body(models: list[dict[str, Any]]) -> dict[str, Any]:
    """The list of model objects."""
    return {"object": "list", "data": models}


def _chat_choice(index: int, answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.tool_calls:
        message |= {"content": answer.text or None, "tool_calls": list(answer.tool_calls)}
    return {
        "index": index,
        "message": message,
        "logprobs": None if answer.logprobs is None else chat_logprobs(answer.logprobs),
        "finish_reason": answer.finish_reason.value,
    }


def _text_choice(index: int, answer: Answer) -> dict[str, Any]:
    return {
        "index": index,
        "text": answer.text,
        "logprobs": None if answer.logprobs is None else TextLogprobs().push(answer.logprobs),
        "finish_reason": answer.finish_reason.value,
    }
