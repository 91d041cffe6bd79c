"""Fill the record with many streams, for a look at the staff pages and for measurements.

They are copies of real scripted runs, spread over the past; their wire ids begin with ``seed-``.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from generation.replay.seeding import copy_streams, record_runs

#: Seconds between two lines of progress.
PROGRESS_S = 2.0


class Command(BaseCommand):
    help = "Write many streams, copies of a few scripted runs, to see the staff pages full. Not for production."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--count", type=int, default=10_000, help="how many (10000)")
        parser.add_argument("--days", type=float, default=30.0, help="over how many days before now (30)")

    def handle(self, *, count: int, days: float, **options: Any) -> None:
        if count < 1 or not 0 < days <= 3650:
            raise CommandError(f"--count is {count} and --days {days}; they must be from 1 on, and above 0 to 3650.")
        begun_at = said_at = time.monotonic()

        def report(done: int) -> None:
            nonlocal said_at
            if time.monotonic() - said_at >= PROGRESS_S:
                said_at = time.monotonic()
                self.stdout.write(f"{done} of {count} streams written")
                self.stdout.flush()

        originals = asyncio.run(record_runs())
        copy_streams(originals, count=count, span=timedelta(days=days), until=datetime.now(UTC), report=report)
        self.stdout.write(
            f"{count} streams in {time.monotonic() - begun_at:.0f} s. The trends count them after `manage.py "
            "rebuild_trends`."
        )
