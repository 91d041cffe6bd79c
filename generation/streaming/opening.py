"""From a request to generations that have their rows: check, refuse, or open.

The rows are written as ``running`` before the first byte, in a thread whose connection lives on; the request's own
connection is given back before.
Several answers are opened together: all of them, or none.
"""

from __future__ import annotations

import asyncio
import functools
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import IntegrityError, close_old_connections, transaction

from generation.access import claim_places
from generation.backends import backends
from generation.backends.base import Backend, DeltaStream
from generation.exceptions import InvalidRequestError, RateLimitError, ServerShutdownError
from generation.models import Stream
from generation.output import StopReason
from generation.recording import (
    REQUEST_FLUSH_TIMEOUT_S,
    Recorder,
    StreamEnd,
    get_writer,
    open_stream,
    set_up_spans,
    start_span,
)
from generation.request import GenerationRequest
from generation.streaming.generation import Generation, Origin
from generation.streaming.live import live
from generation.streaming.openers import in_opener
from generation.write_turn import write_turn

#: Rows being written for callers that have gone; each closes its rows when they are there.
_abandoned: set[asyncio.Future[tuple[list[int], Origin]]] = set()

WIRE_ID_PREFIXES = {"chat": "chatcmpl", "completions": "cmpl"}
#: The largest seed that a request may have.
_MAX_SEED = 2**63 - 1

#: Makes the rows that the stream belongs to and names them; runs in the transaction of the stream's own row.
Attach = Callable[[Origin], Origin]


async def begin(
    request: GenerationRequest,
    origin: Origin,
    *,
    received_at: float,
    attach: Attach | None = None,
    include_usage: bool = False,
) -> Generation:
    """Open the one generation of a request; as `begin_all`, with ``attach`` for the rows that it belongs to."""
    if request.n != 1:
        raise InvalidRequestError(f"'n' is {request.n}; here one answer is made at a time.", param="n")
    (generation,) = await begin_all(
        [request], origin, received_at=received_at, attach=attach, include_usage=include_usage
    )
    return generation


async def begin_all(
    requests: Sequence[GenerationRequest],
    origin: Origin,
    *,
    received_at: float,
    attach: Attach | None = None,
    include_usage: bool = False,
) -> list[Generation]:
    """Check requests, give the database connection back, write the ``running`` row of each answer, return them all.

    The requests differ in their prompt only. ``received_at`` is the monotonic time they came in; ``include_usage`` is
    recorded only. Nothing runs on the backend yet. Raises GenerationError for what cannot be carried out; then no row
    was written, by ``attach`` neither.
    """
    if live.draining:
        raise ServerShutdownError("The server is shutting down; ask again in a moment.")
    answers = [answer for request in requests for answer in _answers(request)]
    with live.place(limit=settings.STREAMSITE_MAX_STREAMS, count=len(answers)):
        # Before waiting for an opener: many that wait would else hold all connections of the pool that openers need.
        await sync_to_async(close_old_connections)()
        return await _open(answers, origin, received_at, attach, include_usage)


def _answers(request: GenerationRequest) -> Iterable[GenerationRequest]:
    """One request for each answer; with a seed, each has the next one."""
    for number in range(request.n):
        seed = request.sampling.seed
        if seed is not None and number:
            seed = seed + number if seed + number <= _MAX_SEED else seed + number - 2**64
        yield replace(request, sampling=replace(request.sampling, seed=seed))


async def _open(
    answers: Sequence[GenerationRequest],
    origin: Origin,
    received_at: float,
    attach: Attach | None,
    include_usage: bool,
) -> list[Generation]:
    # When the request came in, as the record's durations run from then.
    started_at = datetime.now(UTC) - timedelta(seconds=time.monotonic() - received_at)
    backend = backends.resolve(answers[0].model)
    streams = await _streams(backend, answers)
    # From here on the name of the model that answers, not of the alias it was asked by.
    cards = {card.id: card for card in backend.models()}
    model = answers[0].model if answers[0].model in cards else next(iter(cards))
    opening = _Opening(
        requests=[replace(request, model=model) for request in answers],
        wire_id=f"{WIRE_ID_PREFIXES[answers[0].endpoint]}-{uuid.uuid4().hex}",
        backend=backend.alias,
        started_at=started_at,
        include_usage=include_usage,
    )
    stream_ids, origin = await _open_rows(opening, origin, attach, received_at)
    return [
        Generation(
            deltas,
            Recorder(
                stream_id,
                received_at=received_at,
                model=model,
                started_at=started_at,
                span=start_span(
                    request,
                    wire_id=opening.wire_id,
                    stream_id=stream_id,
                    provider=cards[model].owned_by,
                    started_at=started_at,
                ),
            ),
            origin=origin,
            wire_id=opening.wire_id,
            stream_id=stream_id,
            request=request,
            choice=choice,
            received_at=received_at,
            started_at=started_at,
        )
        for choice, (deltas, stream_id, request) in enumerate(zip(streams, stream_ids, opening.requests, strict=True))
    ]


async def _streams(backend: Backend, answers: Sequence[GenerationRequest]) -> list[DeltaStream]:
    streams: list[DeltaStream] = []
    try:
        for request in answers:
            stream = await backend.stream(replace(request, n=1))
            streams.append(stream)
    except BaseException:
        for stream in streams:
            stream.cancel()
        raise
    return streams


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    requests: Sequence[GenerationRequest]
    wire_id: str
    backend: str
    started_at: datetime
    include_usage: bool


async def _open_rows(
    opening: _Opening, origin: Origin, attach: Attach | None, received_at: float
) -> tuple[list[int], Origin]:
    """Write the rows; a caller over its limit is looked at again once the ends of earlier streams are stored."""
    try:
        return await _written_rows(opening, origin, attach, received_at)
    except RateLimitError:
        # An answer's last frame leaves some milliseconds before its row is closed.
        await sync_to_async(get_writer().flush)(REQUEST_FLUSH_TIMEOUT_S)
        return await _written_rows(opening, origin, attach, received_at)


async def _written_rows(
    opening: _Opening, origin: Origin, attach: Attach | None, received_at: float
) -> tuple[list[int], Origin]:
    """Write the rows; if the caller is cancelled meanwhile, they still end with their reason."""
    task = in_opener(_write_rows, opening, origin, attach)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        _abandoned.add(task)
        task.add_done_callback(functools.partial(_close_unused_rows, received_at=received_at))
        raise


def _write_rows(opening: _Opening, origin: Origin, attach: Attach | None) -> tuple[list[int], Origin]:
    """Runs in an opener."""
    set_up_spans()  # here, because it blocks the first time
    try:
        with write_turn(), transaction.atomic():
            claim_places(origin, len(opening.requests))
            if attach is not None:
                origin = attach(origin)
            stream_ids = [
                open_stream(
                    request=request,
                    wire_id=opening.wire_id,
                    choice=choice,
                    source=origin.source,
                    backend=opening.backend,
                    started_at=opening.started_at,
                    user_id=origin.user_id,
                    session_key=origin.session_key,
                    conversation_id=origin.conversation_id,
                    message_id=origin.message_id,
                    client_stream_id=origin.client_stream_id,
                    client_address_class=origin.client_address_class,
                    api_key_id=origin.api_key_id,
                    include_usage=opening.include_usage,
                )
                for choice, request in enumerate(opening.requests)
            ]
    except IntegrityError as exc:
        if _is_taken(origin.client_stream_id):
            message = "'stream_id' is that of an earlier stream; it must be a new UUID."
            raise InvalidRequestError(message, param="stream_id", code="stream_id_taken") from exc
        raise
    return stream_ids, origin


def _is_taken(client_stream_id: uuid.UUID | None) -> bool:
    return client_stream_id is not None and Stream.objects.filter(client_stream_id=client_stream_id).exists()


def _close_unused_rows(task: asyncio.Future[tuple[list[int], Origin]], *, received_at: float) -> None:
    _abandoned.discard(task)
    if task.cancelled() or task.exception() is not None:
        return
    stream_ids, _ = task.result()
    now = time.monotonic()
    for stream_id in stream_ids:
        Recorder(stream_id, received_at=received_at).finish(
            StreamEnd(stop_reason=StopReason.CLIENT_DISCONNECT, ended_at=now, gone_at=now)
        )
