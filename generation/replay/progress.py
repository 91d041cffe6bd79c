"""How far a run is: a live bar on a terminal, else a line every few seconds for a log."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from generation.replay.terminal import harmless

LINE_EVERY_S = 5.0


class RunProgress(Protocol):
    """What the runner tells while it works."""

    def advance(self) -> None:
        """One more item has ended."""

    def problem(self, line_number: int, message: str) -> None:
        """An item failed."""

    def close(self) -> None:
        """The run has ended."""


class LineProgress:
    """Lines for a file, at most one every `LINE_EVERY_S` seconds; problems at once."""

    def __init__(
        self, write: Callable[[str], None], total: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write = write
        self._total = total
        self._clock = clock
        self._done = 0
        self._next_at = clock() + LINE_EVERY_S

    def advance(self) -> None:
        self._done += 1
        if self._clock() >= self._next_at:
            self._next_at = self._clock() + LINE_EVERY_S
            self._write(f"{self._done} of {self._total} done")

    def problem(self, line_number: int, message: str) -> None:
        self._write(problem_line(line_number, message))

    def close(self) -> None:
        pass


class BarProgress:
    """A bar that is redrawn in place and gone at the end; problems scroll above it."""

    def __init__(self, out: TextIO, total: int, *, doing: str = "answering") -> None:
        self._console = Console(file=out)
        self._progress = Progress(
            TextColumn(doing),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._progress.add_task("", total=total)
        self._progress.start()

    def advance(self) -> None:
        self._progress.advance(self._task)

    def problem(self, line_number: int, message: str) -> None:
        # Text, because a string would be read as markup.
        self._console.print(Text(problem_line(line_number, message)))

    def close(self) -> None:
        self._progress.stop()


def problem_line(line_number: int, message: str) -> str:
    """One line, whatever the message quotes."""
    return harmless(f"line {line_number}: {' '.join(message.split())}")
