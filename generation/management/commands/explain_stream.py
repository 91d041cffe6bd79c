"""Show how a text streams: step by step what naive decoding shows, what the pipeline emits, what waits and why.

One text as a table, or a file of cases as JSON lines. Text is hostile: it is printed escaped, as Python writes strings.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from argparse import ArgumentTypeError
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import regex
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tokenizers import Tokenizer

from generation.engine.model_files import find_model
from generation.exceptions import GenerationError
from generation.output import Hold, HoldCause
from generation.text.cases import CaseError, parse_case
from generation.text.detokenizer import Vocabulary
from generation.text.explain import Explanation, StopOptions, explain_bytes, explain_ids
from generation.text.stop_strings import check_stops

BUNDLED = "bundled"
BAD_INPUT = 2
REASONS = {
    HoldCause.UTF8: "of an unfinished character",
    HoldCause.CONTEXT: "that the next token may change",
    HoldCause.STOP: "that may become a stop string",
}
THE_TRAP = (
    "The naive way was right here, and that is the trap: every one of these pieces holds whole characters, as every\n"
    "piece of English does. Tests with such text pass; the first é, आ or ☕ that is cut comes out as U+FFFD."
)


class Command(BaseCommand):
    help = "Explain how a text streams in pieces of bytes or tokens, or run a file of cases."
    # Neither the database nor the backends are needed.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--text", help="the text to stream")
        what.add_argument("--file", type=Path, help="a file whose text is streamed")
        what.add_argument("--cases", metavar="FILE.jsonl", help="cases, one JSON object a line (-: standard input)")
        cut = parser.add_mutually_exclusive_group()
        cut.add_argument("--bytes", dest="piece_size", type=_positive, metavar="N", help="cut into pieces of N bytes")
        cut.add_argument(
            "--tokenizer", default=BUNDLED, metavar="NAME|DIR|FILE", help="cut into its tokens (default: %(default)s)"
        )
        parser.add_argument("--tokenizer-dir", type=Path, metavar="DIR", help="finds NAME as DIR/NAME/tokenizer.json")
        parser.add_argument("--stop", action="append", default=[], metavar="S", help="stop string (repeatable)")
        parser.add_argument("--include-stop", action="store_true", help="show the stop string that matched")
        parser.add_argument("--per-push", type=_positive, default=1, metavar="N", help="pieces handed over at a time")
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")

    def handle(self, *, cases: str | None, per_push: int, **options: Any) -> None:
        try:
            if cases is not None:
                self._run_cases(cases, options["tokenizer_dir"], per_push)
            else:
                self._explain_one(per_push, **options)
        except (CaseError, GenerationError, OSError) as exc:
            raise CommandError(str(exc), returncode=BAD_INPUT) from exc

    def _explain_one(self, per_push: int, text: str | None, file: Path | None, **options: Any) -> None:
        raw = file.read_bytes() if file else _encoded(text or "")
        stops = StopOptions(stop=check_stops(options["stop"]), include_stop=options["include_stop"])
        if size := options["piece_size"]:
            pieces = [raw[start : start + size] for start in range(0, len(raw), size)]
            explanation = explain_bytes(pieces, stops, per_push=per_push)
        else:
            vocabulary = load_vocabulary(find_tokenizer(options["tokenizer"], options["tokenizer_dir"]))
            ids = vocabulary.tokenizer.encode(_decoded(raw), add_special_tokens=False).ids
            explanation = explain_ids(vocabulary, ids, stops, per_push=per_push)
        if options["json"]:
            self.stdout.write(_json({**result(None, explanation), "totals": totals(explanation)}))
        else:
            self._print_table(explanation)

    def _run_cases(self, name: str, tokenizer_dir: Path | None, per_push: int) -> None:
        bad = 0
        with _opened(name) as lines:
            for number, line in enumerate(lines, start=1):
                if not line.strip():
                    continue
                try:
                    case = parse_case(line)
                    explanation = case.explain(
                        lambda name: load_vocabulary(find_named_tokenizer(name, tokenizer_dir)), per_push=per_push
                    )
                except (CaseError, GenerationError) as exc:
                    bad += 1
                    self.stderr.write(f"line {number}: {exc}")
                else:
                    self.stdout.write(_json(result(number if case.id is None else case.id, explanation)))
        if bad:
            raise CommandError(f"Bad input in {bad} line(s); the others are done.", returncode=BAD_INPUT)

    def _print_table(self, explanation: Explanation) -> None:
        rows = [("step", "piece", "naive", "emitted", "held back")]
        for number, step in enumerate(explanation.steps, start=1):
            emitted = "".join(delta.text for delta in step.emitted)
            last = number == len(explanation.steps)
            if last and not emitted:
                continue
            held = ", ".join(map(reason, step.waiting))
            naive = "" if last else repr(step.naive)
            rows.append((str(number), step.piece or "end", naive, repr(emitted) if emitted else "", held))
        widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=True))
            self.stdout.write("  ".join(cells).rstrip())
        self.stdout.write("")
        for name, value in totals(explanation).items():
            self.stdout.write(f"{name.replace('_', ' ')}: {value}")
        if explanation.text and explanation.naive_errors == 0:
            self.stdout.write(f"\n{THE_TRAP}")


def find_tokenizer(name: str, tokenizer_dir: Path | None) -> Path:
    """Return the tokenizer.json of a name, a folder or a file; raise CaseError when there is none."""
    path = Path(name)
    if path.is_dir():
        path /= "tokenizer.json"
    return path if path.is_file() else find_named_tokenizer(name, tokenizer_dir)


def find_named_tokenizer(name: str, tokenizer_dir: Path | None) -> Path:
    """Return ``tokenizer_dir/name/tokenizer.json``, or the bundled model's; raise CaseError when there is none."""
    if tokenizer_dir is not None and Path(name).name == name:
        path = tokenizer_dir / name / "tokenizer.json"
        if path.is_file():
            return path
    if name == BUNDLED:
        return find_model("", settings.STREAMSITE_VAR) / "tokenizer.json"
    where = "give --tokenizer-dir" if tokenizer_dir is None else f"looked in {tokenizer_dir}"
    raise CaseError(f"no tokenizer {name!r}: {where}, or use {BUNDLED!r}")


@cache
def load_vocabulary(path: Path) -> Vocabulary:
    """Load a tokenizer.json, once."""
    try:
        return Vocabulary(Tokenizer.from_file(str(path)))
    except GenerationError:
        raise
    # The binding raises bare Exception for a damaged file.
    except Exception as exc:
        raise CaseError(f"{path} is no tokenizer: {exc}") from exc


def result(case_id: str | int | None, explanation: Explanation) -> dict[str, object]:
    """How a stream came out, as one JSON object; sizes of holds are bytes for utf8, characters otherwise."""
    return {
        "id": case_id,
        "deltas": [delta.text for delta in explanation.deltas],
        "text": explanation.text,
        "stop_string": explanation.stop_string,
        "finish": "end" if explanation.stop_string is None else "stop",
        "holds": {
            cause.value: {
                "count": held.count,
                "chars": 0 if cause is HoldCause.UTF8 else held.size,
                "bytes": held.size if cause is HoldCause.UTF8 else 0,
            }
            for cause, held in explanation.holds.items()
        },
        "tier": explanation.tier,
    }


def totals(explanation: Explanation) -> dict[str, object]:
    """What the tutorial's table ends with."""
    text = explanation.text
    return {
        "characters": len(text),
        "utf8_bytes": len(text.encode()),
        "graphemes": len(regex.findall(r"\X", text)),
        "pieces": len(explanation.steps) - 1,
        "naive_errors": explanation.naive_errors,
        "compared_with_whole": explanation.verdict.value,
    }


def reason(hold: Hold) -> str:
    """What waits and why, for people."""
    unit = "byte" if hold.cause is HoldCause.UTF8 else "character"
    return f"{hold.cause.value}: {hold.size} {unit}{'s' if hold.size > 1 else ''} {REASONS[hold.cause]}"


def width(text: str) -> int:
    """Columns of a terminal that ``text`` takes, nearly."""
    return sum(
        0 if unicodedata.category(char) in {"Mn", "Me"} else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _positive(value: str) -> int:
    number = int(value)
    if number < 1:
        raise ArgumentTypeError(f"must be 1 or more, got {number}")
    return number


def _opened(name: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb")


def _encoded(text: str) -> bytes:
    """Undo what Python did to arguments that are not UTF-8."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError as exc:
        raise CaseError(f"the text holds a lone surrogate at character {exc.start}") from exc


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as exc:
        raise CaseError(f"the text is not UTF-8 (byte {exc.start}); only --bytes can stream it") from exc


def _json(value: object) -> str:
    """ASCII only: no text of a case reaches the terminal as it is."""
    return json.dumps(value)
