"""A stream's figures with the formula of each beside it, because the tools of the field disagree about the names.

In: a stream's columns. Out: groups of figures; one that does not apply has an empty value, and zero is a value.
"""

from __future__ import annotations

from dataclasses import dataclass

from generation.admin.durations import seconds
from generation.models import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value, written out; ``value`` is empty when it does not apply."""

    label: str
    value: str
    formula: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureGroup:
    """Figures that are read together."""

    title: str
    figures: list[Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldFigure:
    """What one cause held back over the whole stream; ``unit`` says what ``size`` counts."""

    cause: str
    count: int
    size: int
    unit: str
    total: str
    longest: str


def figure_groups(stream: Stream) -> list[FigureGroup]:
    """Every figure of a stream, in reading order."""
    return [
        FigureGroup(title="Latency", figures=_latency(stream)),
        FigureGroup(title="Pace", figures=_pace(stream)),
        FigureGroup(title="Counts", figures=_counts(stream)),
    ]


def hold_figures(stream: Stream) -> list[HoldFigure]:
    """Hold-backs by cause, the most frequent first."""
    rows = [
        HoldFigure(
            cause=cause,
            count=hold["count"],
            size=hold["size"],
            unit=size_unit(cause),
            total=seconds(hold["total_s"]),
            longest=seconds(hold["longest_s"]),
        )
        for cause, hold in stream.holds.items()
    ]
    return sorted(rows, key=lambda row: -row.count)


def size_unit(cause: str) -> str:
    """What the size of a hold counts: incomplete UTF-8 is bytes, everything later is characters."""
    return "bytes" if cause == "utf8" else "characters"


def _latency(stream: Stream) -> list[Figure]:
    return [
        _time("Queue time", stream.queue_s, "request received → generation begins"),
        _time("Prefill time", stream.prefill_s, "generation begins → first token made"),
        _time("TTFT, model", stream.ttft_model_s, "request received → first token made"),
        _time("TTFT, visible", stream.ttft_visible_s, "request received → first non-empty delta handed to the server"),
        _time("Total", stream.total_s, "request received → last frame"),
        _time("Abort latency", stream.abort_latency_s, "client gone or Stop received → generation stopped"),
    ]


def _pace(stream: Stream) -> list[Figure]:
    speed = stream.tokens_per_s
    icl = "gaps between deltas handed to the server"
    itl = "gaps between tokens made"
    return [
        _time("TPOT", stream.tpot_s, "(total − TTFT, model) / (tokens − 1)"),
        Figure(label="Tokens/s", value="" if speed is None else f"{speed:.1f}", formula="1 / TPOT"),
        _time("ICL, p50", stream.icl_p50_s, f"median of the {icl}"),
        _time("ICL, p95", stream.icl_p95_s, f"95th percentile of the {icl}"),
        _time("ICL, longest", stream.icl_max_s, f"largest of the {icl}"),
        _time("ITL, p50", stream.itl_p50_s, f"median of the {itl}"),
        _time("ITL, p95", stream.itl_p95_s, f"95th percentile of the {itl}"),
        _time("ITL, longest", stream.itl_max_s, f"largest of the {itl}"),
    ]


def _counts(stream: Stream) -> list[Figure]:
    return [
        _count("Prompt tokens", stream.prompt_tokens, "tokens of the rendered prompt"),
        _count("Completion tokens", stream.completion_tokens, "tokens made, the one that ended it included"),
        _count("Deltas", stream.delta_count, "non-empty pieces of text sent"),
        _count("Wasted tokens", stream.wasted_tokens, "tokens made after the client was gone"),
        _count("Unseen characters", stream.unseen_chars, "characters sent − characters the reader was shown"),
    ]


def _time(label: str, value: float | None, formula: str) -> Figure:
    return Figure(label=label, value=seconds(value), formula=formula)


def _count(label: str, value: int | None, formula: str) -> Figure:
    return Figure(label=label, value="" if value is None else str(value), formula=formula)
