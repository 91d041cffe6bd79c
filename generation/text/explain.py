"""A text in pieces in, every step of its streaming out: what naive decoding shows, what the pipeline emits, what waits.

Naive decoding is what most first versions do: each piece by itself. It is right for English, and wrong after that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol, TypeVar

from generation.output import Delta, Hold, HoldCause
from generation.text.detokenizer import Vocabulary
from generation.text.holds import HoldLedger, HoldTotals
from generation.text.pipeline import BytesPipeline, PiecesPipeline, TextPipeline
from generation.text.proof import Verdict, prove, up_to_stop

Piece = TypeVar("Piece")
Piece_contra = TypeVar("Piece_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOptions:
    """When to stop, and what of the stop (and of special tokens) to show."""

    stop: tuple[str, ...] = ()
    include_stop: bool = False
    skip_special_tokens: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One push (the last one is the flush, with an empty ``piece``), and what waits after it.

    ``correct`` is what this push adds to the text, stop strings aside; where ``naive`` is something else, it is wrong.
    """

    piece: str
    naive: str
    correct: str
    emitted: tuple[Delta, ...]
    waiting: tuple[Hold, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All steps of a stream, and how it came out; ``verdict`` compares its text with that of the undivided input."""

    steps: tuple[Step, ...]
    stop_string: str | None
    tier: str
    verdict: Verdict

    @property
    def deltas(self) -> list[Delta]:
        return [delta for step in self.steps for delta in step.emitted]

    @property
    def text(self) -> str:
        return "".join(delta.text for delta in self.deltas)

    @property
    def naive_errors(self) -> int:
        """Pushes for which naive decoding shows the wrong thing."""
        return sum(step.naive != step.correct for step in self.steps[:-1])

    @property
    def holds(self) -> Mapping[HoldCause, HoldTotals]:
        ledger = HoldLedger()
        for delta in self.deltas:
            ledger.add(delta)
        return ledger.totals


def explain_ids(
    vocabulary: Vocabulary, token_ids: Sequence[int], options: StopOptions, *, per_push: int = 1
) -> Explanation:
    """Stream token ids, ``per_push`` at a time."""

    def naive(ids: Sequence[int]) -> str:
        known = [token_id for token_id in ids if vocabulary.knows(token_id)]
        return str(vocabulary.tokenizer.decode(known, skip_special_tokens=options.skip_special_tokens))

    def verdict(text: str) -> Verdict:
        return prove(vocabulary, token_ids, text, **asdict(options)).verdict

    return _explain(
        lambda stop: TextPipeline(vocabulary, stop, options.include_stop, options.skip_special_tokens),
        options.stop,
        [token_ids[start : start + per_push] for start in range(0, len(token_ids), per_push)],
        spelled=lambda ids: " ".join(map(str, ids)),
        naive=naive,
        verdict=verdict,
    )


def explain_bytes(pieces: Sequence[bytes], options: StopOptions, *, per_push: int = 1) -> Explanation:
    """Stream pieces of UTF-8, ``per_push`` at a time."""
    whole = b"".join(pieces).decode(errors="replace")
    return _explain(
        lambda stop: BytesPipeline(stop, options.include_stop),
        options.stop,
        [b"".join(pieces[start : start + per_push]) for start in range(0, len(pieces), per_push)],
        spelled=lambda piece: piece.hex(" "),
        naive=lambda piece: piece.decode(errors="replace"),
        verdict=lambda text: _same(text, whole, options),
    )


def explain_pieces(pieces: Sequence[str], options: StopOptions, *, per_push: int = 1) -> Explanation:
    """Stream pieces of text, ``per_push`` at a time."""
    return _explain(
        lambda stop: PiecesPipeline(stop, options.include_stop),
        options.stop,
        ["".join(pieces[start : start + per_push]) for start in range(0, len(pieces), per_push)],
        spelled=repr,
        naive=_without_lone_surrogates,
        verdict=lambda text: _same(text, _without_lone_surrogates("".join(pieces)), options),
    )


def _same(text: str, whole: str, options: StopOptions) -> Verdict:
    expected = up_to_stop(whole, options.stop, include_stop=options.include_stop)
    return Verdict.EQUAL if text == (whole if expected is None else expected) else Verdict.DIFFERENT


def _without_lone_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class _Stream(Protocol[Piece_contra]):
    tier: str
    stop_string: str | None
    finished: bool

    @property
    def waiting(self) -> tuple[Hold, ...]: ...

    def push(self, piece: Piece_contra, /) -> list[Delta]: ...

    def flush(self) -> list[Delta]: ...


def _explain(
    pipeline: Callable[[Sequence[str]], _Stream[Piece]],
    stop: Sequence[str],
    pushes: Iterable[Piece],
    *,
    spelled: Callable[[Piece], str],
    naive: Callable[[Piece], str],
    verdict: Callable[[str], Verdict],
) -> Explanation:
    stream, without_stop = pipeline(stop), pipeline(())
    steps: list[Step] = []
    for piece in pushes:
        steps.append(
            Step(
                piece=spelled(piece),
                naive=naive(piece),
                correct=_text(without_stop.push(piece)),
                emitted=tuple(stream.push(piece)),
                waiting=stream.waiting,
            )
        )
        if stream.finished:
            break
    last = Step(piece="", naive="", correct=_text(without_stop.flush()), emitted=tuple(stream.flush()), waiting=())
    steps.append(last)
    text = "".join(_text(step.emitted) for step in steps)
    return Explanation(steps=tuple(steps), stop_string=stream.stop_string, tier=stream.tier, verdict=verdict(text))


def _text(deltas: Iterable[Delta]) -> str:
    return "".join(delta.text for delta in deltas)
