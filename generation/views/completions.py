"""``POST /v1/chat/completions`` and ``/v1/completions``: parse, check, begin, respond; streamed or whole."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.views.decorators.csrf import csrf_exempt

from generation.protocol import CompletionRequest, parse_chat_completion, parse_text_completion
from generation.streaming import Choices, Origin, begin_all
from generation.views.access import api_caller
from generation.views.methods import require_methods
from generation.views.responses import read_json_body, stream_response, whole_response, with_error_bodies

#: How long the status of a stream may wait for a server elsewhere to take the request or refuse it.
ADMISSION_S = 5.0


@csrf_exempt
@with_error_bodies
@require_methods("POST")
async def chat_completions(request: HttpRequest) -> HttpResponseBase:
    """Answer a chat as the OpenAI API does."""
    return await _respond(request, parse_chat_completion)


@csrf_exempt
@with_error_bodies
@require_methods("POST")
async def text_completions(request: HttpRequest) -> HttpResponseBase:
    """Go on from bare prompts as the OpenAI API does."""
    return await _respond(request, parse_text_completion)


async def _respond(request: HttpRequest, parse: Callable[[bytes], CompletionRequest]) -> HttpResponseBase:
    received_at = time.monotonic()
    caller = await api_caller(request)
    completion = parse(read_json_body(request))
    origin = Origin(
        source="api",
        user_id=caller.user_id,
        api_key_id=caller.api_key_id,
        client_address_class=caller.address_class,
    )
    generations = await begin_all(
        completion.generations,
        origin,
        received_at=received_at,
        include_usage=completion.stream and completion.include_usage,
    )
    if completion.stream:
        await Choices(generations).admit(ADMISSION_S)
        return stream_response(generations, include_usage=completion.include_usage)
    return await whole_response(generations)
