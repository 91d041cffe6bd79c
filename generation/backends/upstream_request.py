"""A `GenerationRequest` as the JSON that an upstream server gets.

Only what the request sets is sent, under the server's own names; what is only recorded (user, metadata) stays here.
"""

from __future__ import annotations

from typing import Any

from generation.backends.upstream_kind import UpstreamKind
from generation.request import ChatMessage, GenerationRequest, ResponseFormat


def endpoint(request: GenerationRequest) -> str:
    """The route below the base URL."""
    return "/chat/completions" if request.prompt is None else "/completions"


def sends_stop(request: GenerationRequest, kind: UpstreamKind) -> bool:
    """Whether the upstream is told the stop strings: not if they are to be shown and it would cut them off."""
    return bool(request.sampling.stop) and (kind.shows_stop or not request.sampling.include_stop)


def request_body(request: GenerationRequest, *, model: str, kind: UpstreamKind) -> dict[str, Any]:
    """The body of one streamed answer by ``model``, which is the upstream's own name of it."""
    body: dict[str, Any] = {"model": model, "stream": True}
    if kind.include_usage:
        body["stream_options"] = {"include_usage": True}
    if request.prompt is None:
        body["messages"] = [_message(message, kind) for message in request.messages]
    else:
        body["prompt"] = request.prompt if isinstance(request.prompt, str) else list(request.prompt)
    for name, value in _asked(request, kind).items():
        body[kind.renames.get(name, name) if request.prompt is None else name] = value
    return body


def _asked(request: GenerationRequest, kind: UpstreamKind) -> dict[str, Any]:
    """The fields that the request sets, under their wire names."""
    sampling = request.sampling
    asked: dict[str, Any] = {
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "repetition_penalty": sampling.repetition_penalty,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "seed": sampling.seed,
        "parallel_tool_calls": request.parallel_tool_calls,
        "tool_choice": request.tool_choice,
        "logit_bias": {str(token): bias for token, bias in sampling.logit_bias.items()} or None,
        "min_tokens": sampling.min_tokens or None,
        "ignore_eos": sampling.ignore_eos or None,
        "tools": [dict(tool) for tool in request.tools] or None,
        "response_format": sampling.response_format and _response_format(sampling.response_format),
        **_logprobs(request),
    }
    if sends_stop(request, kind):
        asked["stop"] = list(sampling.stop)
        asked["include_stop_str_in_output"] = sampling.include_stop or None
    return {name: value for name, value in asked.items() if value is not None}


def _logprobs(request: GenerationRequest) -> dict[str, Any]:
    sampling = request.sampling
    if not sampling.logprobs:
        return {}
    if request.prompt is not None:
        return {"logprobs": sampling.top_logprobs}
    return {"logprobs": True, "top_logprobs": sampling.top_logprobs or None}


def _message(message: ChatMessage, kind: UpstreamKind) -> dict[str, Any]:
    role = "system" if message.role == "developer" and not kind.developer_role else message.role
    fields: dict[str, Any] = {"role": role, "content": message.content}
    if message.tool_calls:
        fields["tool_calls"] = [dict(call) for call in message.tool_calls]
        fields["content"] = message.content or None
    if message.tool_call_id:
        fields["tool_call_id"] = message.tool_call_id
    return fields


def _response_format(wanted: ResponseFormat) -> dict[str, Any]:
    if wanted.kind == "json_object":
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {"name": wanted.name or "answer", "schema": dict(wanted.schema or {})},
    }
