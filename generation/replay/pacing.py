"""Plays timed things again at their own pace.

In: pairs of (seconds since the start, thing), ascending. Out: each thing at its time, divided by the speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def paced(
    timed: Iterable[tuple[float, T]],
    *,
    speed: float = 1.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[T]:
    """Yield each thing when it is due; a late one comes at once, and the ones after it keep their own time."""
    started_at = clock()
    for offset_s, thing in timed:
        wait_s = started_at + offset_s / speed - clock()
        if wait_s > 0:
            sleep(wait_s)
        yield thing
