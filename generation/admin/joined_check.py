"""The check that a stream's deltas, joined, are its stored text.

In: batches, each a first sequence number and a list of JSON objects (see `DeltaBatch`). Out: a verdict in a sentence.
A sequence number that no batch holds is a hole, never bridged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from generation.models import Stream

#: The batches of one stream, in the order of their first sequence numbers.
Batches = Sequence[tuple[int, list[dict[str, Any]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedCheck:
    """Whether the joined deltas equal the stored text; ``holds`` is None while that cannot be said yet."""

    holds: bool | None
    sentence: str


def joined_text(batches: Batches) -> str:
    """The text of all deltas that are in the log."""
    return "".join(delta["text"] for _, deltas in batches for delta in deltas)


def joined_check(stream: Stream, batches: Batches) -> JoinedCheck:
    """Compare the whole stored text with the whole of the deltas."""
    if stream.state == Stream.State.RUNNING:
        return JoinedCheck(
            holds=None, sentence="The stream is running: deltas and text are compared when it has ended."
        )
    joined = joined_text(batches)
    if joined == stream.text:
        return JoinedCheck(holds=True, sentence="Joined deltas equal the stored text.")
    at = next((i for i, (a, b) in enumerate(zip(joined, stream.text, strict=False)) if a != b), None)
    at = min(len(joined), len(stream.text)) if at is None else at
    holes = _holes(batches)
    missing = f" Missing deltas: {', '.join(holes)}." if holes else ""
    return JoinedCheck(
        holds=False, sentence=f"Joined deltas differ from the stored text, from character {at + 1} on.{missing}"
    )


def _holes(batches: Batches) -> list[str]:
    """Ranges of sequence numbers between 1 and the last that no batch holds."""
    seqs = [0, *(seq for first, deltas in batches for seq in range(first, first + len(deltas)))]
    return [
        f"{before + 1}" if after == before + 2 else f"{before + 1}–{after - 1}"
        for before, after in pairwise(seqs)
        if after > before + 1
    ]
