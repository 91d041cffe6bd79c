from __future__ import annotations

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from generation.output import StopReason
from generation.recording import latency


def figures(**changes):
    times = {
        "received_at": 100.0,
        "ended_at": 102.0,
        "begun_at": 100.25,
        "token_times": [100.5, 100.75, 101.25, 101.5],
        "sent_times": [100.625, 101.125, 101.25],
        "completion_tokens": 4,
    }
    return latency.figures(**{**times, **changes})


def test_every_figure_is_measured_when_all_times_are_known():
    assert figures() == latency.Figures(
        queue_s=0.25,
        prefill_s=0.25,
        ttft_model_s=0.5,
        ttft_visible_s=0.625,
        icl_p50_s=0.3125,  # gaps 0.125 and 0.5
        icl_p95_s=pytest.approx(0.48125),
        icl_max_s=0.5,
        itl_p50_s=0.25,  # gaps 0.25, 0.5 and 0.25
        itl_p95_s=pytest.approx(0.475),
        itl_max_s=0.5,
        tpot_s=0.5,  # (2.0 - 0.5) / 3
        total_s=2.0,
    )


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        pytest.param({"begun_at": None}, {"queue_s", "prefill_s"}, id="the backend cannot know when it began"),
        pytest.param(
            {"token_times": []},
            {"prefill_s", "ttft_model_s", "itl_p50_s", "itl_p95_s", "itl_max_s", "tpot_s"},
            id="no token times",
        ),
        pytest.param(
            {"token_times": [], "first_token_at": 100.5},
            {"itl_p50_s", "itl_p95_s", "itl_max_s"},
            id="only the time of the first token",
        ),
        pytest.param({"sent_times": []}, {"ttft_visible_s", "icl_p50_s", "icl_p95_s", "icl_max_s"}, id="no delta"),
        pytest.param({"sent_times": [100.625]}, {"icl_p50_s", "icl_p95_s", "icl_max_s"}, id="one delta"),
        pytest.param({"completion_tokens": 1}, {"tpot_s"}, id="one token has no time per further token"),
        pytest.param({"completion_tokens": 0}, {"tpot_s"}, id="no token"),
        pytest.param({"completion_tokens": None}, {"tpot_s"}, id="tokens not known"),
        pytest.param({"token_times": [100.5]}, {"itl_p50_s", "itl_p95_s", "itl_max_s"}, id="one token time"),
    ],
)
def test_only_the_figures_that_do_not_apply_are_null(changes, missing):
    measured = figures(**changes)
    assert {name for name in latency.Figures.__slots__ if getattr(measured, name) is None} == missing


def test_a_zero_stays_a_zero_when_things_happen_at_once():
    measured = figures(begun_at=100.0, token_times=[100.0, 100.0], sent_times=[100.0, 100.0], completion_tokens=2)
    assert (measured.queue_s, measured.ttft_model_s, measured.itl_max_s, measured.icl_p50_s) == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        pytest.param([], 50, None, id="none"),
        pytest.param([3.0], 95, 3.0, id="one"),
        pytest.param([1.0, 2.0], 50, 1.5, id="between two"),
        pytest.param([1.0, 2.0, 4.0, 8.0], 0, 1.0, id="smallest"),
        pytest.param([1.0, 2.0, 4.0, 8.0], 100, 8.0, id="largest"),
        pytest.param([0.0, 10.0, 20.0, 30.0, 40.0], 95, 38.0, id="p95"),
    ],
)
def test_percentile_interpolates_linearly(values, percent, expected):
    assert latency.percentile(values, percent) == expected


@settings(max_examples=300)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50).map(sorted), st.integers(0, 100))
def test_percentile_equals_numpys(values, percent):
    assert latency.percentile(values, percent) == pytest.approx(float(numpy.percentile(values, percent)))


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (StopReason.EOS, "done"),
        (StopReason.STOP_STRING, "done"),
        (StopReason.STOP_TOKEN, "done"),
        (StopReason.LENGTH, "done"),
        (StopReason.CONTEXT, "done"),
        (StopReason.CLIENT_DISCONNECT, "stopped"),
        (StopReason.CLIENT_STOP, "stopped"),
        (StopReason.SERVER_SHUTDOWN, "stopped"),
        (StopReason.TIMEOUT, "failed"),
        (StopReason.ENGINE_ERROR, "failed"),
        (StopReason.UPSTREAM_ERROR, "failed"),
        (StopReason.UPSTREAM_TRUNCATED, "failed"),
        (StopReason.LOST, "lost"),
    ],
)
def test_state_follows_from_the_stop_reason(reason, state):
    assert latency.state_of(reason) == state


def test_every_stop_reason_has_a_state():
    assert {latency.state_of(reason) for reason in StopReason} == {"done", "stopped", "failed", "lost"}


@pytest.mark.parametrize(
    ("gone_at", "stopped_at", "expected"),
    [
        pytest.param(10.0, 10.25, 0.25, id="stopped after the client left"),
        pytest.param(10.0, 10.0, 0.0, id="at once"),
        pytest.param(None, 10.25, None, id="the client stayed"),
        pytest.param(10.0, None, None, id="not stopped yet"),
        pytest.param(10.0, 9.0, None, id="had stopped before: nothing to abort"),
    ],
)
def test_abort_latency(gone_at, stopped_at, expected):
    assert latency.abort_latency(gone_at, stopped_at) == expected


@pytest.mark.parametrize(
    ("gone_at", "token_times", "tokens", "expected"),
    [
        pytest.param(10.0, [9.0, 9.5, 10.5], 4, 2, id="made after, one of them after the record was closed"),
        pytest.param(10.0, [9.0, 10.0], 2, 0, id="none was made after"),
        pytest.param(10.0, [], 0, 0, id="left before the first token"),
        pytest.param(None, [9.0], 1, None, id="the client stayed"),
        pytest.param(10.0, [9.0], None, None, id="generation has not stopped yet"),
        pytest.param(10.0, [], 3, None, id="no token times"),
    ],
)
def test_wasted_tokens(gone_at, token_times, tokens, expected):
    assert latency.wasted_tokens(gone_at, token_times, tokens) == expected
