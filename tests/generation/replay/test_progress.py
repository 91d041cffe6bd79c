from __future__ import annotations

import io

from generation.replay.progress import BarProgress, LineProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_line_is_written_only_every_five_seconds() -> None:
    now = 0.0
    lines: list[str] = []
    progress = LineProgress(lines.append, 4, clock=lambda: now)
    for now in (1.0, 5.0, 9.0, 10.5):  # noqa: B007  (the clock reads it)
        progress.advance()
    progress.close()
    assert lines == ["2 of 4 done", "4 of 4 done"]


def test_a_problem_is_written_at_once_and_on_one_line() -> None:
    lines: list[str] = []
    LineProgress(lines.append, 4).problem(7, "no\nsuch \x1b[2J thing")
    assert lines == ["line 7: no such \\x1b[2J thing"]


def test_the_bar_shows_problems_as_text_when_they_look_like_markup() -> None:
    out = Terminal()
    progress = BarProgress(out, 2)
    progress.problem(1, "[red]not \x1b[2J markup[/red]")
    progress.advance()
    progress.close()
    assert "line 1: [red]not \\x1b[2J markup[/red]\n" in out.getvalue()
    assert "1/2" in out.getvalue()
