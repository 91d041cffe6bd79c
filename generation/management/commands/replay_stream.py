"""Play a stored stream again, at its own pace: its text, or with ``--json`` the frames that its client got."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q

from generation.models import Stream
from generation.replay.ending import ending_line
from generation.replay.failures import told_in_words
from generation.replay.pacing import paced
from generation.replay.stored_frames import stored_deltas, stored_frames
from generation.replay.terminal import carry_every_text, harmless

SLOWEST, FASTEST = 0.25, 100.0
LARGEST_KEY = 2**63 - 1


class Command(BaseCommand):
    help = "Print a recorded stream again, with the timing it had."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("stream", help="number or wire id (chatcmpl-…) of the stream")
        parser.add_argument("--speed", type=_speed, default=1.0, metavar="X", help="so many times as fast, 0.25 to 100")
        parser.add_argument("--no-wait", action="store_true", help="print everything at once")
        parser.add_argument("--json", action="store_true", dest="as_frames", help="print the frames of the API")
        parser.add_argument(
            "--no-usage", action="store_true", help="leave the tokens out, also where the client asked for them"
        )
        parser.epilog = "Example: manage.py replay_stream 12 --speed 2"

    def handle(
        self, *, stream: str, speed: float, no_wait: bool, as_frames: bool, no_usage: bool, **options: Any
    ) -> None:
        carry_every_text(self.stdout)
        with told_in_words():
            record = find_stream(stream)
            timed = (
                _timed_frames(record, include_usage=False if no_usage else None) if as_frames else stored_deltas(record)
            )
            for piece in (piece for _, piece in timed) if no_wait else paced(timed, speed=speed):
                self._show(piece)
            if self.stdout.isatty() and not as_frames:
                self._show("\n")
            self._tell_ending(record)

    def _show(self, text: str) -> None:
        self.stdout.write(harmless(text) if self.stdout.isatty() else text, ending="")
        self.stdout.flush()

    def _tell_ending(self, record: Stream) -> None:
        if record.log_incomplete:
            self._tell("Some deltas of this stream were not stored; the admin shows its whole text.")
        if record.error:
            self._tell(f"failed: {record.error}")
        self._tell(ending_line(record))

    def _tell(self, line: str) -> None:
        self.stderr.write(harmless(line), str)


def find_stream(key: str) -> Stream:
    """The stream of this number or wire id. Raises CommandError, with the newest ones, when there is none."""
    found = Q(wire_id=key)
    if key.isascii() and key.isdecimal() and int(key) <= LARGEST_KEY:
        found |= Q(pk=int(key))
    stream = Stream.objects.filter(found).order_by("choice", "-pk").first()
    if stream is not None:
        return stream
    newest = [str(pk) for pk in Stream.objects.values_list("pk", flat=True)[:3]]
    if not newest:
        raise CommandError('No stream is recorded yet. Make one: manage.py generate "What is tea?"')
    raise CommandError(
        f"There is no stream {key!r}. The newest are {', '.join(newest)}; the admin lists all under "
        "/admin/generation/stream/."
    )


def _timed_frames(record: Stream, *, include_usage: bool | None) -> Iterator[tuple[float, str]]:
    return ((at_s, frame.decode("ascii")) for at_s, frame in stored_frames(record, include_usage=include_usage))


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not SLOWEST <= speed <= FASTEST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {SLOWEST:g} to {FASTEST:g}")
    return speed
