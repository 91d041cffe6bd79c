"""What happened in a stream, in order, each event with its time: the marks of the timeline and the tab of events.

In: a stream's columns. Out: events; one whose time is not known has none and is not a mark.
"""

from __future__ import annotations

from dataclasses import dataclass

from generation.admin.durations import seconds
from generation.models import Stream
from generation.output import EndedBy

_ENDS = {
    "client_disconnect": ("disconnect", "Client disconnected"),
    "client_stop": ("stop", "Stop received"),
    "timeout": ("failed", "Time was up"),
    "server_shutdown": ("failed", "Server shut down"),
    "upstream_error": ("failed", "Upstream failed"),
    "upstream_truncated": ("failed", "Upstream broke off"),
    "engine_error": ("failed", "Engine failed"),
    "lost": ("failed", "Process was lost"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEvent:
    """``at_s`` is seconds since the request was received; ``kind`` says how the timeline draws it."""

    kind: str
    name: str
    at_s: float | None
    detail: str = ""

    @property
    def at(self) -> str:
        return seconds(self.at_s)


def stream_events(stream: Stream) -> list[StreamEvent]:
    """Every event that the record knows of."""
    queued = f"queued for {seconds(stream.queue_s)}" if stream.queue_s is not None else ""
    prefill = f"prefill took {seconds(stream.prefill_s)}" if stream.prefill_s is not None else ""
    events = [
        StreamEvent(kind="received", name="Request received", at_s=0.0, detail=f"by {stream.backend}"),
        *_known("begun", "Generation began", stream.queue_s, queued),
        *_known("first-token", "First token made", stream.ttft_model_s, prefill),
        *_known("first-text", "First text sent", stream.ttft_visible_s, "the role frame before it does not count"),
    ]
    if stream.state == Stream.State.RUNNING:
        return [*events, StreamEvent(kind="running", name="Still running", at_s=None)]
    kind, name = _ENDS.get(stream.stop_reason or "", ("finish", "Finished"))
    events.append(StreamEvent(kind=kind, name=name, at_s=stream.total_s, detail=_reason(stream)))
    if stream.abort_latency_s is not None and stream.total_s is not None:
        tokens = "token" if stream.wasted_tokens == 1 else "tokens"
        wasted = "" if stream.wasted_tokens is None else f", {stream.wasted_tokens} {tokens} wasted"
        events.append(
            StreamEvent(
                kind="cancelled",
                name="Generation stopped",
                at_s=stream.total_s + stream.abort_latency_s,
                detail=f"{seconds(stream.abort_latency_s)} after that{wasted}",
            )
        )
    return events


def _known(kind: str, name: str, at_s: float | None, detail: str) -> list[StreamEvent]:
    return [] if at_s is None else [StreamEvent(kind=kind, name=name, at_s=at_s, detail=detail)]


def _reason(stream: Stream) -> str:
    reason = stream.get_stop_reason_display() or ""
    by = f", ended by the {EndedBy(stream.ended_by)}" if stream.ended_by in set(EndedBy) else ""
    return f"{reason}{by}"
