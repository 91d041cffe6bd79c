"""How a batch of deltas lies in the database: a list for each of their values, instead of an object for each delta.

Less than half of the bytes, and the time to write them follows those. Times are whole microseconds since the request
was received; values that few deltas have (holds, log-probabilities, tool calls) are kept by the delta's place in the
batch. Pure: deltas or JSON values in, JSON values out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from generation.output import Delta, Hold, TokenLogprob

Columns = Mapping[str, Any]
#: A delta as everybody reads it; `DeltaBatch` says what it has.
DeltaJson = Mapping[str, Any]

_SELDOM = ("holds", "logprobs", "tool_calls")


def of_deltas(sent: Sequence[tuple[Delta, float]], *, received_at: float) -> dict[str, Any]:
    """The columns of deltas with the time each was sent; times are monotonic seconds. For the writer."""
    deltas = [delta for delta, _ in sent]
    columns: dict[str, Any] = {
        "text": [delta.text for delta in deltas],
        "first_token": [delta.first_token for delta in deltas],
        "end_token": [delta.end_token for delta in deltas],
        "made_us": [None if delta.made_at is None else round((delta.made_at - received_at) * 1e6) for delta in deltas],
        "sent_us": [round((sent_at - received_at) * 1e6) for _, sent_at in sent],
    }
    for place, delta in enumerate(deltas):
        if delta.holds:
            columns.setdefault("holds", {})[str(place)] = [_hold_json(hold) for hold in delta.holds]
        if delta.logprobs:
            columns.setdefault("logprobs", {})[str(place)] = [_logprob_json(entry) for entry in delta.logprobs]
        if delta.tool_calls:
            columns.setdefault("tool_calls", {})[str(place)] = [asdict(piece) for piece in delta.tool_calls]
    return columns


def pack(deltas: Sequence[DeltaJson]) -> dict[str, Any]:
    """The columns of these deltas."""
    columns: dict[str, Any] = {name: [delta[name] for delta in deltas] for name in ("text", "first_token", "end_token")}
    columns["made_us"] = [None if delta["made_s"] is None else round(delta["made_s"] * 1e6) for delta in deltas]
    columns["sent_us"] = [round(delta["sent_s"] * 1e6) for delta in deltas]
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


def _hold_json(hold: Hold) -> dict[str, Any]:
    held_s = None if hold.held_s is None else round(hold.held_s * 1e6) / 1e6
    return {"cause": hold.cause, "size": hold.size, "held_s": held_s}


def _logprob_json(entry: TokenLogprob) -> dict[str, Any]:
    """One token's entry; its bytes as hex, because they may be part of a character."""
    top = {"top": [_logprob_json(one) for one in entry.top]} if entry.top else {}
    return {"text": entry.text, "bytes": entry.data.hex(), "logprob": entry.logprob, **top}
