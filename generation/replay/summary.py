"""A run in figures, read from the rows of its streams once they are stored.

Percentiles are over streams, with linear interpolation; a stream to which a figure does not apply is left out of that
figure's n. The formulas stand beside the figures because the tools of the field disagree about them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from generation.models import Run, Stream
from generation.recording.latency import percentile

#: Column → (name, formula).
FIGURES = {
    "ttft_model_s": ("TTFT, model", "request received → first token made"),
    "ttft_visible_s": ("TTFT, visible", "request received → first text handed on"),
    "tpot_s": ("TPOT", "(total − TTFT, model) / (tokens − 1)"),
    "total_s": ("total", "request received → end"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One figure over the ``n`` streams to which it applies; in seconds."""

    n: int
    p50: float | None
    p95: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a run did. ``failed`` items have an error; ``tokens`` is None when no stream knows its tokens."""

    run: int
    name: str
    model: str
    items: int
    failed: int
    duration_s: float
    figures: dict[str, Spread]
    tokens: int | None
    tokens_per_s: float | None
    ends: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values, times to the microsecond."""
        return {name: _rounded(value) for name, value in asdict(self).items()}

    def as_table(self) -> str:
        """The same for people."""
        lines = [
            f"Run {self.run}: {self.items} prompts, {self.failed} failed, {self.duration_s:.2f} s",
            "",
            f"{'':13} {'n':>6} {'p50':>10} {'p95':>10}",
        ]
        for column, spread in self.figures.items():
            name, formula = FIGURES[column]
            lines.append(f"{name:13} {spread.n:>6} {_ms(spread.p50):>10} {_ms(spread.p95):>10}   {formula}")
        speed = "–" if self.tokens_per_s is None else f"{self.tokens_per_s:.1f}"
        ends = ", ".join(f"{reason} {count}" for reason, count in self.ends.items())
        lines += [
            f"{'tokens/s':13} {speed:>28}   tokens of all answers / duration of the run",
            f"{'ends':13} {ends or '–'}",
        ]
        return "\n".join(lines)


def summarise(run: Run, *, duration_s: float) -> Summary:
    """Read a run's rows; its streams must be stored (``get_writer().flush()``)."""
    streams = Stream.objects.filter(run_items__run=run)
    rows = list(streams.values_list("stop_reason", "completion_tokens", *FIGURES))
    counts = [tokens for _, tokens, *_ in rows if tokens is not None]
    tokens = sum(counts) if counts else None
    ends = Counter(reason or "running" for reason, *_ in rows)
    columns = zip(*(figures for _, _, *figures in rows), strict=True) if rows else ([] for _ in FIGURES)
    return Summary(
        run=run.pk,
        name=run.name,
        model=run.model,
        items=run.items.count(),
        failed=run.items.exclude(error="").count(),
        duration_s=duration_s,
        figures={name: _spread(values) for name, values in zip(FIGURES, columns, strict=True)},
        tokens=tokens,
        tokens_per_s=tokens / duration_s if tokens is not None and duration_s > 0 else None,
        ends=dict(ends.most_common()),
    )


def _spread(values: Iterable[float | None]) -> Spread:
    ordered = sorted(value for value in values if value is not None)
    return Spread(n=len(ordered), p50=percentile(ordered, 50), p95=percentile(ordered, 95))


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def _ms(seconds: float | None) -> str:
    return "–" if seconds is None else f"{seconds * 1000:.1f} ms"
