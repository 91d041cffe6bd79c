"""Write recorded streams to a file: CSV, JSON lines, their deltas, or their requests as a corpus to replay.

The file has its name only once it is whole. Whoever has a shell here has the database, so nothing asks for permissions
and the admin's log is not written.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.dateparse import parse_date

from generation.export import Chunk, ExportFormat, chunks
from generation.models import Review, RunItem, Stream
from generation.output import StopReason
from generation.replay.failures import told_in_words
from generation.replay.progress import BarProgress, LineProgress
from generation.replay.terminal import carry_every_text


class Command(BaseCommand):
    help = "Write recorded streams to a file, newest first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="where to write; - writes to standard output")
        parser.add_argument(
            "--format",
            choices=[each.value for each in ExportFormat],
            help="csv or jsonl: a stream a line (by the file's name, else jsonl); deltas: a delta a line; messages: "
            "a request a line, which replay_corpus reads",
        )
        parser.add_argument("--figures-only", action="store_true", help="leave out what people and models wrote")
        parser.add_argument("--stream", type=int, action="append", metavar="ID", help="this stream; may be repeated")
        parser.add_argument("--run", type=int, metavar="ID", help="streams of this run of replay_corpus")
        parser.add_argument("--since", type=_day, metavar="YYYY-MM-DD", help="started on this day or later (UTC)")
        parser.add_argument("--until", type=_day, metavar="YYYY-MM-DD", help="started before this day (UTC)")
        parser.add_argument("--model", help="of this model")
        parser.add_argument("--source", choices=["api", "page", "command", "replay"])
        parser.add_argument("--state", choices=Stream.State.values)
        parser.add_argument("--stop-reason", choices=[reason.value for reason in StopReason])
        parser.add_argument("--label", help="with a review of this label")
        parser.add_argument("--limit", type=_count, metavar="N", help="only the newest N of them")
        parser.epilog = "Example: manage.py export_streams good.jsonl --format messages --label good --since 2026-03-01"

    def handle(self, *, file: str, figures_only: bool, limit: int | None, **options: Any) -> None:
        export_format = ExportFormat(options["format"] or ("csv" if file.lower().endswith(".csv") else "jsonl"))
        if figures_only and export_format is ExportFormat.MESSAGES:
            raise CommandError("--format messages holds nothing but what people wrote; leave --figures-only out.")
        with told_in_words():
            streams = _streams(options)
            total = streams.count() if limit is None else streams[:limit].count()
            lines = chunks(streams, export_format, content=not figures_only, limit=limit)
            done, written = self._carry_out(lines, file, total)
        if export_format is ExportFormat.MESSAGES:
            if written < done:
                self._tell(f"{done - written} streams left out: no words are stored, or the prompt was token ids.")
            done = written
        self._tell(f"{done} streams exported.")

    def _carry_out(self, lines: Iterator[Chunk], file: str, total: int) -> tuple[int, int]:
        """Write all lines; how many streams they are of, and how many lines."""
        # Rich draws on the bare stream: Django's wrapper would end each of its writes with a line feed.
        progress = (
            BarProgress(sys.stderr, total, doing="exporting")
            if self.stderr.isatty()
            else LineProgress(self._tell, total)
        )
        done = written = 0
        try:
            with self._sink(file) as write:
                for chunk in lines:
                    write(chunk.lines)
                    done += chunk.streams
                    written += chunk.lines.count(b"\n")
                    for _ in range(chunk.streams):
                        progress.advance()
        finally:
            progress.close()
        return done, written

    @contextlib.contextmanager
    def _sink(self, name: str) -> Iterator[Callable[[bytes], object]]:
        if name == "-":
            carry_every_text(self.stdout)
            yield lambda lines: self.stdout.write(lines.decode(), ending="")
            return
        part = Path(f"{name}.part")
        try:
            with part.open("wb") as out:
                yield out.write
            part.replace(name)
        except OSError as exc:
            raise CommandError(f"Cannot write {name}: {exc.strerror}.") from exc
        finally:
            part.unlink(missing_ok=True)

    def _tell(self, line: str) -> None:
        self.stderr.write(line, str)
        self.stderr.flush()


def _streams(options: dict[str, Any]) -> QuerySet[Stream]:
    columns = {
        "pk__in": options["stream"],
        "started_at__gte": options["since"],
        "started_at__lt": options["until"],
        "model": options["model"],
        "source": options["source"],
        "state": options["state"],
        "stop_reason": options["stop_reason"],
    }
    streams = Stream.objects.filter(**{column: value for column, value in columns.items() if value is not None})
    if options["run"] is not None:
        streams = streams.filter(Exists(RunItem.objects.filter(stream=OuterRef("pk"), run=options["run"])))
    if options["label"] is not None:
        streams = streams.filter(Exists(Review.objects.filter(stream=OuterRef("pk"), label=options["label"])))
    return streams


def _day(text: str) -> datetime:
    try:
        day = parse_date(text)
    except ValueError:
        day = None
    if day is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a day such as 2026-03-01")
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)
