"""Many streams to look at: a few real scripted runs, copied with times, owners, reviews and waits of their own.

`record_runs` records one stream for each way to end, `copy_streams` multiplies them inside the database (`seed_sql`),
which is some hundred times faster than to run or even to build each.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import close_old_connections, connection, transaction
from django.utils import timezone

from generation.backends.scripted import ScriptedBackend
from generation.exceptions import GenerationError
from generation.models import ApiKey, Stream
from generation.output import StopReason
from generation.recording import Recorder, get_writer, open_stream
from generation.replay.seed_sql import Copies, Originals
from generation.request import ChatMessage, GenerationRequest, SamplingParams
from generation.streaming import Generation, Origin
from generation.text_index import index_since
from generation.write_turn import write_turn

#: Rows of one transaction: a second or less, so that a server on the same database goes on.
CHUNK = 10_000
USERS = 20
#: The first so many of them call the API with a key.
KEYS = 5
STORE_TIMEOUT_S = 30.0

_TEXTS = {
    "seed-tea": "The chai is ready, and the long letter that I promised you is not. Ask me again tomorrow.",
    "seed-tides": "The moon pulls the sea; the earth turns under it, and so there are two tides a day.",
    "seed-hindi": "आपकी चाय ☕ तैयार है, और चिट्ठी अभी नहीं।",
    "seed-lists": "1. Boil the water.\n2. Add the leaves.\n3. Wait.\n\nHuman: and then?",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """A scripted run and of how many copies it is the model: ``share`` in a hundred, or one in ``every``."""

    share: int = 0
    every: int | None = None
    model: str = "seed-tea"
    text: str = ""
    sampling: SamplingParams = field(default_factory=SamplingParams)
    source: str = "api"
    fail_at: int | None = None
    leave_after: int | None = None
    stop_after: int | None = None


_RUNS = (
    _Run(share=40),
    _Run(share=20, model="seed-tides", source="page"),
    _Run(share=12, model="seed-hindi", source="page"),
    _Run(share=10, model="seed-lists", sampling=SamplingParams(stop=("\n\nHuman: and",))),
    _Run(share=8, model="seed-tides", sampling=SamplingParams(max_tokens=8)),
    _Run(share=5, source="page", stop_after=4),
    _Run(share=3, source="page", leave_after=3),
    _Run(share=2, model="seed-lists", fail_at=5),
    # Words that few streams have, for the search. Primes, so that they meet every user, label and wait.
    _Run(every=199, text="The monsoon came late this year, and the tea with it."),
    _Run(every=211, model="seed-hindi", text="चाय में इलायची भी है।"),
    _Run(every=9973, text="A pinch of saffron, no more."),
)


async def record_runs() -> Originals:
    """Record the scripted runs, to be copied."""
    by_share, seldom = [], []
    for run in _RUNS:
        stream_id = await _record(run)
        by_share += [stream_id] * run.share
        if run.every:
            seldom.append((run.every, stream_id))
    stored = await sync_to_async(get_writer().flush)(STORE_TIMEOUT_S)
    if not stored:
        raise TimeoutError("the runs were not stored in time")
    return Originals(by_share=by_share, seldom=seldom)


def copy_streams(
    originals: Originals, *, count: int, span: timedelta, until: datetime, report: Callable[[int], None]
) -> None:
    """Write ``count`` copies, started evenly over ``span`` before ``until``; ``report`` is told how many there are."""
    users = _users()
    copies = Copies(
        originals=originals,
        users=users,
        keys=_keys(users[:KEYS]),
        labels=settings.STREAMSITE_REVIEW_LABELS,
        prefix=f"seed-{uuid.uuid4().hex[:12]}-",
        first_s=(until - span).timestamp(),
        step_s=span.total_seconds() / count,
    )
    for first in range(1, count + 1, CHUNK):
        last = min(first + CHUNK - 1, count)
        with write_turn(), transaction.atomic(), connection.cursor() as cursor:
            last_id = Stream.objects.latest("id").pk
            for sql in (copies.streams_sql, copies.batches_sql, copies.reviews_sql):
                cursor.execute(sql(first, last))
            index_since(last_id)
        report(last)


async def _record(run: _Run) -> int:
    """Carry one run out as a server would, and return its stream."""
    request = GenerationRequest(
        model=run.model,
        messages=(ChatMessage(role="user", content="Tell me something."),),
        sampling=run.sampling,
    )
    backend = ScriptedBackend(
        "seed", model=run.model, texts=[run.text or _TEXTS[run.model]], delay_s=0.005, first_delay_s=0.03,
        fail_at=run.fail_at, byte_pieces=7, prompt_tokens=9,
    )  # fmt: skip
    received_at, started_at = time.monotonic(), datetime.now(UTC)
    wire_id = f"seed-{uuid.uuid4().hex}"
    deltas = await backend.stream(request)
    stream_id = await sync_to_async(_open_row)(request, wire_id, run.source, started_at)
    generation = Generation(
        deltas,
        Recorder(stream_id, received_at=received_at, model=run.model, started_at=started_at),
        origin=Origin(source=run.source),
        wire_id=wire_id,
        stream_id=stream_id,
        request=request,
        received_at=received_at,
        started_at=started_at,
    )
    read = 0
    try:
        with contextlib.suppress(GenerationError):
            async for _ in generation:
                read += 1
                if read == run.leave_after:
                    break
                if read == run.stop_after:
                    generation.stop(StopReason.CLIENT_STOP)
    finally:
        generation.close()
        await asyncio.sleep(0)
        backend.close()
    return stream_id


def _open_row(request: GenerationRequest, wire_id: str, source: str, started_at: datetime) -> int:
    try:
        return open_stream(request=request, wire_id=wire_id, source=source, backend="seed", started_at=started_at)
    finally:
        close_old_connections()


def _users() -> list[int]:
    """People whose streams the copies are; they cannot log in."""
    users = get_user_model()._default_manager
    return [
        users.get_or_create(username=f"seed-{number:02}", defaults={"is_active": False, "password": "!"})[0].pk
        for number in range(USERS)
    ]


def _keys(users: Sequence[int]) -> list[int]:
    """A key of each user, revoked and without a secret: nobody can call with one."""
    return [
        ApiKey.objects.get_or_create(
            prefix=f"seed-{user}",
            defaults={"user_id": user, "name": "seed", "secret_sha256": "!", "revoked_at": timezone.now()},
        )[0].pk
        for user in users
    ]
