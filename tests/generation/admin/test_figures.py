from __future__ import annotations

from generation.admin.figures import figure_groups, hold_figures
from generation.models import Stream

FULL = {
    "queue_s": 0.0,
    "prefill_s": 0.05,
    "ttft_model_s": 0.06,
    "ttft_visible_s": 0.07,
    "total_s": 2.5,
    "abort_latency_s": 0.002,
    "tpot_s": 0.02,
    "icl_p50_s": 0.021,
    "icl_p95_s": 0.04,
    "icl_max_s": 0.2,
    "itl_p50_s": 0.019,
    "itl_p95_s": 0.03,
    "itl_max_s": 0.1,
    "prompt_tokens": 12,
    "completion_tokens": 123,
    "delta_count": 100,
    "wasted_tokens": 0,
    "text": "twelve chars",
    "seen_chars": 10,
}


def values(stream: Stream) -> dict[str, str]:
    return {figure.label: figure.value for group in figure_groups(stream) for figure in group.figures}


def test_every_figure_is_written_out_when_it_applies() -> None:
    assert values(Stream(**FULL)) == {
        "Queue time": "0 ms",
        "Prefill time": "50.0 ms",
        "TTFT, model": "60.0 ms",
        "TTFT, visible": "70.0 ms",
        "Total": "2.50 s",
        "Abort latency": "2.0 ms",
        "TPOT": "20.0 ms",
        "Tokens/s": "50.0",
        "ICL, p50": "21.0 ms",
        "ICL, p95": "40.0 ms",
        "ICL, longest": "200 ms",
        "ITL, p50": "19.0 ms",
        "ITL, p95": "30.0 ms",
        "ITL, longest": "100 ms",
        "Prompt tokens": "12",
        "Completion tokens": "123",
        "Deltas": "100",
        "Wasted tokens": "0",
        "Unseen characters": "2",
    }


def test_figures_are_empty_when_they_do_not_apply() -> None:
    empty = {label for label, value in values(Stream()).items() if value == ""}
    assert empty == set(values(Stream(**FULL))) - {"Deltas"}


def test_every_figure_has_its_formula_when_shown() -> None:
    assert all(figure.formula for group in figure_groups(Stream()) for figure in group.figures)


def test_the_most_frequent_cause_comes_first_when_text_was_held() -> None:
    holds = {
        "stop": {"count": 1, "size": 4, "total_s": 0.5, "longest_s": 0.5},
        "utf8": {"count": 3, "size": 6, "total_s": 0.0, "longest_s": None},
    }
    rows = hold_figures(Stream(holds=holds))
    assert [(row.cause, row.count, row.size, row.unit, row.total, row.longest) for row in rows] == [
        ("utf8", 3, 6, "bytes", "0 ms", ""),
        ("stop", 1, 4, "characters", "500 ms", "500 ms"),
    ]
