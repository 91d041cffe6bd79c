"""``manage.py prune_streams``: delete old streams, or only their text."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from generation.recording.pruning import old_streams, prune

_UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
_AGE = re.compile(r"([0-9]{1,6})([hdw])")


class Command(BaseCommand):
    help = "Delete old streams and conversations, or only their text, in small steps beside a running server."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = (
            "Run it daily, by cron or a systemd timer:\n"
            "  manage.py prune_streams --older-than 7d --text-only   # figures stay for the trends and lists\n"
            "  manage.py prune_streams --older-than 90d              # then everything goes\n"
            "Streams that still run are left alone. On SQLite the file keeps its size; its pages are used again."
        )
        parser.add_argument(
            "--older-than",
            metavar="AGE",
            help="age since the start: 12h, 30d or 8w; without it, the days of STREAMSITE_RETENTION_DAYS",
        )
        parser.add_argument(
            "--text-only",
            action="store_true",
            help="delete prompts, answers and the text of deltas; keep figures, times and digests",
        )
        parser.add_argument("--dry-run", action="store_true", help="only say how many it would be")

    def handle(self, *, older_than: str | None, text_only: bool, dry_run: bool, **options: Any) -> None:
        before = datetime.now(UTC) - _age(older_than)
        what = "the text of " if text_only else ""
        if dry_run:
            counted = prune(before, text_only=text_only, dry_run=True)
            self.stdout.write(
                f"Would delete {what}{counted.streams:,} streams and {counted.conversations:,} conversations "
                f"from before {before:%Y-%m-%d %H:%M} UTC."
            )
            return
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
            task = progress.add_task("Streams", total=old_streams(before, text_only=text_only).count())
            pruned = prune(before, text_only=text_only, report=lambda count: progress.advance(task, count))
        self.stdout.write(
            f"Deleted {what}{pruned.streams:,} streams and {pruned.conversations:,} conversations "
            f"from before {before:%Y-%m-%d %H:%M} UTC."
        )


def _age(text: str | None) -> timedelta:
    if text is None:
        if not settings.STREAMSITE_RETENTION_DAYS:
            raise CommandError("Say --older-than (as 30d), or set STREAMSITE_RETENTION_DAYS.")
        return timedelta(days=settings.STREAMSITE_RETENTION_DAYS)
    match = _AGE.fullmatch(text)
    if match is None:
        raise CommandError(f"--older-than is {text!r}; it must be a number with h, d or w: 12h, 30d, 8w.")
    return int(match[1]) * _UNITS[match[2]]
