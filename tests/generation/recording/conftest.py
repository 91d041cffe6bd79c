"""Streams to record, on a database that several connections can see."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from generation.models import Stream, Worker
from generation.output import Delta
from generation.recording import open_stream
from generation.request import ChatMessage, GenerationRequest
from tests.stored_streams import stored_deltas

_numbers = itertools.count(1)


@pytest.fixture
def open_row(transactional_db: None) -> Callable[..., int]:
    """Open a stream with whatever a test does not care about filled in."""

    def open_row(**changes: Any) -> int:
        return open_stream(
            **{
                "request": GenerationRequest(
                    model="scripted", messages=(ChatMessage(role="user", content="Tell me something"),)
                ),
                "wire_id": f"chatcmpl-{next(_numbers)}",
                "source": "api",
                "backend": "default",
                "started_at": datetime(2026, 5, 1, 12, 0, tzinfo=UTC),
                **changes,
            }
        )

    return open_row


@pytest.fixture
def make_worker(transactional_db: None) -> Callable[..., Worker]:
    """The worker of another process, whose last heartbeat is ``age_s`` old on the database's clock."""

    def make_worker(*, age_s: float) -> Worker:
        worker = Worker.objects.create(hostname="elsewhere", pid=4242)
        Worker.objects.filter(pk=worker.pk).update(heartbeat_at=Now() - timedelta(seconds=age_s))
        return worker

    return make_worker


@pytest.fixture
def make_running() -> Callable[..., Stream]:
    """A running stream of a worker (or of nobody), as its process would have left it."""

    def make_running(worker: Worker | None, *deltas: str, **changes: Any) -> Stream:
        stream = Stream.objects.create(
            **{
                "wire_id": f"chatcmpl-{next(_numbers)}",
                "worker": worker,
                "source": "api",
                "model": "scripted",
                "backend": "default",
                "started_at": datetime.now(UTC),
                **changes,
            }
        )
        for seq, text in enumerate(deltas, start=1):
            stream.batches.create(first_seq=seq, deltas=stored_deltas([text]))
        return stream

    return make_running


@pytest.fixture
def stored() -> Callable[[int], Stream]:
    return lambda stream_id: Stream.objects.get(pk=stream_id)


@pytest.fixture
def delta() -> Callable[..., Delta]:
    """A delta of one token after another."""

    def delta(text: str, first_token: int = 0, **changes: Any) -> Delta:
        return Delta(**{"text": text, "first_token": first_token, "end_token": first_token + 1, **changes})

    return delta
