"""Charts of the trends page, drawn as SVG by the server: lines on a logarithmic scale, and stacked bars.

Positions across are per cent and those up are pixels, as in an image that is as wide as its page; sizes are attributes,
for the security policy allows no inline style. Every chart has a table with the same figures beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

HEIGHT = 160
_TOP = 12
#: From here on, dots of full size would be all there is to see.
CROWDED_SLOTS = 90
#: Room for the labels on the left, and on the right so that the last mark is inside.
_LEFT, _WIDTH = 5.0, 94.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A piece of a line (from ``x``, ``y`` to ``x2``, ``y2``), a dot, or a bar from ``x``, ``y``, of a size."""

    name: str
    x: str
    y: str
    x2: str = ""
    y2: str = ""
    width: str = ""
    height: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridLine:
    """A horizontal line at a round value."""

    y: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Marks, and the lines behind them."""

    grid: list[GridLine]
    lines: list[Mark]
    dots: list[Mark]
    bars: list[Mark]
    #: Of the dots, in pixels.
    radius: str = ""
    height: int = HEIGHT


def line_chart(series: Mapping[str, Sequence[float | None]], *, label: Callable[[float], str]) -> Chart | None:
    """Draw each series of positive values over the same slots; a None is a gap. None when there is no value."""
    values = [value for points in series.values() for value in points if value]
    if not values:
        return None
    low, high = math.log(min(values) * 0.8), math.log(max(values) * 1.25)

    def up(value: float) -> str:
        return _number(HEIGHT - (HEIGHT - _TOP) * (math.log(value) - low) / (high - low))

    lines, dots = [], []
    for name, points in series.items():
        for at, value in enumerate(points):
            if not value:
                continue
            x = _across(at + 0.5, len(points))
            dots.append(Mark(name=name, x=x, y=up(value)))
            following = points[at + 1] if at + 1 < len(points) else None
            if following:
                x2 = _across(at + 1.5, len(points))
                lines.append(Mark(name=name, x=x, y=up(value), x2=x2, y2=up(following)))
    rounds = [n * 10.0**power for power in range(-4, 4) for n in (1, 2, 5)]
    shown = [value for value in rounds if low <= math.log(value) <= high]
    if len(shown) > 5:
        shown = [value for value in shown if f"{value:e}".startswith("1")]
    grid = [GridLine(y=up(value), label=label(value)) for value in shown]
    crowded = max(map(len, series.values())) > CROWDED_SLOTS
    return Chart(grid=grid, lines=lines, dots=dots, bars=[], radius="1.5" if crowded else "3")


def bar_chart(series: Mapping[str, Sequence[float]], *, label: Callable[[float], str]) -> Chart | None:
    """Stack the series, the first one at the bottom. None when all is zero."""
    totals = [sum(column) for column in zip(*series.values(), strict=True)]
    highest = max(totals, default=0)
    if not highest:
        return None
    bars = []
    below = [0.0] * len(totals)
    for name, values in series.items():
        for at, value in enumerate(values):
            if not value:
                continue
            # What is there is seen, however small it is beside the rest.
            height = max(1.5, (HEIGHT - _TOP) * value / highest)
            below[at] += height
            bars.append(
                Mark(
                    name=name,
                    x=_across(at + 0.1, len(totals)),
                    y=_number(HEIGHT - below[at]),
                    width=_wide(0.8, len(totals)),
                    height=_number(height),
                )
            )
    grid = [
        GridLine(y=_number(HEIGHT - (HEIGHT - _TOP) * value / highest), label=label(value))
        for value in _round_steps(highest)
    ]
    return Chart(grid=grid, lines=[], dots=[], bars=bars)


def hit_areas(slots: int) -> list[tuple[str, str]]:
    """Where each slot begins and how wide it is, as per cent."""
    return [(_across(at, slots), _wide(1, slots)) for at in range(slots)]


def _round_steps(highest: float) -> list[float]:
    """Two to four round values up to the highest."""
    power = 10.0 ** math.floor(math.log10(highest))
    step = next(power * n for n in (2, 1, 0.5) if highest / (power * n) >= 2)
    return [step * n for n in range(1, int(highest / step) + 1)]


def _across(at: float, slots: int) -> str:
    return f"{_number(_LEFT + _WIDTH * at / slots)}%"


def _wide(part: float, slots: int) -> str:
    return f"{_number(_WIDTH * part / slots)}%"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
