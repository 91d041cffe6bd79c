from __future__ import annotations

from typing import Any

import pytest

from generation.admin.stream_events import stream_events
from generation.models import Stream

TIMES = {"queue_s": 0.05, "prefill_s": 0.1, "ttft_model_s": 0.15, "ttft_visible_s": 0.2, "total_s": 2.5}


def events(**fields: Any) -> list[tuple[str, float | None, str]]:
    stream = Stream(backend="default", state="done", **fields)
    return [(event.name, event.at_s, event.detail) for event in stream_events(stream)]


def test_every_event_has_its_time_when_the_stream_went_well() -> None:
    assert events(**TIMES, stop_reason="stop_string", ended_by="model") == [
        ("Request received", 0.0, "by default"),
        ("Generation began", 0.05, "queued for 50.0 ms"),
        ("First token made", 0.15, "prefill took 100 ms"),
        ("First text sent", 0.2, "the role frame before it does not count"),
        ("Finished", 2.5, "stop string, ended by the model"),
    ]


def test_the_stop_of_generation_follows_when_the_client_left() -> None:
    left = events(**TIMES, stop_reason="client_disconnect", ended_by="client", abort_latency_s=0.25, wasted_tokens=3)
    assert left[-2:] == [
        ("Client disconnected", 2.5, "client disconnect, ended by the client"),
        ("Generation stopped", 2.75, "250 ms after that, 3 tokens wasted"),
    ]


@pytest.mark.parametrize(
    ("stop_reason", "name"),
    [
        ("client_stop", "Stop received"),
        ("timeout", "Time was up"),
        ("server_shutdown", "Server shut down"),
        ("upstream_error", "Upstream failed"),
        ("upstream_truncated", "Upstream broke off"),
        ("engine_error", "Engine failed"),
        ("lost", "Process was lost"),
        ("length", "Finished"),
        ("a reason of a later version", "Finished"),
    ],
)
def test_the_end_says_what_ended_it_when_it_was(stop_reason: str, name: str) -> None:
    assert events(stop_reason=stop_reason)[-1][0] == name


def test_only_what_is_known_is_told_when_the_stream_runs() -> None:
    running = stream_events(Stream(backend="default", state="running"))
    assert [(event.name, event.at_s) for event in running] == [("Request received", 0.0), ("Still running", None)]
