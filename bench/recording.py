"""Measure what the record costs: two servers side by side, one that records and one whose recorder drops everything.

Run `.venv/bin/python -m bench.recording [--rounds N]`. In turns, each server answers 200 streams over real sockets, at
20 deltas a second each and as fast as it can, set up as in production, for an API key without limits. Streams have 300
deltas, as a chat's answers have 200 to 600: a row and its end cost the same for each length. They begin within a
second: of 200 that begin at the same moment, all frames are made in the same moments ever after, which is cheap, unless
rows to be written set them apart.

Prints processor time per frame and per stream and the delay of frames from the model to the client, checks that no
frame is lost, doubled or out of order, there and in the record, and whether goals are met.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.streams import TEXT
from streamsite.env import BASE_DIR

STREAMS = 200
#: Of an answer; as many different ones as people write in so many words.
WORDS = [word + ending for ending in ("", "s", "ed", "ing") for word in TEXT.split()]
DELTAS = 300
PACED_S = 0.05
BEGIN_WITHIN_S = 1.0
#: Of so many pieces one says when it was made; the others are words.
STAMPED = 10
MOST_CPU = 0.05
LONGEST_P99_S = 0.25
ROUNDS = 5
#: Bytes that the answer's frame has around the piece; the client looks for the piece only.
CONTENT = b'"content":"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of all streams on one server: per frame, the server's CPU time and the delays that clients saw."""

    cpu_s: float
    p50_s: float
    p99_s: float
    wrong: int


class Server:
    """A uvicorn with a database of its own, in a process whose CPU time can be read."""

    def __init__(self, folder: Path, *, records: bool) -> None:
        self.database = folder / f"{'on' if records else 'off'}.sqlite3"
        self.port = _free_port()
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "streamsite.settings",
            "DATABASE_URL": f"sqlite:///{self.database}",
            "STREAMSITE_VAR": str(folder),
            # As in production: Django's debug mode puts every statement together once more, for its log.
            "STREAMSITE_DEBUG": "0",
            "STREAMSITE_KEY_MAX_STREAMS": "0",
            "STREAMSITE_KEY_REQUESTS_PER_MINUTE": "0",
            "STREAMSITE_KEY_TOKENS_PER_DAY": "0",
            "STREAMSITE_LOG_LEVEL": "WARNING",
            "DJANGO_SUPERUSER_PASSWORD": "bench",
        }

        def manage(*arguments: str) -> str:
            command = [sys.executable, "manage.py", *arguments]
            done = subprocess.run(command, cwd=BASE_DIR, env=environment, check=True, capture_output=True, text=True)
            return done.stdout.strip()

        manage("migrate", "--verbosity", "0")
        manage("createsuperuser", "--noinput", "--username", "bench", "--email", "bench@localhost")
        self.key = manage("create_api_key", "--user", "bench", "--name", "bench")
        serve = [sys.executable, "-m", "bench.recording_server", str(self.port), *(["--record"] if records else [])]
        self.process = subprocess.Popen(serve, cwd=BASE_DIR, env=environment)

    def wait(self) -> None:
        for _ in range(600):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz"):
                return
            time.sleep(0.05)
        raise TimeoutError("the server does not answer")

    def cpu_s(self) -> float:
        user, system = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)


def main() -> int:
    """Measure and print; exit status 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description="Measure what the record of streams costs.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    runs: dict[tuple[str, str], list[Run]] = {}
    for turn in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="streamsite-bench-") as name:
            measure(Path(name), runs, turn)
    print()
    return report(runs)


def measure(folder: Path, runs: dict[tuple[str, str], list[Run]], turn: int) -> None:
    """A round of all runs, by load and server.

    Each round has servers of its own: of two that are the same, one can be a tenth slower for as long as it lives.
    """
    servers = {"on": Server(folder, records=True), "off": Server(folder, records=False)}
    try:
        for server in servers.values():
            server.wait()
        # The first answers of a server are slower and do not count.
        for counts, load in ((False, "flat out"), (True, "paced"), (True, "flat out")):
            # Each goes first in every other round.
            for name, server in sorted(servers.items(), reverse=bool(turn % 2)):
                run = asyncio.run(answer_all(server, load, recorded=name == "on"))
                if counts:
                    runs.setdefault((load, name), []).append(run)
                    print(".", end="", flush=True)
    finally:
        for server in servers.values():
            server.close()


def report(runs: dict[tuple[str, str], list[Run]]) -> int:
    """Print the table and the goals; the medians of all rounds count, and every wrong frame. Returns 1 for a miss."""
    print(f"\n{'':<10}{'record':<8}{'CPU/frame':>12}{'CPU/stream':>12}{'delay p50':>12}{'delay p99':>12}{'wrong':>8}")
    for (load, name), all_runs in runs.items():
        cpu_s, p50_s, p99_s = (median(all_runs, figure) for figure in ("cpu_s", "p50_s", "p99_s"))
        wrong = sum(run.wrong for run in all_runs)
        cpu = f"{cpu_s * 1e6:>9.1f} µs{cpu_s * DELTAS * 1e3:>9.1f} ms"
        print(f"{load:<10}{name:<8}{cpu}{p50_s * 1e3:>9.1f} ms{p99_s * 1e3:>9.1f} ms{wrong:>8}")
    print()
    goals = []
    for load in ("paced", "flat out"):
        on, off = runs[load, "on"], runs[load, "off"]
        # Of neighbours in time, so that what else the machine does falls on both.
        more = statistics.median(one.cpu_s / other.cpu_s - 1 for one, other in zip(on, off, strict=True))
        more_s = statistics.median(one.cpu_s - other.cpu_s for one, other in zip(on, off, strict=True))
        got = f"{more:+.1%}, {more_s * 1e6:.1f} µs, {more_s * DELTAS * 1e3:.1f} ms per stream"
        goals.append((f"CPU per frame, {load}", got, f"at most {MOST_CPU:+.0%}", more <= MOST_CPU))
        wrong = sum(run.wrong for run in on)
        goals.append((f"frames lost, doubled or out of order, {load}", str(wrong), "0", wrong == 0))
    p99_s = median(runs["paced", "on"], "p99_s")
    goals.append(("delay p99, paced", f"{p99_s * 1e3:.1f} ms", f"{LONGEST_P99_S * 1e3:.0f} ms", p99_s <= LONGEST_P99_S))
    for what, got, wanted, met in goals:
        print(f"{'met   ' if met else 'MISSED'}  {what}: {got} (to reach: {wanted})")
    return 0 if all(met for *_, met in goals) else 1


def median(runs: list[Run], figure: str) -> float:
    return statistics.median(getattr(run, figure) for run in runs)


async def answer_all(server: Server, load: str, *, recorded: bool) -> Run:
    """Read all streams at once; CPU time is taken until the last record is written."""
    before_s = server.cpu_s()
    delays: list[float] = []
    begins = random.Random(0)
    results = await asyncio.gather(
        *(read_stream(server, load, delays, after_s=begins.uniform(0, BEGIN_WITHIN_S)) for _ in range(STREAMS))
    )
    wrong = sum(result.wrong for result in results)
    if recorded:
        wrong += await asyncio.to_thread(wrong_in_record, server.database, results)
    cpu_s = server.cpu_s() - before_s
    delays.sort()
    return Run(
        cpu_s=cpu_s / (STREAMS * DELTAS),
        p50_s=delays[len(delays) // 2],
        p99_s=delays[len(delays) * 99 // 100],
        wrong=wrong,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What one client got: its stream's id, its text, and how many deltas were not those in their place."""

    wire_id: str
    text: str
    wrong: int


async def read_stream(server: Server, load: str, delays: list[float], *, after_s: float) -> Read:
    """Read one stream from a raw socket, whose pieces are those of `pieces`."""
    await asyncio.sleep(after_s)
    body = json.dumps({"model": load, "stream": True, "messages": [{"role": "user", "content": "Go"}]}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    head += f"Authorization: Bearer {server.key}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    headers = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    if " 200 " not in headers.partition("\r\n")[0]:
        raise RuntimeError(f"the server answered {headers.partition(chr(13))[0]}")
    got: list[str] = []
    with contextlib.closing(writer):
        while (line := await reader.readline()) != b"data: [DONE]\n":
            if not line:
                raise RuntimeError("a stream ended without [DONE]")
            if CONTENT in line and (piece := line.partition(CONTENT)[2].partition(b'"')[0].decode()):
                if len(got) % STAMPED == 0 and piece.isdigit():
                    delays.append((time.monotonic_ns() - int(piece)) / 1e9)
                got.append(piece)
    wrong = sum(
        (not piece.isdigit()) if place % STAMPED == 0 else piece != word(place) for place, piece in enumerate(got)
    )
    wire_id = headers.partition("x-request-id: ")[2].partition("\r")[0]
    return Read(wire_id=wire_id, text="".join(got), wrong=wrong + abs(DELTAS - len(got)))


def pieces() -> Iterator[bytes]:
    """The pieces of an answer: words, and among them the nanosecond in which one was made."""
    for place in range(DELTAS):
        yield b"%d" % time.monotonic_ns() if place % STAMPED == 0 else word(place).encode()


def word(place: int) -> str:
    """The word in this place of each answer."""
    return f" {WORDS[place % len(WORDS)]}"


def wrong_in_record(path: Path, results: list[Read]) -> int:
    """Wait until all streams have ended in the database; how many texts or logs there differ from what was read."""
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as database:
        for _ in range(1000):
            if not database.execute("SELECT count(*) FROM generation_stream WHERE state = 'running'").fetchone()[0]:
                break
            time.sleep(0.02)
        wrong = 0
        for result in results:
            sql = "SELECT id, text, log_incomplete FROM generation_stream WHERE wire_id = ?"
            stream_id, text, incomplete = database.execute(sql, [result.wire_id]).fetchone()
            sql = "SELECT deltas FROM generation_deltabatch WHERE stream_id = ? ORDER BY first_seq"
            log = "".join("".join(json.loads(deltas)["text"]) for (deltas,) in database.execute(sql, [stream_id]))
            wrong += (text, log, incomplete) != (result.text, result.text, 0)
    return wrong


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())
