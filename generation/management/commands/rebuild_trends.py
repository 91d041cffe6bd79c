"""Count the hours of the trends anew from the streams, while the server goes on.

For streams that were written before there were trends, or by something other than the recorder. Hours of which
streams have been deleted keep what they counted, unless ``--exact``.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.utils.dateparse import parse_date

from generation.recording.trends import rebuild

#: Seconds between two lines of progress.
PROGRESS_S = 2.0


class Command(BaseCommand):
    help = "Count the hours of the trends page anew from the recorded streams."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--since", type=_day, metavar="YYYY-MM-DD", help="only hours from this day on (UTC)")
        parser.add_argument(
            "--exact", action="store_true", help="also hours that count more streams than are left (deleted ones)"
        )

    def handle(self, *, since: datetime | None, exact: bool, **options: Any) -> None:
        said_at = time.monotonic()

        def report(hour: datetime) -> None:
            nonlocal said_at
            if time.monotonic() - said_at >= PROGRESS_S:
                said_at = time.monotonic()
                self.stdout.write(f"  {hour:%Y-%m-%d %H:00}")
                self.stdout.flush()

        hours, kept = rebuild(since=since, exact=exact, report=report)
        self.stdout.write(
            f"{hours} hours counted." + (f" {kept} rows kept: they count deleted streams." if kept else "")
        )


def _day(text: str) -> datetime:
    day = parse_date(text)
    if day is None:
        raise ValueError(text)
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
