from __future__ import annotations

import pytest

from generation.replay.pacing import paced


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.mark.parametrize(
    ("speed", "slept"),
    [
        pytest.param(1.0, [0.5, 1.5], id="as it was"),
        pytest.param(2.0, [0.25, 0.75], id="twice as fast"),
        pytest.param(0.25, [2.0, 6.0], id="a quarter"),
    ],
)
def test_each_piece_comes_at_its_time(speed: float, slept: list[float]) -> None:
    clock = Clock()
    timed = [(0.0, "a"), (0.5, "b"), (0.5, "c"), (2.0, "d")]
    assert list(paced(timed, speed=speed, clock=clock, sleep=clock.sleep)) == ["a", "b", "c", "d"]
    assert clock.slept == slept


def test_later_pieces_keep_their_time_when_the_reader_is_slow() -> None:
    clock = Clock()
    pieces = paced([(0.0, "a"), (1.0, "b"), (4.0, "c")], clock=clock, sleep=clock.sleep)
    assert next(pieces) == "a"
    clock.now += 3.0
    assert next(pieces) == "b"
    assert clock.slept == []
    assert next(pieces) == "c"
    assert clock.slept == [1.0]
