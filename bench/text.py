"""Measure the text pipeline beside its peers, in turns, in seconds of processor time (best turn of each).

Run `.venv/bin/python -m bench.text [--tokenizer FILE]`; the bundled model's tokenizer is the default. Prints tokens
per second, how many times longer than our detokenizer each peer takes, and whether the goals are met.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream
from transformers import PreTrainedTokenizerFast, TextIteratorStreamer

from generation.engine.model_files import BUNDLED_FOLDER, models_folder
from generation.text import TextPipeline, Vocabulary
from generation.text.stop_strings import StopMatcher
from streamsite.env import BASE_DIR

#: Some peers are quadratic: more tokens would take minutes.
TOKENS = 2000
LONG, SHORT = 8192, 128
SLOW_S = 0.1
ROUNDS = 7
TEXTS = {
    "English": "The chai is ready, and the long letter that I promised you is not. Ask me again tomorrow. ",
    "Hindi": "आपका चाय ☕ तैयार है, और जो लंबी चिट्ठी मैंने आपको लिखने का वादा किया था वह नहीं। कल फिर पूछिए। ",
    "Japanese": "お茶の用意ができました。約束した長い手紙はまだです。明日もう一度聞いてください。",
}
STOPS = ("</answer>", "\n\nHuman:", "<|im_end|>", "###")

Peer = Callable[[Sequence[int]], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What was to be reached, and what was measured."""

    name: str
    wanted: str
    got: str
    met: bool


def main() -> int:
    """Measure and print; exit status 1 when a goal is missed."""
    parser = argparse.ArgumentParser(description="Measure the text pipeline beside its peers.")
    bundled = models_folder(BASE_DIR / "var") / BUNDLED_FOLDER / "tokenizer.json"
    parser.add_argument("--tokenizer", type=Path, default=bundled)
    path = parser.parse_args().tokenizer
    vocabulary = Vocabulary(Tokenizer.from_file(str(path)))
    print(f"{path}: {len(vocabulary.tokens)} tokens, tier {vocabulary.tier}\n")
    goals = [*compare(vocabulary), length(vocabulary), stops(vocabulary)]
    print()
    for goal in goals:
        print(f"{'met   ' if goal.met else 'MISSED'}  {goal.name}: {goal.got} (to reach: {goal.wanted})")
    return 0 if all(goal.met for goal in goals) else 1


def compare(vocabulary: Vocabulary) -> list[Goal]:
    """Tokens per second on clean text and on floods: ours, and each peer."""
    encode = vocabulary.tokenizer.encode
    work = {name: _repeated(encode(text * 200, add_special_tokens=False).ids) for name, text in TEXTS.items()}
    clean = list(work)
    work |= {
        "flood of U+FFFD": _repeated(encode("\ufffd", add_special_tokens=False).ids),
        "flood of half characters": _repeated(encode("☕", add_special_tokens=False).ids[:1]),
        "flood of skipped specials": _repeated(list(vocabulary.special)[:1]),
        "flood of unknown ids": _repeated([len(vocabulary.tokens)]),
    }
    peers: dict[str, Peer] = {
        "ours: text": lambda ids: detokenize(vocabulary, ids),
        "ours: deltas": lambda ids: stream(vocabulary, ids),
        "DecodeStream": lambda ids: decode_stream(vocabulary, ids),
        "TextIteratorStreamer": text_iterator_streamer(vocabulary),
        "whole prefix": lambda ids: whole_prefix(vocabulary, ids),
    }
    print(f"{'tokens per second':<26}" + "".join(f"{name:>22}" for name in peers))
    goals = []
    for name, ids in work.items():
        seconds = best_of(ROUNDS, {peer: partial(run, ids) for peer, run in peers.items()})
        ours = seconds["ours: text"]
        cells = (f"{len(ids) / took:,.0f} ({took / ours:,.1f}x)" for took in seconds.values())
        print(f"{name:<26}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
        wanted = 2 if name in clean else 20
        ratio = seconds["DecodeStream"] / ours
        goals.append(
            Goal(
                name=f"faster than DecodeStream, {name}", wanted=f"{wanted}x", got=f"{ratio:.1f}x", met=ratio >= wanted
            )
        )
    return goals


def length(vocabulary: Vocabulary) -> Goal:
    """The cost per token of a long stream beside that of as many tokens in short ones."""
    ids = _repeated(vocabulary.tokenizer.encode(TEXTS["Hindi"] * 400, add_special_tokens=False).ids, LONG)
    parts = [ids[start : start + SHORT] for start in range(0, LONG, SHORT)]
    seconds = best_of(
        3 * ROUNDS,
        {"long": lambda: stream(vocabulary, ids), "short": lambda: [stream(vocabulary, part) for part in parts]},
    )
    change = seconds["long"] / seconds["short"] - 1
    print(f"\n{LONG} tokens in one stream take {change:+.1%} of the time of {LONG // SHORT} streams of {SHORT}")
    return Goal(name="cost does not grow with length", wanted="within 10 %", got=f"{change:+.1%}", met=change <= 0.1)


def stops(vocabulary: Vocabulary) -> Goal:
    """Our matcher beside `str.find` on the tail, which holds nothing back and so shows half of a stop string."""
    text = TEXTS["English"].replace("letter", "<letter>") * 200
    ids = _repeated(vocabulary.tokenizer.encode(text, add_special_tokens=False).ids)
    detokenizer = vocabulary.detokenizer()
    pieces = [detokenizer.push(token_id) for token_id in ids]
    seconds = best_of(ROUNDS, {"ours": lambda: match(pieces), "str.find": lambda: find_in_tail(pieces)})
    per_piece = {name: took / len(pieces) * 1e6 for name, took in seconds.items()}
    print(f"\n{len(STOPS)} stop strings, µs per piece: " + ", ".join(f"{n} {us:.2f}" for n, us in per_piece.items()))
    ratio = seconds["str.find"] / seconds["ours"]
    return Goal(name="stop matcher beside str.find", wanted="1x", got=f"{ratio:.1f}x", met=ratio >= 1)


def detokenize(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    """What the peers do too: an id in, its text out."""
    detokenizer = vocabulary.detokenizer()
    push = detokenizer.push
    return "".join([push(token_id) for token_id in ids]) + detokenizer.flush()


def stream(vocabulary: Vocabulary, ids: Sequence[int]) -> int:
    """All of it: a delta object for each id, with ranges, times and holds."""
    pipeline = TextPipeline(vocabulary)
    return sum(len(pipeline.push(token_id, 0.0)) for token_id in ids) + len(pipeline.flush())


def decode_stream(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    decoder = DecodeStream(skip_special_tokens=True)
    tokenizer = vocabulary.tokenizer
    # It raises on byte-fallback input that it cannot follow; then it has lost the rest.
    shown = []
    for token_id in ids:
        with contextlib.suppress(Exception):
            shown.append(decoder.step(tokenizer, token_id) or "")
    return "".join(shown)


def text_iterator_streamer(vocabulary: Vocabulary) -> Peer:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=vocabulary.tokenizer)

    def run(ids: Sequence[int]) -> str:
        streamer = TextIteratorStreamer(tokenizer, skip_special_tokens=True)
        for token_id in ids:
            streamer.put(np.array([token_id]))
        streamer.end()
        return "".join(streamer)

    return run


def whole_prefix(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    """Decode everything so far for each id, and show what is new."""
    tokenizer = vocabulary.tokenizer
    shown = ""
    for count in range(1, len(ids) + 1):
        text = tokenizer.decode(ids[:count])
        shown += text[len(shown) :] if not text.endswith("\ufffd") else ""
    return shown


def match(pieces: Sequence[str]) -> str:
    matcher = StopMatcher(STOPS)
    return "".join([matcher.push(piece) for piece in pieces]) + matcher.flush()


def find_in_tail(pieces: Sequence[str]) -> str:
    longest = max(map(len, STOPS))
    text = ""
    for piece in pieces:
        tail = max(0, len(text) - longest)
        text += piece
        for stop in STOPS:
            found = text.find(stop, tail)
            if found >= 0:
                return text[:found]
    return text


def best_of(rounds: int, runs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """The shortest time of each run on a processor, all run in turns; a slow one gets one turn."""
    best = dict.fromkeys(runs, float("inf"))
    for turn in range(rounds):
        for name, run in runs.items():
            if turn and best[name] > SLOW_S:
                continue
            start = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - start)
    return best


def _repeated(ids: Sequence[int], count: int = TOKENS) -> list[int]:
    return list(islice(cycle(ids), count))


if __name__ == "__main__":
    sys.exit(main())
