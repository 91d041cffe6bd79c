"""The server that bench/recording.py measures: ``python -m bench.recording_server PORT [--record]``.

The site as it is, with backends that stamp their pieces; without ``--record`` neither rows nor deltas are kept.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from typing import Any

import django
import uvicorn
from django.conf import settings

from bench.recording import PACED_S, pieces
from generation.backends.scripted import ScriptedBackend
from generation.output import Delta
from generation.protocol.tool_calls import ToolCallJoiner
from generation.request import GenerationRequest


class StampedBackend(ScriptedBackend):
    """Some of whose pieces say when they were made."""

    def _script(self, request: GenerationRequest, turn: int) -> Iterator[bytes]:
        return pieces()


class DroppingRecorder:
    """A recorder that keeps nothing."""

    text = ""
    delta_count = 0

    def __init__(self, stream_id: int, **origin: object) -> None:
        self.sent_times: list[float] = []
        self.tool_calls = ToolCallJoiner()

    def delta(self, delta: Delta, sent_at: float) -> None: ...

    def finish(self, end: object) -> None: ...

    def stopped(self, at: float, tokens: int | None) -> None: ...

    def tail(self, chars: int) -> str:
        return ""


def main() -> None:
    """Serve until told to end."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    django.setup()
    options: dict[str, dict[str, Any]] = {
        "default": {"model": "paced", "pieces": [], "delay_s": PACED_S},
        "flat": {"model": "flat out", "pieces": []},
    }
    settings.GENERATION_BACKENDS = {
        alias: {"BACKEND": "bench.recording_server.StampedBackend", "OPTIONS": each} for alias, each in options.items()
    }
    if not arguments.record:
        drop_records()
    uvicorn.run(
        "streamsite.asgi:application", port=arguments.port, loop="uvloop", http="httptools", log_level="warning"
    )


def drop_records() -> None:
    """Let streams open and end without a row, a batch or an end; callers' limits are looked at as ever."""
    from generation.streaming import opening

    keys = itertools.count(1)
    opening.Recorder = DroppingRecorder  # type: ignore[assignment, misc]
    opening.open_stream = lambda **row: next(keys)


if __name__ == "__main__":
    main()
