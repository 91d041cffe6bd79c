from __future__ import annotations

import pytest

from generation.admin.durations import seconds
from generation.admin.trends_chart import HEIGHT, bar_chart, line_chart


class TestLineChart:
    def test_nothing_is_drawn_when_there_is_no_value(self) -> None:
        assert line_chart({"p50": [None, None]}, label=seconds) is None

    def test_neighbours_are_joined_and_gaps_are_not(self) -> None:
        chart = line_chart({"p50": [0.1, 0.2, None, 0.1]}, label=seconds)
        assert chart is not None
        assert [(line.x, line.x2) for line in chart.lines] == [("16.75%", "40.25%")]
        assert [dot.x for dot in chart.dots] == ["16.75%", "40.25%", "87.25%"]

    def test_longer_is_higher(self) -> None:
        chart = line_chart({"p50": [0.001, 0.1, 10.0]}, label=seconds)
        assert chart is not None
        heights = [float(dot.y) for dot in chart.dots]
        assert HEIGHT > heights[0] > heights[1] > heights[2] > 0
        # A factor of 100 is the same step everywhere.
        assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.02)
        assert [line.label for line in chart.grid] == ["1.0 ms", "10.0 ms", "100 ms", "1.00 s", "10.00 s"]

    def test_one_value_is_a_dot_between_round_lines(self) -> None:
        chart = line_chart({"p50": [0.5]}, label=seconds)
        assert chart is not None
        assert [line.label for line in chart.grid] == ["500 ms"]
        assert len(chart.dots) == 1


class TestBarChart:
    def test_nothing_is_drawn_when_all_is_zero(self) -> None:
        assert bar_chart({"done": [0, 0]}, label=str) is None

    def test_series_stand_on_one_another(self) -> None:
        chart = bar_chart({"done": [3, 0], "failed": [1, 2]}, label=lambda value: f"{value:g}")
        assert chart is not None
        bars = [(bar.name, bar.x, float(bar.y), float(bar.height)) for bar in chart.bars]
        assert bars == [
            ("done", "9.7%", 49.0, 111.0),
            ("failed", "9.7%", 12.0, 37.0),
            ("failed", "56.7%", 86.0, 74.0),
        ]
        assert [line.label for line in chart.grid] == ["2", "4"]

    def test_the_smallest_is_still_seen(self) -> None:
        chart = bar_chart({"done": [100_000], "failed": [1]}, label=str)
        assert chart is not None
        assert chart.bars[1].height == "1.5"
