"""The responses that the API and the page share: an event stream, a whole answer, an error."""

from __future__ import annotations

import asyncio
import functools
import logging
import uuid
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Concatenate, ParamSpec

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import OperationalError
from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from generation.exceptions import (
    BackendUnavailableError,
    GenerationError,
    RateLimitError,
    RequestTooLargeError,
    UnsupportedMediaTypeError,
)
from generation.protocol import completion_body, error_body
from generation.streaming import Choices, EventStream, Generation, collect

logger = logging.getLogger(__name__)

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], Coroutine[Any, Any, HttpResponseBase]]


def with_error_bodies(view: View[P]) -> View[P]:
    """Turn every error of a view into the OpenAI error body with its status."""

    @functools.wraps(view)
    async def answer(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            response = await view(request, *args, **kwargs)
        except GenerationError as exc:
            response = error_response(exc)
        except OperationalError as exc:
            logger.warning("%s %s: the database does not answer: %s", request.method, request.path, exc)
            response = error_response(
                BackendUnavailableError("The database is busy or away; try again.", code="database_unavailable")
            )
            response["Retry-After"] = "1"
        except Exception:
            logger.exception("%s %s failed", request.method, request.path)
            response = error_response(GenerationError("The server failed on this request; its log says why."))
        response.headers.setdefault("x-request-id", f"req_{uuid.uuid4().hex}")
        return response

    return answer


def error_response(error: GenerationError) -> JsonResponse:
    """An error before the first byte."""
    response = JsonResponse(error_body(error), status=error.status)
    if isinstance(error, RateLimitError):
        response["Retry-After"] = str(error.retry_after_s)
    if error.status == 401:
        response["WWW-Authenticate"] = "Bearer"
    return response


def stream_response(generations: Sequence[Generation], *, include_usage: bool) -> StreamingHttpResponse:
    """The event stream of a request's generations; nothing runs before the server reads it."""
    frames = EventStream(generations, include_usage=include_usage, keep_alive_s=settings.STREAMSITE_KEEP_ALIVE_S)
    answering = asyncio.current_task()
    assert answering is not None
    # Django closes only a response that it got: a client that leaves while middleware has it would keep its place.
    # (A task that ends well may be a part of the request only, under sync middleware.)
    answering.add_done_callback(lambda task: frames.close() if task.cancelled() else None)
    response = StreamingHttpResponse(frames, content_type="text/event-stream; charset=utf-8")
    response["Cache-Control"] = "no-store, no-transform"
    # nginx buffers a proxied response otherwise, and the answer arrives in one lump.
    response["X-Accel-Buffering"] = "no"
    # GZipMiddleware would make one gzip member per chunk, of which clients decode only the first.
    response["Content-Encoding"] = "identity"
    response["x-request-id"] = generations[0].wire_id
    return response


async def whole_response(generations: Sequence[Generation]) -> JsonResponse:
    """The same answers in one body. Raises GenerationError when a generation fails."""
    first = generations[0]
    answers = await collect(*generations)
    response = JsonResponse(
        completion_body(
            endpoint=first.request.endpoint,
            wire_id=first.wire_id,
            created=int(first.started_at.timestamp()),
            model=first.model,
            answers=answers,
            usage=Choices(generations).usage,
        )
    )
    response["x-request-id"] = first.wire_id
    return response


def read_json_body(request: HttpRequest) -> bytes:
    """The body of a request that is declared as JSON.

    The declaration is required because a page of another site can post anything else to a server on the reader's
    own machine without asking. Raises UnsupportedMediaTypeError, RequestTooLargeError.
    """
    if request.content_type != "application/json":
        got = request.content_type or "none"
        raise UnsupportedMediaTypeError(f"The Content-Type must be application/json, not {got[:100]}.")
    try:
        return request.body
    except RequestDataTooBig as exc:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raise RequestTooLargeError(f"The body is larger than the {limit:,} bytes that this server reads.") from exc


def no_store(response: HttpResponseBase) -> HttpResponseBase:
    """Mark a response as one that no cache may keep."""
    response.headers["Cache-Control"] = "no-store"
    return response
