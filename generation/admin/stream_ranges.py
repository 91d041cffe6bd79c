"""A stored stream in ranges, as JSON that its page reads: deltas in columns, frames, tokens.

Columns instead of objects: 10,000 deltas are 0.3 MB that way. Nothing here asks who is allowed to read.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db.models import Max, Min

from generation.backends import backends
from generation.models import Stream
from generation.replay.stored_frames import stored_frames

MAX_DELTAS = 2500
MAX_FRAMES = 500
MAX_TOKENS = 1000


def deltas_in(stream: Stream, first_seq: int, last_seq: int, *, text: bool) -> dict[str, Any]:
    """Deltas ``first_seq`` to ``last_seq``, at most `MAX_DELTAS`; without ``text``, how long each is and when it came.

    ``next_seq`` is where to go on, null when nothing follows (yet). A hole in the log is left out of the columns.
    """
    last_seq = min(last_seq, first_seq + MAX_DELTAS - 1)
    batches = stream.batches.filter(first_seq__gte=_batch_of(stream, first_seq), first_seq__lte=last_seq)
    numbered = [
        (seq, delta)
        for batch_seq, batch in batches.order_by("first_seq").values_list("first_seq", "deltas")
        for seq, delta in enumerate(batch, batch_seq)
        if seq >= first_seq
    ]
    seqs = [seq for seq, _ in numbered if seq <= last_seq]
    deltas = [delta for seq, delta in numbered if seq <= last_seq]
    # The rest of the last batch, or the batch after it, which follows a hole where one is missing.
    next_seq = next((seq for seq, _ in numbered if seq > last_seq), None)
    if next_seq is None:
        next_seq = stream.batches.filter(first_seq__gt=last_seq).aggregate(at=Min("first_seq"))["at"]
    return {
        "next_seq": next_seq,
        "running": stream.state == Stream.State.RUNNING,
        **_figure_columns(seqs, deltas),
        **(_content_columns(seqs, deltas) if text else {}),
    }


def frames_in(stream: Stream, first: int) -> dict[str, Any]:
    """The bytes that were sent, from frame number ``first`` (from 0) on, at most `MAX_FRAMES`; they are ASCII."""
    frames = stored_frames(stream, include_usage=stream.include_usage)
    shown = list(islice(frames, first, first + MAX_FRAMES + 1))
    return {
        "next": first + MAX_FRAMES if len(shown) > MAX_FRAMES else None,
        "frames": [[at_s, frame.decode("ascii")] for at_s, frame in shown[:MAX_FRAMES]],
    }


def frames_fixture(stream: Stream) -> Iterable[str]:
    """All frames as a Python list to paste into a test: when each was sent, and its bytes."""
    yield "# Seconds since the request was received, and the bytes that were sent then.\n"
    yield "FRAMES: list[tuple[float, bytes]] = [\n"
    for at_s, frame in stored_frames(stream, include_usage=stream.include_usage):
        yield f"    ({at_s}, {frame!r}),\n"
    yield "]\n"


def tokens_in(stream: Stream, first: int) -> dict[str, Any]:
    """Token ids from position ``first`` on with the time each was made, at most `MAX_TOKENS`, and what each spells.

    ``texts`` is null where this process has no tokenizer for them; an entry is text, or the hex of bytes that are no
    text by themselves.
    """
    ids = stream.token_ids or []
    shown = ids[first : first + MAX_TOKENS]
    return {
        "next": first + MAX_TOKENS if len(ids) > first + MAX_TOKENS else None,
        "ids": shown,
        "made_s": (stream.token_offsets or [])[first : first + MAX_TOKENS],
        "texts": _texts(stream, shown),
    }


def _figure_columns(seqs: list[int], deltas: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "seq": seqs,
        "sent_s": [delta["sent_s"] for delta in deltas],
        "made_s": [delta["made_s"] for delta in deltas],
        "first_token": [delta["first_token"] for delta in deltas],
        "end_token": [delta["end_token"] for delta in deltas],
        "chars": [len(delta["text"]) for delta in deltas],
        "holds": [
            [seq, hold["cause"], hold["size"], hold["held_s"]]
            for seq, delta in zip(seqs, deltas, strict=True)
            for hold in delta["holds"]
        ],
    }


def _content_columns(seqs: list[int], deltas: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "text": [delta["text"] for delta in deltas],
        "tool_calls": [
            [seq, piece["name"] or "", piece["arguments"]]
            for seq, delta in zip(seqs, deltas, strict=True)
            for piece in delta.get("tool_calls", ())
        ],
    }


def _batch_of(stream: Stream, seq: int) -> int:
    """The first sequence number of the batch that holds ``seq``, or of the first one."""
    return stream.batches.filter(first_seq__lte=seq).aggregate(first=Max("first_seq"))["first"] or 1


def _texts(stream: Stream, ids: list[int]) -> list[dict[str, str]] | None:
    try:
        backend = backends[stream.backend]
    except ImproperlyConfigured:
        # The settings have changed since then.
        return None
    # A backend that serves another model by now would spell the ids wrongly.
    if stream.model not in {stream.backend, "default", *(card.id for card in backend.models())}:
        return None
    spelled = backend.spell(ids)
    return None if spelled is None else [_spelling(token) for token in spelled]


def _spelling(token: bytes) -> dict[str, str]:
    try:
        return {"text": token.decode()}
    except UnicodeDecodeError:
        return {"hex": token.hex(" ")}
