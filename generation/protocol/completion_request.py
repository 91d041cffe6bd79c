"""``POST /v1/chat/completions``: the body in, a `CompletionRequest` out, or an error that names the field."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from generation.protocol.body_fields import Body, CompletionRequest, SamplingBody, checked, refuse
from generation.protocol.json_body import load_json_object
from generation.request import ChatMessage, GenerationRequest, ResponseFormat

__all__ = ["CompletionRequest", "completion_request", "load_json_object", "parse_chat_completion"]

MAX_TOOLS = 128

#: Values that ask for nothing, sent by clients that spell out the defaults.
_NOTHING: Mapping[str, object] = {"logprobs": False, "response_format": {"type": "text"}}

_Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]{1,64}$")]


class _TextPart(Body):
    type: Literal["text"]
    text: str


def _as_text_parts(content: object) -> object:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise ValueError("it must be a string or a list of text parts")
    return content


class _CalledFunction(Body):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    arguments: str


class _ToolCall(Body):
    id: Annotated[str, Field(min_length=1, max_length=200)]
    type: Literal["function"]
    function: _CalledFunction


class _Message(Body):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[list[_TextPart], BeforeValidator(_as_text_parts)]
    tool_calls: Annotated[list[_ToolCall], Field(max_length=MAX_TOOLS)] | None = None
    tool_call_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    # Clients send back an assistant's message as they got it, with these as null.
    refusal: None = None
    function_call: None = None
    audio: None = None
    annotations: None = None

    @model_validator(mode="before")
    @classmethod
    def _without_content_beside_tool_calls(cls, message: object) -> object:
        if isinstance(message, dict) and message.get("tool_calls") and message.get("content") is None:
            return {**message, "content": ""}
        return message

    @model_validator(mode="after")
    def _role_has_its_fields(self) -> Self:
        if (self.role == "tool") != (self.tool_call_id is not None):
            raise ValueError("'tool_call_id' must be there for the role tool, and only for it")
        if self.tool_calls and self.role != "assistant":
            raise ValueError("'tool_calls' are for the role assistant only")
        return self

    def chat_message(self) -> ChatMessage:
        return ChatMessage(
            role=self.role,
            content="".join(part.text for part in self.content),
            tool_calls=tuple(call.model_dump() for call in self.tool_calls or ()),
            tool_call_id=self.tool_call_id or "",
        )


class _JsonSchema(Body):
    name: _Name
    description: Annotated[str, Field(max_length=2000)] | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class _ResponseFormat(Body):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _JsonSchema | None = None

    @model_validator(mode="after")
    def _has_its_schema(self) -> Self:
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("'json_schema' must be there for the type json_schema, and only for it")
        return self

    def wanted(self) -> ResponseFormat | None:
        """The form to hold the answer to; None for text."""
        if self.type == "text":
            return None
        if self.json_schema is None:
            return ResponseFormat(kind="json_object")
        return ResponseFormat(kind="json_schema", name=self.json_schema.name, schema=self.json_schema.schema_)


class _Function(Body):
    name: _Name
    description: Annotated[str, Field(max_length=10_000)] | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class _Tool(Body):
    type: Literal["function"]
    function: _Function


class _ChosenFunction(Body):
    name: _Name


class _ChosenTool(Body):
    type: Literal["function"]
    function: _ChosenFunction


class ChatCompletionBody(SamplingBody):
    """The fields of a chat; null means the same as absent."""

    messages: Annotated[list[_Message], Field(min_length=1)]
    max_completion_tokens: Annotated[int, Field(ge=1, le=2**31)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    response_format: _ResponseFormat | None = None
    tools: Annotated[list[_Tool], Field(min_length=1, max_length=MAX_TOOLS)] | None = None
    tool_choice: _ChosenTool | Literal["none", "auto", "required"] | None = None
    parallel_tool_calls: bool | None = None

    @property
    def token_limit(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @model_validator(mode="after")
    def _fields_agree(self) -> Self:
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            refuse("max_tokens", "'max_tokens' and 'max_completion_tokens' differ; give one of them.")
        if self.top_logprobs is not None and not self.logprobs:
            refuse("top_logprobs", "'top_logprobs' needs 'logprobs': true.")
        if self.tools is None:
            for name in ("tool_choice", "parallel_tool_calls"):
                if getattr(self, name) is not None:
                    refuse(name, f"'{name}' is only allowed with 'tools'.")
        elif isinstance(self.tool_choice, _ChosenTool):
            names = [tool.function.name for tool in self.tools]
            if self.tool_choice.function.name not in names:
                chosen = self.tool_choice.function.name
                refuse("tool_choice", f"'tool_choice' names '{chosen}'; 'tools' has {', '.join(names)}.")
        return self

    def generation_request(self) -> GenerationRequest:
        chosen = self.tool_choice
        return GenerationRequest(
            model=self.model,
            messages=tuple(message.chat_message() for message in self.messages),
            n=self.n or 1,
            tools=tuple(tool.model_dump(exclude_none=True) for tool in self.tools or ()),
            tool_choice=chosen.model_dump() if isinstance(chosen, _ChosenTool) else chosen,
            parallel_tool_calls=self.parallel_tool_calls,
            sampling=self.sampling(
                logprobs=bool(self.logprobs),
                top_logprobs=self.top_logprobs or 0,
                response_format=self.response_format and self.response_format.wanted(),
            ),
            asked_for=self._asked_for(),
            end_user=self.user or "",
            metadata=MappingProxyType(dict(self.metadata or {})),
        )

    def _asked_for(self) -> frozenset[str]:
        asked_for = self.asked_for(spine_fields=frozenset({"messages"}), nothing=_NOTHING)
        # Messages of tools are understood by those only who know tools.
        told_of_tools = any(message.tool_calls or message.role == "tool" for message in self.messages)
        return asked_for | {"tools"} if told_of_tools else asked_for


def parse_chat_completion(body: bytes) -> CompletionRequest:
    """Parse and check a body. Raises InvalidRequestError with ``param``; never anything else."""
    return completion_request(load_json_object(body))


def completion_request(fields: Mapping[str, Any]) -> CompletionRequest:
    """Check the fields of a body that is JSON already."""
    body = checked(ChatCompletionBody, fields)
    return CompletionRequest(
        generations=(body.generation_request(),),
        stream=bool(body.stream),
        include_usage=bool(body.stream_options and body.stream_options.include_usage),
    )
