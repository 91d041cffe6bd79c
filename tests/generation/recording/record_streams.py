"""A process that records streams, to be killed: ``record_streams.py HOW COUNT HEARTBEAT_S``.

HOW ``victims``: for each line on standard input makes COUNT processes (importing all of this takes longer than they
live), prints the pid of each, and ``gone`` once all have been killed; each opens four streams and sends deltas for
ever, each printed with its time before it is recorded. Else: opens COUNT streams and prints their keys.
HOW ``exit``: then sends three deltas each, ends all but the first, and leaves without flushing.
HOW ``until-told``: then sends a delta, waits for a line on standard input, and ends all.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from datetime import UTC, datetime

import django

django.setup()

from django.conf import settings  # noqa: E402

from generation.output import Delta, StopReason  # noqa: E402
from generation.recording import Recorder, StreamEnd, get_writer, open_stream  # noqa: E402
from generation.request import ChatMessage, GenerationRequest  # noqa: E402


def main(how: str, count: int, heartbeat_s: float) -> None:
    settings.STREAMSITE_HEARTBEAT_S = heartbeat_s
    if how == "victims":
        for _ in sys.stdin:
            make_victims(count)
        return
    recorders = open_recorders(count)
    say(*(recorder.stream_id for recorder in recorders))
    if how == "exit":
        for token in range(3):
            send(recorders, token)
        for recorder in recorders[1:]:
            recorder.finish(StreamEnd(stop_reason=StopReason.EOS, ended_at=time.monotonic()))
        return
    send(recorders, 0)
    get_writer().flush()
    say("waiting")
    sys.stdin.readline()
    for recorder in recorders:
        recorder.finish(StreamEnd(stop_reason=StopReason.EOS, ended_at=time.monotonic()))
    get_writer().flush()


def make_victims(count: int) -> None:
    """Fork while there is neither a thread nor a connection."""
    for _ in range(count):
        child = os.fork()
        if child == 0:
            recorders = open_recorders(4)
            for token in itertools.count():
                send(recorders, token)
                time.sleep(0.01)
        say("pid", child)
    for _ in range(count):
        os.wait()
    say("gone")


def open_recorders(count: int) -> list[Recorder]:
    request = GenerationRequest(model="scripted", messages=(ChatMessage(role="user", content="Count"),))
    recorders = []
    for number in range(count):
        stream_id = open_stream(
            request=request,
            wire_id=f"chatcmpl-{os.getpid()}-{number}",
            source="command",
            backend="default",
            started_at=datetime.now(UTC),
        )
        recorders.append(Recorder(stream_id, received_at=time.monotonic()))
    return recorders


def send(recorders: list[Recorder], token: int) -> None:
    for recorder in recorders:
        text = f"{token} "
        now = time.monotonic()
        say(recorder.stream_id, now, text.strip())
        recorder.delta(Delta(text=text, first_token=token, end_token=token + 1, made_at=now), now)


def say(*words: object) -> None:
    # One write call a line: what was said before SIGKILL is read in full by the parent.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
