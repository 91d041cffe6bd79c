"""The proof that a stream's text is right: compare it with the tokenizer's own decode of all its ids.

The comparison goes another way than the pipeline: one decode of the whole sequence, then `str.find` for the stops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from itertools import groupby

from generation.text.detokenizer import Vocabulary
from generation.text.utf8 import PER_BYTE


class Verdict(StrEnum):
    """How a stream's text compares with the whole decode of its ids."""

    EQUAL = "equal"
    #: Differs only in a run of byte tokens that is not UTF-8: the decoder turns all of it into U+FFFD, afterwards.
    INVALID_BYTES = "invalid_bytes"
    #: The stream was cut before its end, by its reader or a fault; what it said by then is right.
    PREFIX = "prefix"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A verdict, with the SHA-256 (hex, of UTF-8) of the streamed text and of the whole decode."""

    verdict: Verdict
    text_sha256: str
    reference_sha256: str


def prove(
    vocabulary: Vocabulary,
    token_ids: Sequence[int],
    text: str,
    *,
    stop: Sequence[str] = (),
    include_stop: bool = False,
    skip_special_tokens: bool = True,
    prompt_ids: Sequence[int] = (),
    cut: bool = False,
) -> Proof:
    """Compare ``text``, the joined deltas of a stream, with the whole decode of its ids up to the stop string.

    ``token_ids`` are those pushed to the pipeline (no end token); the other arguments are the pipeline's own. ``cut``
    says that the reader stopped reading before the pipeline had brought out everything.
    """
    prompt = _readable(vocabulary, prompt_ids, skip_special_tokens)
    special_stops = vocabulary.ids_of(stop) if skip_special_tokens else {}
    pushed, special_stop = _up_to_special_stop(token_ids, special_stops)
    answer = _readable(vocabulary, pushed, skip_special_tokens)

    def reference(sequence: Sequence[int], answer: Sequence[int]) -> str:
        before, all_text = _decode(vocabulary, prompt), _decode(vocabulary, sequence)
        # A prompt may end inside a character, whose first bytes are then no text of either.
        generated = all_text.removeprefix(before) if all_text.startswith(before) else _decode(vocabulary, answer)
        cut = up_to_stop(generated, stop, include_stop=include_stop)
        return generated + (special_stop if include_stop else "") if cut is None else cut

    sequence = [*prompt, *answer]
    whole = reference(sequence, answer)
    if text == whole:
        verdict = Verdict.EQUAL
    elif text == (mended := reference(*(_with_mended_byte_runs(vocabulary, ids) for ids in (sequence, answer)))):
        verdict = Verdict.INVALID_BYTES
    elif cut and (whole.startswith(text) or mended.startswith(text)):
        verdict = Verdict.PREFIX
    else:
        verdict = Verdict.DIFFERENT
    return Proof(verdict=verdict, text_sha256=_digest(text), reference_sha256=_digest(whole))


def up_to_stop(text: str, stop: Sequence[str], *, include_stop: bool) -> str | None:
    """Cut ``text`` at the stop string that completes first, the longest of those that end there; None without one."""
    ends = [(start + len(one), -len(one)) for one in stop if (start := text.find(one)) >= 0]
    if not ends:
        return None
    end, minus_length = min(ends)
    return text[: end if include_stop else end + minus_length]


def _readable(vocabulary: Vocabulary, token_ids: Sequence[int], skip_special_tokens: bool) -> list[int]:
    skipped = vocabulary.special if skip_special_tokens else {}
    return [token_id for token_id in token_ids if vocabulary.knows(token_id) and token_id not in skipped]


def _up_to_special_stop(token_ids: Sequence[int], special_stops: Mapping[int, str]) -> tuple[Sequence[int], str]:
    for place, token_id in enumerate(token_ids):
        if token_id in special_stops:
            return token_ids[:place], special_stops[token_id]
    return token_ids, ""


def _decode(vocabulary: Vocabulary, token_ids: Sequence[int]) -> str:
    return str(vocabulary.tokenizer.decode(token_ids, skip_special_tokens=False))


def _with_mended_byte_runs(vocabulary: Vocabulary, token_ids: Sequence[int]) -> list[int]:
    """Write each leftover byte as the three bytes of U+FFFD, so that the decoder shows a run's good characters."""
    byte_of = vocabulary.byte_tokens
    id_of = {byte: token_id for token_id, byte in byte_of.items()}
    mended: list[int] = []
    for is_byte, run in groupby(token_ids, byte_of.__contains__):
        if is_byte and len(id_of) == 256:
            shown = bytes(byte_of[token_id] for token_id in run).decode(errors=PER_BYTE)
            mended.extend(id_of[byte] for byte in shown.encode())
        else:
            mended.extend(run)
    return mended


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()
