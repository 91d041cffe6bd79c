"""Measure Streamsite beside its peers over HTTP: tokens a second and time to first token at 1, 4, 8 and 16 streams.

Run `.venv/bin/python -m bench.engines [--json FILE]`. All servers run at once and are asked in turns, so that what else
the machine does meets all of them; compare the ratios of medians. The bare engine runs in this process, on the same
prompts: what it is faster by is what HTTP, the text pipeline and the record cost.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from django.conf import settings

from bench.servers import OURS, OURS_OPENVINO, Server, launches, make_environment, running
from bench.streams import Messages, ask_all, question
from generation.backends.chat_prompt import ChatPrompt
from generation.engine.model_config import read_model_config
from generation.engine.model_fetch import prepare_model
from generation.engine.openvino_model import find_openvino_model
from generation.engine.sequence import Sequence
from generation.engine.token_queue import TokenReader
from generation.engine.torch_engine import TorchEngine
from generation.engine.torch_model import load_runner
from generation.engine.weights import Weights
from generation.request import ChatMessage, SamplingParams
from streamsite.env import BASE_DIR

BARE = "bare engine"
BARE_OPENVINO = "bare openvino_genai"
STREAMS = (1, 4, 8, 16)
CONTEXT_LENGTH = 2048
#: What a chat template and the question around the filler add to a prompt, about.
FRAME_TOKENS = 45


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One turn of one contestant."""

    contestant: str
    prompt_tokens: int
    streams: int
    tokens: int
    tokens_per_s: float
    ttft_s: float


#: Asks for several chats at once: (tokens of all answers, seconds until all had ended, each one's time to first token).
Contestant = Callable[[list[Messages], int], Awaitable[tuple[int, float, list[float]]]]


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description="Measure Streamsite beside its peers over HTTP.")
    parser.add_argument("--streams", type=int, nargs="+", default=STREAMS)
    parser.add_argument("--prompts", type=int, nargs="+", default=(20, 500), help="tokens of the prompts, about")
    parser.add_argument("--tokens", type=int, default=32, help="tokens of each answer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit-s", type=float, default=300, help="no new round begins after so many seconds")
    parser.add_argument("--threads", type=int, default=min(len(os.sched_getaffinity(0)), 8))
    parser.add_argument("--only", nargs="+", default=[], help="names of servers; all that are installed unless given")
    parser.add_argument("--no-bare", action="store_true", help="leave the bare engine out")
    parser.add_argument("--memory", action="store_true", help="at the end fill 16 streams of 2,048 tokens of ours")
    parser.add_argument("--json", type=Path, help="file for the readings")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.settings")
    make_environment()
    folder = prepare_model(os.environ.get("STREAMSITE_MODEL", ""), BASE_DIR / "var")
    with (
        tempfile.TemporaryDirectory(prefix="streamsite-bench-") as var,
        running(launches(folder, Path(var), options.only, options.threads)) as servers,
    ):
        asyncio.run(_measure(options, folder, servers))
    return 0


async def _measure(options: argparse.Namespace, folder: Path, servers: list[Server]) -> None:
    prompt = ChatPrompt(folder)
    contestants: dict[str, Contestant] = {server.name: _Http(server, prompt) for server in servers}
    most = {server.name: server.most_streams for server in servers}
    engine = None
    if not options.no_bare:
        engine = _bare_engine(options, folder)
        end_ids = read_model_config(folder).end_ids
        contestants[BARE], most[BARE] = _Bare(engine, prompt, end_ids), max(STREAMS)
        if any(server.name == OURS_OPENVINO for server in servers):
            contestants[BARE_OPENVINO], most[BARE_OPENVINO] = _bare_openvino(options, prompt, end_ids), max(STREAMS)
    for name, contestant in contestants.items():
        await contestant([question(i, 5) for i in range(min(4, most[name]))], 4)
    readings = await _turns(contestants, most, options)
    second_turns = {server.name: await _second_turn(server, options) for server in servers}
    resident_bytes = {server.name: server.resident_bytes for server in servers}
    if options.memory:
        ours = next(server for server in servers if server.name == OURS)
        await ask_all(ours.base_url, ours.model, [question(900_000 + i, 1850) for i in range(16)], 150)
        resident_bytes[f"{OURS}, 16 streams of 2,048 tokens"] = ours.resident_bytes
    if engine is not None:
        engine.close()
    result = {
        "options": {name: value for name, value in vars(options).items() if name != "json"},
        "medians": _medians(readings),
        "second_turn": second_turns,
        "resident_bytes": resident_bytes,
        "readings": [asdict(reading) for reading in readings],
    }
    _report(result)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1, default=str) + "\n", encoding="utf-8")


class _Http:
    """A server's streams; tokens are counted in the texts, with the model's own tokenizer."""

    def __init__(self, server: Server, prompt: ChatPrompt) -> None:
        self._server, self._prompt = server, prompt

    async def __call__(self, chats: list[Messages], tokens: int) -> tuple[int, float, list[float]]:
        batch = await ask_all(self._server.base_url, self._server.model, chats, tokens)
        texts = [answer.text for answer in batch.answers]
        count = sum(len(encoding.ids) for encoding in self._prompt.tokenizer.encode_batch(texts))
        return count, batch.took_s, batch.ttfts_s


class _Bare:
    """Our engine by itself: token ids in and out, no text, no HTTP, no record."""

    def __init__(self, engine: TorchEngine, prompt: ChatPrompt, end_ids: frozenset[int]) -> None:
        self._engine, self._prompt, self._end_ids = engine, prompt, end_ids

    async def __call__(self, chats: list[Messages], tokens: int) -> tuple[int, float, list[float]]:
        prompts = [self._prompt.encode(ChatMessage(**message) for message in chat) for chat in chats]
        began = time.monotonic()
        done = await asyncio.gather(*(self._generate(ids, tokens) for ids in prompts))
        took_s = time.monotonic() - began
        return sum(count for count, _ in done), took_s, [first_at - began for _, first_at in done]

    async def _generate(self, prompt_ids: list[int], tokens: int) -> tuple[int, float]:
        sampling = SamplingParams(max_tokens=tokens, temperature=0.0)
        sequence = Sequence(prompt_ids=prompt_ids, sampling=sampling, end_ids=self._end_ids, reader=TokenReader())
        self._engine.submit(sequence)
        first_at = (await sequence.reader.read())[0].made_at
        while sequence.stop_reason is None:
            await sequence.reader.read()
        if sequence.error is not None:
            raise sequence.error
        return len(sequence.token_ids), first_at


def _bare_engine(options: argparse.Namespace, folder: Path) -> TorchEngine:
    engine = TorchEngine(
        lambda: load_runner(
            folder,
            context_length=CONTEXT_LENGTH,
            max_sequences=max(STREAMS),
            kv_tokens=max(STREAMS) * CONTEXT_LENGTH,
            weights=Weights(settings.STREAMSITE_WEIGHTS),
            device="cpu",
            threads=options.threads,
        ),
        max_sequences=max(STREAMS),
    )
    engine.start()
    return engine


def _bare_openvino(options: argparse.Namespace, prompt: ChatPrompt, end_ids: frozenset[int]) -> Contestant:
    from bench.bare_openvino import BareOpenvino  # not installed everywhere

    model = find_openvino_model(os.environ.get("STREAMSITE_MODEL", ""), BASE_DIR / "var")
    kv_tokens = max(STREAMS) * CONTEXT_LENGTH
    return BareOpenvino(model, prompt, end_ids, streams=max(STREAMS), kv_tokens=kv_tokens, threads=options.threads)


async def _turns(
    contestants: dict[str, Contestant], most: dict[str, int], options: argparse.Namespace
) -> list[Reading]:
    readings = []
    numbers = itertools.count(1000)
    began = time.monotonic()
    for number in range(options.rounds):
        if time.monotonic() - began > options.limit_s:
            print(f"Only {number} rounds were made: the time is over.")
            break
        for prompt_tokens, streams in itertools.product(options.prompts, options.streams):
            words = max(prompt_tokens - FRAME_TOKENS, 2)
            # Nobody knows a prompt from before, and all get the same ones: of others the answers may end earlier.
            chats = [question(next(numbers), words) for _ in range(streams)]
            for name, contestant in contestants.items():
                if streams > most[name]:
                    continue
                tokens, took_s, ttfts_s = await contestant(chats, options.tokens)
                readings.append(
                    Reading(
                        contestant=name,
                        prompt_tokens=prompt_tokens,
                        streams=streams,
                        tokens=tokens,
                        tokens_per_s=tokens / took_s,
                        ttft_s=statistics.median(ttfts_s),
                    )
                )
                print(".", end="", flush=True)
    print()
    return readings


async def _second_turn(server: Server, options: argparse.Namespace) -> dict[str, float]:
    """Seconds to the first token of a 500-token chat that nobody knows, and of its next turn."""
    first, second = [], []
    for number in range(options.rounds):
        chat = question(500_000 + number, 500 - FRAME_TOKENS)
        opening = await ask_all(server.base_url, server.model, [chat], 8)
        chat = [*chat, {"role": "assistant", "content": opening.answers[0].text}]
        chat.append({"role": "user", "content": "And what happened then?"})
        first += opening.ttfts_s
        second += (await ask_all(server.base_url, server.model, [chat], 8)).ttfts_s
    return {"first_ttft_s": statistics.median(first), "second_ttft_s": statistics.median(second)}


def _medians(readings: list[Reading]) -> list[dict[str, Any]]:
    """One row for each contestant and load, with how many times as fast we are."""
    groups: dict[tuple[int, int, str], list[Reading]] = defaultdict(list)
    for reading in readings:
        groups[reading.prompt_tokens, reading.streams, reading.contestant].append(reading)
    speeds = {key: statistics.median(reading.tokens_per_s for reading in group) for key, group in groups.items()}
    rows: list[dict[str, Any]] = []
    for (prompt_tokens, streams, name), group in groups.items():
        ours = speeds.get((prompt_tokens, streams, OURS_OPENVINO if name == BARE_OPENVINO else OURS))
        rows.append(
            {
                "prompt_tokens": prompt_tokens,
                "streams": streams,
                "contestant": name,
                "tokens_per_s": speeds[prompt_tokens, streams, name],
                "ttft_s": statistics.median(reading.ttft_s for reading in group),
                "ours_is_times_as_fast": ours and ours / speeds[prompt_tokens, streams, name],
            }
        )
    return sorted(rows, key=lambda row: (row["prompt_tokens"], row["streams"]))


def _report(result: dict[str, Any]) -> None:
    print("| prompt | streams | | tokens/s | first token, ms | streamsite's tokens/s to it |")
    print("|---|---|---|---|---|---|")
    for row in result["medians"]:
        ratio = row["ours_is_times_as_fast"]
        print(
            f"| {row['prompt_tokens']} | {row['streams']} | {row['contestant']} | {row['tokens_per_s']:.0f} "
            f"| {1000 * row['ttft_s']:.0f} | {'' if ratio is None else f'{ratio:.2f}'} |"
        )
    for name, turn in result["second_turn"].items():
        first, second = turn["first_ttft_s"], turn["second_ttft_s"]
        print(
            f"{name}: first token of 500 {1000 * first:.0f} ms, of the next turn {1000 * second:.0f} ms: "
            f"{first / second:.1f} times as fast"
        )
    for name, resident in result["resident_bytes"].items():
        print(f"{name}: {resident / 1e6:.0f} MB resident")


if __name__ == "__main__":
    sys.exit(main())
