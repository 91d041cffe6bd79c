"""How a batch of deltas lies in the database: a list for each of their values, instead of an object for each delta.

A quarter of the bytes, and the time to write them follows those. Times are whole microseconds since the request was
received; values that few deltas have (holds, log-probabilities, tool calls) are kept by the delta's place in the batch.
Pure: JSON values in, JSON values out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Columns = Mapping[str, Any]
#: A delta as everybody reads it; `DeltaBatch` says what it has.
DeltaJson = Mapping[str, Any]

_SELDOM = ("holds", "logprobs", "tool_calls")


def pack(deltas: Sequence[DeltaJson]) -> dict[str, Any]:
    """The columns of these deltas."""
    columns: dict[str, Any] = {name: [delta[name] for delta in deltas] for name in ("text", "first_token", "end_token")}
    columns["made_us"] = [None if delta["made_s"] is None else _whole_us(delta["made_s"]) for delta in deltas]
    columns["sent_us"] = [_whole_us(delta["sent_s"]) for delta in deltas]
    for name in _SELDOM:
        if some := {str(place): delta[name] for place, delta in enumerate(deltas) if delta.get(name)}:
            columns[name] = some
    if any("chars" in delta for delta in deltas):
        columns["chars"] = [delta["chars"] for delta in deltas]
    return columns


def unpack(columns: Columns) -> list[dict[str, Any]]:
    """The deltas of these columns."""
    deltas = [
        {
            "text": text,
            "first_token": first_token,
            "end_token": end_token,
            "made_s": None if made_us is None else made_us / 1e6,
            "sent_s": sent_us / 1e6,
            "holds": [],
        }
        for text, first_token, end_token, made_us, sent_us in zip(
            columns["text"],
            columns["first_token"],
            columns["end_token"],
            columns["made_us"],
            columns["sent_us"],
            strict=True,
        )
    ]
    for name in _SELDOM:
        for place, value in columns.get(name, {}).items():
            deltas[int(place)][name] = value
    for delta, chars in zip(deltas, columns.get("chars", ()), strict=False):
        delta["chars"] = chars
    return deltas


def without_words(columns: Columns) -> dict[str, Any]:
    """Columns with times and holds, and how many characters each delta had."""
    left = {name: column for name, column in columns.items() if name not in {"logprobs", "tool_calls"}}
    return {"chars": [len(text) for text in columns["text"]], **left, "text": [""] * len(columns["text"])}


def _whole_us(seconds: float) -> int:
    return round(seconds * 1e6)
