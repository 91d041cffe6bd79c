"""What waited, for what cause, and for how long: the bookkeeping of one stage, and the totals of a stream.

Times come in from the caller and may be None (not known); sizes are bytes for ``utf8``, characters otherwise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from generation.output import Delta, Hold, HoldCause


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldTotals:
    """All holds of one cause: how many, how much, and the total and longest wait (None when no times are known)."""

    count: int = 0
    size: int = 0
    total_s: float | None = None
    longest_s: float | None = None

    def plus(self, hold: Hold) -> HoldTotals:
        """Return these totals with one more hold."""
        counted = replace(self, count=self.count + 1, size=self.size + hold.size)
        if hold.held_s is None:
            return counted
        return replace(
            counted,
            total_s=(self.total_s or 0.0) + hold.held_s,
            longest_s=max(self.longest_s or 0.0, hold.held_s),
        )


class HoldLedger:
    """The holds of one stream, per cause, computed from its deltas alone."""

    def __init__(self) -> None:
        self._totals = dict.fromkeys(HoldCause, HoldTotals())

    def add(self, delta: Delta) -> None:
        """Count the holds that this delta ended."""
        for hold in delta.holds:
            self._totals[hold.cause] = self._totals[hold.cause].plus(hold)

    @property
    def totals(self) -> Mapping[HoldCause, HoldTotals]:
        """Totals of every cause, those without a hold included."""
        return dict(self._totals)


class Wait:
    """What one stage holds back, in order of arrival, with the time each part came."""

    __slots__ = ("_parts", "cause", "size")

    def __init__(self, cause: HoldCause) -> None:
        self.cause = cause
        self._parts: deque[tuple[int, float | None]] = deque()
        self.size = 0

    def step(self, *, released: int, held: int, at: float | None) -> Hold | None:
        """Account for one push at time ``at``: ``released`` of what waited came out, ``held`` waits now.

        Returns the hold that ended, timed from the oldest part that came out.
        """
        hold = self._release(released, at) if released else None
        if held > self.size:
            self._parts.append((held - self.size, at))
            self.size = held
        return hold

    def _release(self, released: int, at: float | None) -> Hold:
        since = self._parts[0][1]
        left = released
        while left:
            size, arrived = self._parts.popleft()
            if size > left:
                self._parts.appendleft((size - left, arrived))
            left -= min(size, left)
        self.size -= released
        return Hold(
            cause=self.cause,
            size=released,
            held_s=None if since is None or at is None else at - since,
        )
