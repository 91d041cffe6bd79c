"""Writes batches, ends and amendments, many streams in one transaction; each may be written twice without harm.

Batches are unique by (stream, first_seq). An end replaces ``running``, or a reaper's ``lost``: the live owner of a
stream knows better. What the database refuses is left out alone, so that one bad row does not cost the others.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import InterfaceError, OperationalError, connection, transaction

from generation.fields import escape
from generation.models import DeltaBatch, Stream
from generation.recording.columns import LEAST
from generation.recording.entries import Entry, EntryKind
from generation.recording.metrics import count_end
from generation.recording.statements import insert_new, update
from generation.recording.trends import EndedStream, count_ends
from generation.write_turn import write_turn

logger = logging.getLogger(__name__)

_MESSAGE_CONTENT = """
    UPDATE generation_message SET content = %s
    WHERE id = (SELECT message_id FROM generation_stream WHERE id = %s)
"""

#: What is raised while the database is away or locked: try again later.
AWAY = (OperationalError, InterfaceError)


class NotCountedError(Exception):
    """The trends could not take ends in; the records are then written without (`rebuild_trends` mends it).

    Cheaper than a savepoint around every count, which would be two more statements for each end.
    """


def store(entries: Sequence[Entry], *, counted: bool = True) -> None:
    """Write entries in order, in one transaction. Raises one of `AWAY` when nothing was written.

    ``counted``: ends are counted for the trends as well.
    """
    try:
        with write_turn(), transaction.atomic():
            batches = [
                {"stream_id": entry.stream_id, "first_seq": entry.first_seq, "deltas": entry.deltas}
                for entry in entries
                if entry.kind is EntryKind.DELTAS
            ]
            insert_new(DeltaBatch, batches)
            ended = []
            for entry in entries:
                if entry.kind is EntryKind.END:
                    ended += _end(entry, entry.columns)
                elif entry.kind is EntryKind.AMENDMENT:
                    update(Stream, entry.columns, id=entry.stream_id)
            if counted:
                _count(ended)
    except AWAY:
        raise
    except NotCountedError:
        logger.exception("The ends of %d streams are not counted.", len(ended))
        store(entries, counted=False)
    except Exception:
        if len(entries) == 1:
            _store_what_can_be(entries[0])
        else:
            for entry in entries:
                store([entry])
    else:
        for entry in entries:
            if entry.kind is EntryKind.END:
                count_end(entry.model, entry.columns)


def _end(entry: Entry, columns: Mapping[str, Any]) -> list[EndedStream]:
    """Write an end; returns it if it counts, which it does once."""
    started_at = _started_at(entry)
    if started_at is None:
        return []
    written = dict(columns)
    # Wall time was read once, at the start; a clock step since then does not reach the record.
    written["ended_at"] = started_at + timedelta(seconds=written.pop("ended_after_s"))
    if not written["log_incomplete"]:
        del written["log_incomplete"]  # a batch may have been refused since
    for state in (Stream.State.RUNNING, Stream.State.LOST):
        if update(Stream, written, id=entry.stream_id, state=state):
            _tell_message(entry.stream_id, columns["text"])
            return [
                EndedStream(
                    stream_id=entry.stream_id,
                    columns=columns,
                    started_at=started_at,
                    model=entry.model,
                    was_lost=state == Stream.State.LOST,
                )
            ]
    return []


def _started_at(entry: Entry) -> datetime | None:
    """When the stream was started; None when its row has been deleted."""
    if entry.started_at:
        return datetime.fromisoformat(entry.started_at)
    return Stream.objects.filter(pk=entry.stream_id).values_list("started_at", flat=True).first()


def _tell_message(stream_id: int, text: str) -> None:
    """Put the answer into the message that the stream belongs to, if it belongs to one."""
    with connection.cursor() as cursor:
        cursor.execute(_MESSAGE_CONTENT, [escape(text), stream_id])


def _count(ended: Sequence[EndedStream]) -> None:
    try:
        count_ends(ended)
    except AWAY:
        raise
    except Exception as exc:
        raise NotCountedError from exc


def _store_what_can_be(entry: Entry) -> None:
    logger.exception("The database refused the %s of stream %s.", entry.kind, entry.stream_id)
    try:
        with write_turn(), transaction.atomic():
            Stream.objects.filter(pk=entry.stream_id).update(log_incomplete=True)
            if entry.kind is EntryKind.END:
                _end(entry, {name: entry.columns[name] for name in LEAST})
    except AWAY:
        raise
    except Exception:
        logger.exception("Stream %s stays without an end.", entry.stream_id)
