from __future__ import annotations

import pytest

from generation.models import Run
from generation.replay.summary import summarise
from tests.stored_streams import MakeStream

TABLE = """\
Run {run}: 4 prompts, 2 failed, 2.00 s

                   n        p50        p95
TTFT, model        2   200.0 ms   290.0 ms   request received → first token made
TTFT, visible      3   300.0 ms   480.0 ms   request received → first text handed on
TPOT               1    25.0 ms    25.0 ms   (total − TTFT, model) / (tokens − 1)
total              3  1000.0 ms  1900.0 ms   request received → end
tokens/s                              21.0   tokens of all answers / duration of the run
ends          eos 2, engine_error 1"""

EMPTY_TABLE = """\
Run {run}: 0 prompts, 0 failed, 0.00 s

                   n        p50        p95
TTFT, model        0          –          –   request received → first token made
TTFT, visible      0          –          –   request received → first text handed on
TPOT               0          –          –   (total − TTFT, model) / (tokens − 1)
total              0          –          –   request received → end
tokens/s                                 –   tokens of all answers / duration of the run
ends          –"""


@pytest.fixture
def run(db: None) -> Run:
    return Run.objects.create(name="teas", corpus="teas.txt", model="scripted")


@pytest.fixture
def full_run(run: Run, make_stream: MakeStream) -> Run:
    """Two answers, one failure in the middle of an answer, one line that was no prompt; and a stranger's stream."""
    streams = [
        make_stream(ttft_model_s=0.1, ttft_visible_s=0.1, total_s=1.0, completion_tokens=37, tpot_s=0.025),
        make_stream(ttft_model_s=0.3, ttft_visible_s=0.3, total_s=2.0, completion_tokens=5),
        make_stream(ttft_visible_s=0.5, total_s=0.5, state="failed", stop_reason="engine_error", finish_reason=None),
    ]
    for position, stream in enumerate(streams, start=1):
        error = "broke" if stream.state == "failed" else ""
        run.items.create(position=position, item_id=str(position), stream=stream, error=error)
    run.items.create(position=9, item_id="9", error="no prompt")
    make_stream(ttft_model_s=9.0, ttft_visible_s=9.0, total_s=9.0, completion_tokens=9)
    return run


def test_people_get_a_table(full_run: Run) -> None:
    assert summarise(full_run, duration_s=2.0).as_table() == TABLE.format(run=full_run.pk)


def test_programs_get_the_same_figures(full_run: Run) -> None:
    assert summarise(full_run, duration_s=2.0).as_json() == {
        "run": full_run.pk,
        "name": "teas",
        "model": "scripted",
        "items": 4,
        "failed": 2,
        "duration_s": 2.0,
        "figures": {
            "ttft_model_s": {"n": 2, "p50": 0.2, "p95": 0.29},
            "ttft_visible_s": {"n": 3, "p50": 0.3, "p95": 0.48},
            "tpot_s": {"n": 1, "p50": 0.025, "p95": 0.025},
            "total_s": {"n": 3, "p50": 1.0, "p95": 1.9},
        },
        "tokens": 42,
        "tokens_per_s": 21.0,
        "ends": {"eos": 2, "engine_error": 1},
    }


def test_nothing_is_shown_as_zero_when_nothing_was_measured(run: Run) -> None:
    summary = summarise(run, duration_s=0.0)
    assert summary.as_table() == EMPTY_TABLE.format(run=run.pk)
    assert summary.as_json()["tokens"] is None


def test_a_stream_without_an_end_is_counted_as_running(run: Run, make_stream: MakeStream) -> None:
    run.items.create(position=1, item_id="1", stream=make_stream(state="running"))
    assert summarise(run, duration_s=1.0).ends == {"running": 1}
