"""Writes the ``running`` row of a stream, before its first byte leaves.

From then on the record closes whatever happens: by its recorder, or by the reaper when this process dies.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from uuid import UUID

from django.conf import settings

from generation.models import Stream
from generation.recording.statements import insert
from generation.recording.words import parameters_without_words
from generation.recording.writer import get_writer
from generation.request import GenerationRequest, ResponseFormat, SamplingParams


def open_stream(
    *,
    request: GenerationRequest,
    wire_id: str,
    source: str,
    backend: str,
    started_at: datetime,
    user_id: int | None = None,
    session_key: str = "",
    conversation_id: UUID | None = None,
    message_id: int | None = None,
    client_stream_id: UUID | None = None,
    client_address_class: str = "",
    api_key_id: int | None = None,
    choice: int = 0,
    include_usage: bool = False,
) -> int:
    """Write the row of one answer (``choice`` of those asked for), owned by this process, and return its key.

    Blocks on the database, so call it from a worker thread; in a transaction of yours if you like.
    """
    parameters, messages, stores_text = _parameters(request), _messages(request), settings.STREAMSITE_STORE_TEXT
    row = {
        "wire_id": wire_id,
        "choice": choice,
        "endpoint": request.endpoint,
        "client_stream_id": client_stream_id,
        "conversation_id": conversation_id,
        "message_id": message_id,
        "user_id": user_id,
        "session_key": session_key,
        "worker_id": get_writer().heartbeat.worker_id(),
        "source": source,
        "model": request.model,
        "backend": backend,
        "parameters": parameters if stores_text else parameters_without_words(parameters),
        "messages": messages if stores_text else [],
        "has_text": stores_text,
        "client_address_class": client_address_class,
        "api_key_id": api_key_id,
        "include_usage": include_usage,
        "started_at": started_at,
    }
    return insert(Stream, row)


def _messages(request: GenerationRequest) -> list[dict[str, object]]:
    """What was asked, as plain JSON values; a bare prompt is kept as the only message, of the role ``prompt``."""
    if request.prompt is not None:
        prompt = request.prompt if isinstance(request.prompt, str) else list(request.prompt)
        return [{"role": "prompt", "content": prompt}]
    return [
        {
            "role": message.role,
            "content": message.content,
            **({"tool_calls": list(message.tool_calls)} if message.tool_calls else {}),
            **({"tool_call_id": message.tool_call_id} if message.tool_call_id else {}),
        }
        for message in request.messages
    ]


def _parameters(request: GenerationRequest) -> dict[str, object]:
    """What was asked for besides the messages, as plain JSON values; defaults are left out."""
    default = SamplingParams()
    asked = {field.name: getattr(request.sampling, field.name) for field in fields(default)}
    parameters: dict[str, object] = {name: value for name, value in asked.items() if value != getattr(default, name)}
    if request.sampling.logit_bias:
        parameters["logit_bias"] = {str(token_id): bias for token_id, bias in request.sampling.logit_bias.items()}
    if request.sampling.response_format:
        parameters["response_format"] = _response_format(request.sampling.response_format)
    rest: dict[str, object] = {
        "n": request.n if request.n > 1 else None,
        "tools": list(request.tools),
        "tool_choice": request.tool_choice,
        "user": request.end_user,
        "metadata": dict(request.metadata),
    }
    if request.parallel_tool_calls is not None:
        parameters["parallel_tool_calls"] = request.parallel_tool_calls
    return parameters | {name: value for name, value in rest.items() if value}


def _response_format(wanted: ResponseFormat) -> dict[str, object]:
    if wanted.kind == "json_object":
        return {"type": wanted.kind}
    return {"type": wanted.kind, "json_schema": {"name": wanted.name, "schema": wanted.schema}}
