"""The figures of one stream, from its times; pure, and the only place where their formulas stand.

In: monotonic seconds of one process. Out: durations in float seconds, named as the columns of the record.
A figure that does not apply, or whose times are not known, is None and never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub
from typing import Literal

from generation.output import StopReason

State = Literal["done", "stopped", "failed", "lost"]

_STATES: dict[StopReason, State] = {
    StopReason.EOS: "done",
    StopReason.STOP_STRING: "done",
    StopReason.STOP_TOKEN: "done",
    StopReason.TOOL_CALLS: "done",
    StopReason.CONTENT_FILTER: "done",
    StopReason.LENGTH: "done",
    StopReason.CONTEXT: "done",
    StopReason.CLIENT_DISCONNECT: "stopped",
    StopReason.CLIENT_STOP: "stopped",
    StopReason.SERVER_SHUTDOWN: "stopped",
    StopReason.TIMEOUT: "failed",
    StopReason.UPSTREAM_ERROR: "failed",
    StopReason.UPSTREAM_TRUNCATED: "failed",
    StopReason.ENGINE_ERROR: "failed",
    StopReason.LOST: "lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Durations of one stream in seconds; ``icl`` is between deltas handed over, ``itl`` between tokens made."""

    queue_s: float | None
    prefill_s: float | None
    ttft_model_s: float | None
    ttft_visible_s: float | None
    icl_p50_s: float | None
    icl_p95_s: float | None
    icl_max_s: float | None
    itl_p50_s: float | None
    itl_p95_s: float | None
    itl_max_s: float | None
    tpot_s: float | None
    total_s: float


def state_of(stop_reason: StopReason) -> State:
    """The state of a stream that ended for this reason."""
    return _STATES[stop_reason]


def figures(
    *,
    received_at: float,
    ended_at: float,
    begun_at: float | None,
    token_times: Sequence[float],
    sent_times: Sequence[float],
    completion_tokens: int | None,
    first_token_at: float | None = None,
) -> Figures:
    """Measure one stream; ``token_times`` is empty when its backend knows none but that of the first at most."""
    first_token = token_times[0] if token_times else first_token_at
    total_s = ended_at - received_at
    ttft_model_s = _since(received_at, first_token)
    icl, itl = _gaps(sent_times), _gaps(token_times)
    return Figures(
        queue_s=_since(received_at, begun_at),
        prefill_s=None if begun_at is None else _since(begun_at, first_token),
        ttft_model_s=ttft_model_s,
        ttft_visible_s=_since(received_at, sent_times[0] if sent_times else None),
        icl_p50_s=percentile(icl, 50),
        icl_p95_s=percentile(icl, 95),
        icl_max_s=percentile(icl, 100),
        itl_p50_s=percentile(itl, 50),
        itl_p95_s=percentile(itl, 95),
        itl_max_s=percentile(itl, 100),
        tpot_s=_tpot(total_s, ttft_model_s, completion_tokens),
        total_s=total_s,
    )


def percentile(ordered: Sequence[float], percent: float) -> float | None:
    """The percentile of values in ascending order, interpolated linearly as numpy does; None for no values."""
    if not ordered:
        return None
    position = (len(ordered) - 1) * percent / 100
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def abort_latency(gone_at: float | None, stopped_at: float | None) -> float | None:
    """Client gone (or Stop received) → generation stopped; None when generation had stopped before."""
    if gone_at is None or stopped_at is None or stopped_at < gone_at:
        return None
    return stopped_at - gone_at


def wasted_tokens(gone_at: float | None, token_times: Sequence[float], tokens: int | None) -> int | None:
    """Tokens made after the client was gone, of ``tokens`` made in all; None when it never left or nobody knows."""
    if gone_at is None or tokens is None or (tokens and not token_times):
        return None
    return max(0, tokens - sum(1 for made_at in token_times if made_at <= gone_at))


def _gaps(times: Sequence[float]) -> list[float]:
    return sorted(map(sub, times[1:], times))


def _since(start: float, end: float | None) -> float | None:
    return None if end is None else end - start


def _tpot(total_s: float, ttft_model_s: float | None, tokens: int | None) -> float | None:
    if ttft_model_s is None or tokens is None or tokens < 2:
        return None
    return (total_s - ttft_model_s) / (tokens - 1)
