"""Ends the records of processes that died: nothing stays ``running`` that nobody will end.

Only streams of workers whose heartbeat stopped are touched, each row under its own lock and only while it is still
``running``, so that two reapers and a worker that comes back cannot overwrite one another. Should the owner turn out
to be alive after all, its own final record replaces the verdict (see `writer`).
"""

from __future__ import annotations

import logging

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.db.models.functions import Now

from generation.models import DeltaBatch, Message, Stream, Worker
from generation.output import StopReason
from generation.recording.trends import EndedStream, count_ends

logger = logging.getLogger(__name__)


def reap() -> int:
    """Mark the running streams of dead workers as lost and return how many; forget dead workers that own nothing."""
    lost = sum(_mark_lost(stream_id) for stream_id in Stream.objects.abandoned().values_list("pk", flat=True))
    Worker.objects.dead().exclude(Exists(Stream.objects.filter(worker=OuterRef("pk")))).delete()
    if lost:
        logger.warning("%d running streams of dead processes are marked as lost.", lost)
    return lost


@transaction.atomic
def _mark_lost(stream_id: int) -> bool:
    # The lock makes a worker that just came back wait with its final, and another reaper pass by.
    claim = Stream.objects.abandoned().select_for_update(of=("self",), skip_locked=True)
    if not claim.filter(pk=stream_id).only("pk"):
        return False
    deltas = [
        delta["text"]
        for batch in DeltaBatch.objects.filter(stream_id=stream_id).values_list("deltas", flat=True)
        for delta in batch
    ]
    text = "".join(deltas)
    Stream.objects.filter(pk=stream_id, state=Stream.State.RUNNING).update(
        state=Stream.State.LOST,
        stop_reason=StopReason.LOST,
        ended_by=StopReason.LOST.ended_by,
        ended_at=Now(),
        text=text,
        delta_count=len(deltas),
    )
    Message.objects.filter(stream=stream_id).update(content=text)
    count_ends([EndedStream(stream_id=stream_id, columns={"stop_reason": StopReason.LOST})])
    return True
