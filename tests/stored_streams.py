"""Rows of streams as the recorder writes them."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from generation.models import DeltaBatch, Stream

NOON = datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.UTC)

MakeStream = Callable[..., Stream]


def stored_deltas(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Deltas of a token each, sent 0.1 s apart."""
    return [
        {"text": text, "first_token": at, "end_token": at + 1, "made_s": None, "sent_s": (at + 1) / 10, "holds": []}
        for at, text in enumerate(texts)
    ]


def stream_maker(**ended: Any) -> MakeStream:
    """Returns a function that writes a stream whose deltas were sent 0.1 s apart; ``fields`` are columns.

    ``ended`` are columns of those that have ended.
    """
    numbers = itertools.count(1)

    def make(texts: Sequence[str] = ("Hel", "lo"), *, batch_size: int = 4, **fields: Any) -> Stream:
        deltas = stored_deltas(texts)
        ending = {
            "state": "done",
            "stop_reason": "eos",
            "finish_reason": "stop",
            "text": "".join(texts),
            **ended,
        }
        running = fields.get("state") == "running"
        stream = Stream.objects.create(
            **{
                "wire_id": f"chatcmpl-{next(numbers):04}",
                "source": "api",
                "model": "scripted",
                "backend": "default",
                "started_at": NOON,
                "delta_count": len(deltas),
                **({} if running else ending),
                **fields,
            }
        )
        DeltaBatch.objects.bulk_create(
            DeltaBatch(stream=stream, first_seq=first + 1, deltas=deltas[first : first + batch_size])
            for first in range(0, len(deltas), batch_size)
        )
        return stream

    return make
