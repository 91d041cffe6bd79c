"""What is to be written of streams, as plain JSON values: now to the database, or to the spool file and later from it.

Made in the writer thread from recorders. Nothing in an entry refers to the process that made it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from django.conf import settings

from generation.delta_columns import Columns, of_deltas, without_words
from generation.output import Delta
from generation.recording.columns import abort_columns, closing_columns, least_columns
from generation.recording.words import NO_WORDS, error_without_words

if TYPE_CHECKING:
    from generation.recording.recorder import Recorder, StreamEnd

logger = logging.getLogger(__name__)


class EntryKind(StrEnum):
    """What an entry adds to a stream's record."""

    DELTAS = "deltas"
    END = "end"
    #: What became known about an abort after the end was stored.
    AMENDMENT = "amendment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One write to one stream. Deltas are those from ``first_seq`` on, in columns.

    ``model`` and ``started_at`` (ISO 8601, empty where nobody said) are those of an end's row.
    """

    kind: EntryKind
    stream_id: int
    model: str = ""
    started_at: str = ""
    first_seq: int = 0
    deltas: Columns = field(default_factory=lambda: MappingProxyType({}))
    columns: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def deltas_entry(recorder: Recorder, first_seq: int, deltas: Sequence[tuple[Delta, float]]) -> Entry:
    """Consecutive deltas, each with the time it was sent, to append to the log."""
    columns = of_deltas(deltas, received_at=recorder.received_at)
    return Entry(
        kind=EntryKind.DELTAS,
        stream_id=recorder.stream_id,
        first_seq=first_seq,
        deltas=columns if settings.STREAMSITE_STORE_TEXT else without_words(columns),
    )


def end_entry(recorder: Recorder, end: StreamEnd) -> Entry:
    """The end of a stream; never raises, because a stream without its figures has still ended."""
    try:
        columns = closing_columns(recorder, end)
    except Exception:
        logger.exception("The figures of stream %s could not be made.", recorder.stream_id)
        columns = {**least_columns(recorder, end), "log_incomplete": True}
    if not settings.STREAMSITE_STORE_TEXT:
        columns |= {name: nothing for name, nothing in NO_WORDS.items() if name in columns}
        columns |= {"error_body": error_without_words(columns.get("error_body"))}
    return Entry(
        kind=EntryKind.END,
        stream_id=recorder.stream_id,
        model=recorder.model,
        started_at=recorder.started_at.isoformat() if recorder.started_at else "",
        columns=columns,
    )


def amendment_entry(recorder: Recorder, end: StreamEnd) -> Entry:
    """The columns of an abort."""
    return Entry(kind=EntryKind.AMENDMENT, stream_id=recorder.stream_id, columns=abort_columns(recorder, end))
