"""A window of a long list: which rows a page shows, and where the pages before and after it begin."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Rows ``first`` to ``last`` (from 1, inclusive) of ``total``; 1 to 0 when there are none."""

    first: int
    total: int
    size: int

    @property
    def last(self) -> int:
        return min(self.first + self.size - 1, self.total)

    @property
    def previous(self) -> int | None:
        return max(1, self.first - self.size) if self.first > 1 else None

    @property
    def next(self) -> int | None:
        return self.last + 1 if self.last < self.total else None

    @property
    def slice(self) -> slice:
        return slice(self.first - 1, self.last)


def window(wanted: str | None, *, total: int, size: int) -> Window:
    """The window that begins at row ``wanted`` (a query parameter); anything that is no row number means the first."""
    first = int(wanted) if wanted and wanted.isascii() and wanted.isdigit() and len(wanted) < 10 else 1
    return Window(first=max(1, min(first, total)), total=total, size=size)
