"""Deletes old streams, or only their text, in small transactions, so that no writer waits for long.

Streams that still run are left alone. Counted hours (the trends) stay: they hold figures only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from generation.delta_columns import pack, without_words
from generation.models import Conversation, DeltaBatch, Message, Review, Stream
from generation.recording.words import NO_WORDS, error_without_words, parameters_without_words
from generation.write_turn import write_turn

#: Streams a transaction: some 20 ms of SQLite's write lock.
BATCH = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """How much was deleted, or would be."""

    streams: int
    conversations: int


def prune(
    before: datetime, *, text_only: bool = False, dry_run: bool = False, report: Callable[[int], None] = lambda _: None
) -> Pruned:
    """Delete what was started before a moment; ``text_only`` keeps the figures. Tell ``report`` how many at a time.

    A conversation goes when its last turn is older, its streams when they are.
    """
    streams, conversations = old_streams(before, text_only=text_only), _old_conversations(before, text_only=text_only)
    if dry_run:
        return Pruned(streams=streams.count(), conversations=conversations.count())
    done = 0
    last_id = 0
    while batch := list(streams.filter(pk__gt=last_id).order_by("pk").values_list("pk", flat=True)[:BATCH]):
        last_id = batch[-1]
        with write_turn(), transaction.atomic():
            if text_only:
                _take_the_words(batch)
            else:
                Stream.objects.filter(pk__in=batch).delete()
        done += len(batch)
        report(len(batch))
    forgotten = 0
    while keys := list(conversations.values_list("pk", flat=True)[:BATCH]):
        with write_turn(), transaction.atomic():
            _forget(keys, text_only=text_only)
        forgotten += len(keys)
    return Pruned(streams=done, conversations=forgotten)


def old_streams(before: datetime, *, text_only: bool) -> QuerySet[Stream]:
    """The ended streams that `prune` would take."""
    streams = Stream.objects.ended().filter(started_at__lt=before)
    return streams.filter(has_text=True) if text_only else streams


def _old_conversations(before: datetime, *, text_only: bool) -> QuerySet[Conversation]:
    conversations = Conversation.objects.filter(updated_at__lt=before).exclude(streams__state=Stream.State.RUNNING)
    if text_only:
        # Without a title nothing is left to take.
        conversations = conversations.exclude(title="")
    return conversations.order_by("pk")


def _take_the_words(stream_ids: Sequence[int]) -> None:
    streams = list(Stream.objects.filter(pk__in=stream_ids).only("pk", "parameters", "error_body"))
    for stream in streams:
        Stream.objects.filter(pk=stream.pk).update(
            **NO_WORDS,
            parameters=parameters_without_words(stream.parameters),
            error_body=error_without_words(stream.error_body),
            has_text=False,
        )
    batches = list(DeltaBatch.objects.filter(stream__in=stream_ids))
    for batch in batches:
        batch.deltas = without_words(pack(batch.deltas))
    DeltaBatch.objects.bulk_update(batches, ["deltas"])
    Message.objects.filter(stream__in=stream_ids).update(content="")
    Review.objects.filter(stream__in=stream_ids).update(comment="")


def _forget(keys: Sequence[UUID], *, text_only: bool) -> None:
    if text_only:
        Message.objects.filter(conversation__in=keys).update(content="")
        Conversation.objects.filter(pk__in=keys).update(title="")
    else:
        Conversation.objects.filter(pk__in=keys).delete()
