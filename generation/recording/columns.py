"""What a recorder holds, as the columns and JSON of the record (docs/metrics.md defines each).

Runs in the writer thread. Times leave here as seconds since the request was received, rounded to microseconds.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from generation.recording import latency
from generation.text import Verdict

if TYPE_CHECKING:
    from generation.recording.recorder import Recorder, StreamEnd

logger = logging.getLogger(__name__)

#: The columns without which a stream has not ended.
LEAST = (
    "state", "stop_reason", "ended_by", "ended_after_s", "text", "delta_count", "log_incomplete",
)  # fmt: skip

_FIGURES = tuple(field.name for field in fields(latency.Figures))


def closing_columns(recorder: Recorder, end: StreamEnd) -> dict[str, Any]:
    """Every column that the end of a stream decides, as JSON values."""
    tokens = _completion_tokens(recorder, end)
    figures = latency.figures(
        received_at=recorder.received_at,
        ended_at=end.ended_at,
        begun_at=end.begun_at,
        token_times=end.token_times,
        first_token_at=end.first_token_at,
        sent_times=recorder.sent_times,
        completion_tokens=end.usage.completion_tokens if end.usage else tokens,
    )
    return {
        **_proof_columns(recorder, end),
        **{name: None if (value := getattr(figures, name)) is None else _to_us(value) for name in _FIGURES},
        "finish_reason": end.stop_reason.finish_reason,
        "stop_string": end.stop_string,
        "error": end.error,
        "error_body": end.error_body,
        "upstream_id": end.upstream_id[:200],
        "tool_calls": recorder.tool_calls.calls or None,
        "prompt_tokens": end.usage.prompt_tokens if end.usage else end.prompt_tokens,
        "cached_tokens": end.usage.cached_tokens if end.usage else None,
        **({} if end.seen_chars is None else {"seen_chars": end.seen_chars}),
        "holds": {cause: asdict(totals) for cause, totals in recorder.holds.totals.items() if totals.count},
        "token_ids": end.token_ids,
        "token_offsets": _offsets(end.token_times, recorder.received_at) or None,
        **abort_columns(recorder, end),
        **least_columns(recorder, end),
    }


def least_columns(recorder: Recorder, end: StreamEnd) -> dict[str, Any]:
    """The columns named by `LEAST`; nothing in here can fail. ``ended_after_s`` becomes ``ended_at`` when stored."""
    return {
        "state": latency.state_of(end.stop_reason),
        "stop_reason": end.stop_reason,
        "ended_by": end.ended_by or end.stop_reason.ended_by,
        "ended_after_s": end.ended_at - recorder.received_at,
        "text": recorder.text,
        "delta_count": recorder.delta_count,
        "log_incomplete": recorder.log_incomplete,
    }


def abort_columns(recorder: Recorder, end: StreamEnd) -> dict[str, Any]:
    """The columns that are known only once generation has really stopped, which may be after the stream ended."""
    stopped_at, made = recorder.stop or (None, None)
    waited = latency.abort_latency(end.gone_at, stopped_at)
    return {
        "abort_latency_s": None if waited is None else _to_us(waited),
        "wasted_tokens": latency.wasted_tokens(end.gone_at, end.token_times, made),
        "completion_tokens": _completion_tokens(recorder, end),
    }


def _to_us(seconds: float) -> float:
    """Round to microseconds; `round` to digits makes a string on its way, and takes five times as long."""
    return round(seconds * 1e6) / 1e6


def _offsets(times: Sequence[float], since: float) -> list[float]:
    """The same of many times, without a call for each."""
    return [round((time - since) * 1e6) / 1e6 for time in times]


def _completion_tokens(recorder: Recorder, end: StreamEnd) -> int | None:
    """All tokens made, those after an abort included; None for backends that do not know their tokens."""
    counts = [end.usage.completion_tokens] if end.usage else []
    if end.token_ids is not None:
        counts.append(len(end.token_ids))
        if recorder.stop is not None and recorder.stop[1] is not None:
            counts.append(recorder.stop[1])
    return max(counts, default=None)


def _proof_columns(recorder: Recorder, end: StreamEnd) -> dict[str, Any]:
    if end.prove is None:
        return {}
    try:
        proof = end.prove(recorder.text)
    except Exception:
        logger.exception("The proof of stream %s could not be made.", recorder.stream_id)
        return {}
    if proof is None:
        return {}
    if proof.verdict is Verdict.DIFFERENT:
        logger.error("The text of stream %s differs from the whole decode of its ids.", recorder.stream_id)
    return {
        "proof": proof.verdict,
        "text_sha256": proof.text_sha256,
        "reference_sha256": proof.reference_sha256,
    }
