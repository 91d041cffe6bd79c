"""``POST /v1/completions``: the body in, a `CompletionRequest` with one request for each prompt out, or an error.

The older route: it goes on from a bare prompt (text, or token ids), without a chat template.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Self

from pydantic import Field, PlainValidator, model_validator

from generation.protocol.body_fields import CompletionRequest, SamplingBody, checked, refuse
from generation.protocol.json_body import load_json_object
from generation.request import GenerationRequest

MAX_PROMPTS = 16
#: What OpenAI's servers allow where nothing is said; a bare continuation often has no end of its own.
DEFAULT_MAX_TOKENS = 16
MAX_TOKEN_ID = 2**31 - 1

Prompt = str | tuple[int, ...]


def _as_prompts(value: object) -> tuple[Prompt, ...]:
    """One prompt or a list of prompts, each a string or a list of token ids."""
    if isinstance(value, str) or _are_ids(value):
        value = [value]
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_PROMPTS:
        raise ValueError(f"it must be a string, a list of token ids, or a list of 1 to {MAX_PROMPTS} of these")
    for number, prompt in enumerate(value):
        if not prompt or not (isinstance(prompt, str) or _are_ids(prompt)):
            raise ValueError(f"prompt {number} must be a string or a list of token ids, and not empty")
    return tuple(prompt if isinstance(prompt, str) else tuple(prompt) for prompt in value)


def _are_ids(value: object) -> bool:
    """Whether this is a list of token ids; bool is a kind of int to Python, but no id."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(type(token_id) is int and 0 <= token_id <= MAX_TOKEN_ID for token_id in value)
    )


class TextCompletionBody(SamplingBody):
    """The fields of a text completion; null means the same as absent."""

    prompt: Annotated[tuple[Prompt, ...], PlainValidator(_as_prompts)]
    logprobs: Annotated[int, Field(ge=0, le=5)] | None = None
    echo: bool | None = None
    suffix: str | None = None
    best_of: Annotated[int, Field(ge=1, le=20)] | None = None

    @property
    def token_limit(self) -> int | None:
        return self.max_tokens or DEFAULT_MAX_TOKENS

    @model_validator(mode="after")
    def _nothing_that_is_not_carried_out(self) -> Self:
        if self.echo:
            refuse("echo", "'echo' is not supported; put the prompt before the text yourself.", code=_UNSUPPORTED)
        if self.suffix:
            refuse("suffix", "'suffix' is not supported.", code=_UNSUPPORTED)
        if self.best_of is not None and self.best_of != (self.n or 1):
            refuse("best_of", "'best_of' is only supported where it equals 'n'.", code=_UNSUPPORTED)
        return self

    def generation_request(self, prompt: Prompt) -> GenerationRequest:
        return GenerationRequest(
            model=self.model,
            messages=(),
            prompt=prompt,
            n=self.n or 1,
            sampling=self.sampling(logprobs=self.logprobs is not None, top_logprobs=self.logprobs or 0),
            asked_for=self.asked_for(spine_fields=_SPINE_FIELDS, nothing={}),
            end_user=self.user or "",
            metadata=MappingProxyType(dict(self.metadata or {})),
        )


_UNSUPPORTED = "unsupported_parameter"
_SPINE_FIELDS = frozenset({"prompt", "echo", "suffix", "best_of"})


def parse_text_completion(body: bytes) -> CompletionRequest:
    """Parse and check a body. Raises InvalidRequestError with ``param``; never anything else."""
    return text_completion_request(load_json_object(body))


def text_completion_request(fields: Mapping[str, Any]) -> CompletionRequest:
    """Check the fields of a body that is JSON already."""
    body = checked(TextCompletionBody, fields)
    return CompletionRequest(
        generations=tuple(body.generation_request(prompt) for prompt in body.prompt),
        stream=bool(body.stream),
        include_usage=bool(body.stream_options and body.stream_options.include_usage),
    )
