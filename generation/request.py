"""What a generation is asked for: messages and sampling parameters, validated and frozen.

Built by `protocol/completion_request.py`, the chat page and the commands; read by backends.
Values are in range when they get here: whoever builds one checks first. Imports neither Django nor torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

Role = Literal["system", "developer", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message of a conversation; ``content`` is plain text and is tokenised with special tokens disabled.

    ``tool_calls`` (of an assistant's message) are OpenAI's JSON objects, passed on as they came; ``tool_call_id`` names
    the call that a tool's message answers.
    """

    role: Role
    content: str
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseFormat:
    """The form the answer must have: any JSON object, or JSON that fits ``schema``."""

    kind: Literal["json_object", "json_schema"]
    name: str = ""
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How to choose tokens and when to stop; None means the backend's default.

    ``max_tokens`` None means: as many as the context still holds.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    logit_bias: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    stop: tuple[str, ...] = ()
    include_stop: bool = False
    min_tokens: int = 0
    ignore_eos: bool = False
    #: Whether the log-probability of each chosen token is wanted, and of how many of the likeliest beside it.
    logprobs: bool = False
    top_logprobs: int = 0
    response_format: ResponseFormat | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """One answer to generate, or ``n`` of them; a backend is asked for each by itself and always gets ``n`` 1.

    ``model`` is the name the client used (``default`` always means the default backend).
    ``asked_for`` names the optional request fields that the client set, so that a backend can refuse those it
    does not carry out instead of ignoring them. ``end_user`` and ``metadata`` are only recorded.
    ``prompt`` (text, or token ids) is what ``/v1/completions`` continues; there are no messages then.
    ``tools``, ``tool_choice`` and ``parallel_tool_calls`` are OpenAI's JSON values, for upstreams that call tools.
    """

    model: str
    messages: tuple[ChatMessage, ...]
    prompt: str | tuple[int, ...] | None = None
    n: int = 1
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    asked_for: frozenset[str] = frozenset()
    end_user: str = ""
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def endpoint(self) -> Literal["chat", "completions"]:
        """The form of the answer: that of a chat, or the continuation of a bare prompt."""
        return "chat" if self.prompt is None else "completions"
