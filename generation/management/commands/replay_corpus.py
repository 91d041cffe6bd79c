"""Send a file of prompts through a model, record every stream, and sum up the run.

Every stream is in the admin afterwards, tied to its run. Exit status: 1 when an item failed, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from generation.backends import Backend, backends
from generation.models import Run
from generation.protocol.completion_request import completion_request
from generation.recording import get_writer
from generation.replay.corpus import BadLine, CorpusItem, count_prompts, format_of, read_corpus
from generation.replay.failures import told_in_words
from generation.replay.interrupt import EXIT_STATUS
from generation.replay.options import add_request_options, request_fields
from generation.replay.progress import BarProgress, LineProgress
from generation.replay.readiness import make_ready
from generation.replay.runner import CorpusRunner
from generation.replay.summary import Summary, summarise

STORE_TIMEOUT_S = 30.0
MAX_NAME_CHARS = 200
MAX_CORPUS_CHARS = 500

Items = Iterator[CorpusItem | BadLine]


class Command(BaseCommand):
    help = (
        "Send each prompt of a file through a model and record every stream. A line is a prompt, or (in a .jsonl file) "
        "an object with 'prompt' or 'messages', and if you like 'id', 'temperature' and so on."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", help="the corpus; - reads it from standard input")
        add_request_options(parser)
        parser.add_argument("--concurrency", type=_count, default=1, metavar="N", help="streams at a time (1)")
        parser.add_argument("--limit", type=_count, metavar="N", help="only the first N prompts")
        parser.add_argument("--name", help="what to call the run (the file's name)")
        parser.add_argument("--json", action="store_true", dest="as_json", help="print the summary as a JSON object")
        parser.epilog = (
            "Example: manage.py replay_corpus prompts.jsonl --concurrency 4 --max-tokens 100 --temperature 0"
        )

    def handle(
        self, *, file: str, concurrency: int, limit: int | None, name: str | None, as_json: bool, **options: Any
    ) -> None:
        with told_in_words():
            if concurrency > settings.STREAMSITE_MAX_STREAMS:
                raise CommandError(f"--concurrency may be at most {settings.STREAMSITE_MAX_STREAMS}.")
            lines = _read_lines(file)
            total = min(count_prompts(lines), limit or sys.maxsize)
            if total == 0:
                raise CommandError(f"{file} holds no prompts. Write one on each line.")
            fields = request_fields(options)
            backend = backends.resolve(fields["model"])
            _check_fields(fields, backend)
            make_ready(backend, self._tell)
            run = _open_run(fields, backend, corpus=file, name=name)
            summary, complete = self._carry_out(
                run, islice(read_corpus(lines, fields, format_of(file)), limit), concurrency=concurrency, total=total
            )
            self.stdout.write(json.dumps(summary.as_json()) if as_json else summary.as_table())
        if not complete:
            sys.exit(EXIT_STATUS)
        if summary.failed:
            raise CommandError(f"{summary.failed} of {summary.items} prompts failed; the lines above say why.")

    def _carry_out(self, run: Run, items: Items, *, concurrency: int, total: int) -> tuple[Summary, bool]:
        # Rich draws on the bare stream: Django's wrapper would end each of its writes with a line feed.
        progress = BarProgress(sys.stderr, total) if self.stderr.isatty() else LineProgress(self._tell, total)
        began_at = time.monotonic()
        try:
            complete = asyncio.run(CorpusRunner(run, items, concurrency=concurrency, progress=progress).run())
        finally:
            progress.close()
        duration_s = time.monotonic() - began_at
        run.ended_at = timezone.now()
        run.save(update_fields=["ended_at"])
        if not get_writer().flush(STORE_TIMEOUT_S):
            self._tell("The database is slow: streams that are not stored yet are missing from these figures.")
        return summarise(run, duration_s=duration_s), complete

    def _tell(self, line: str) -> None:
        self.stderr.write(line, str)
        self.stderr.flush()


def _read_lines(name: str) -> list[bytes]:
    if name == "-":
        return sys.stdin.buffer.readlines()
    try:
        with Path(name).open("rb") as file:
            return file.readlines()
    except OSError as exc:
        raise CommandError(f"Cannot read {name}: {exc.strerror}.") from exc


def _check_fields(fields: dict[str, Any], backend: Backend) -> None:
    """Raise for options that every single prompt would fail with."""
    probe = completion_request({**fields, "messages": [{"role": "user", "content": "?"}]})
    backend.refuse_unsupported(probe.generation)


def _open_run(fields: dict[str, Any], backend: Backend, *, corpus: str, name: str | None) -> Run:
    models = [card.id for card in backend.models()]
    return Run.objects.create(
        name=(name or Path(corpus).name)[:MAX_NAME_CHARS],
        corpus=corpus[:MAX_CORPUS_CHARS],
        model=fields["model"] if fields["model"] in models else models[0],
        parameters={field: value for field, value in fields.items() if field != "model"},
    )


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1")
    return int(text)
