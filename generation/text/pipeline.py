"""Token ids, bytes or text in, deltas out: a decoder, then the stop matcher, and a note of everything that waited.

The joined deltas are the project's reference text of a generation; the non-streaming reply comes from the same
object. Nothing is ever taken back, and nothing comes after the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat
from typing import Generic, Protocol, TypeVar

from tokenizers import Tokenizer

from generation.output import Delta, Hold, HoldCause, IdLogprobs
from generation.text.detokenizer import Vocabulary
from generation.text.holds import Wait
from generation.text.logprobs import LogprobQueue
from generation.text.stop_strings import StopMatcher, check_stops
from generation.text.utf8 import SurrogateJoiner, Utf8Decoder

Piece = TypeVar("Piece")
Piece_contra = TypeVar("Piece_contra", contravariant=True)
#: More of the prompt than this does not change how its continuation is written.
PROMPT_CONTEXT = 8


class Decoder(Protocol[Piece_contra]):
    """The first stage: pieces in, text that is whole out; ``held`` says how much waits, for ``cause``."""

    cause: HoldCause

    @property
    def held(self) -> int: ...

    def push(self, piece: Piece_contra, /) -> str: ...

    def flush(self) -> str: ...


class Pipeline(Generic[Piece]):
    """What the three pipelines share; ``stop_string`` names the stop string that matched, ``finished`` says it is over.

    ``tier`` tells how pieces become text: "table" or "window" for token ids, "bytes", or "text".
    """

    def __init__(self, decoder: Decoder[Piece], *, tier: str, stop: Sequence[str], include_stop: bool) -> None:
        self.tier = tier
        self.stop_string: str | None = None
        self.finished = False
        self._decoder = decoder
        self._matcher = StopMatcher(check_stops(stop), include_stop=include_stop)
        self._decoding = Wait(decoder.cause)
        self._matching = Wait(HoldCause.STOP)
        #: Holds that ended in a stage, but whose text has not left the pipeline yet.
        self._ended: list[Hold] = []
        self._received = 0
        self._covered = 0
        self._last_at: float | None = None
        #: Characters that the first stage gave out.
        self._decoded = 0

    @property
    def waiting(self) -> tuple[Hold, ...]:
        """What waits now, without times."""
        if self.finished:
            return ()
        waits = (self._decoding, self._matching)
        return tuple(Hold(cause=wait.cause, size=wait.size) for wait in waits if wait.size)

    def push(self, piece: Piece, made_at: float | None = None) -> list[Delta]:
        """Return the delta that this piece completes; ``made_at`` is when it was made. Nothing comes after the end."""
        if self.finished:
            return []
        self._received += 1
        self._last_at = made_at
        return self._deltas(self._match(self._decode(self._decoder.push(piece), made_at), made_at))

    def flush(self, made_at: float | None = None) -> list[Delta]:
        """End the generation: what still waits comes out, unless a stop string ended it before."""
        if self.finished:
            return []
        text = self._bring_out(self._last_at if made_at is None else made_at)
        self.finished = True
        return self._deltas(text)

    def _bring_out(self, at: float | None) -> str:
        """Return what waits in both stages, up to a stop string that it may complete."""
        text = self._match(self._decode(self._decoder.flush(), at), at)
        return text + self._matched(self._matcher.flush(), at)

    def _decode(self, text: str, at: float | None) -> str:
        """Note what the first stage did: text means that all that waited in it came out."""
        wait, held = self._decoding, self._decoder.held
        if held or wait.size:
            self._note(wait.step(released=wait.size if text or not held else 0, held=held, at=at))
        self._decoded += len(text)
        return text

    def _match(self, text: str, at: float | None) -> str:
        """Run the second stage."""
        if not text:
            return ""
        shown = self._matched(self._matcher.push(text), at)
        if self._matcher.matched is not None:
            self._stop(self._matcher.matched)
        return shown

    def _matched(self, shown: str, at: float | None) -> str:
        """Note what the second stage did: what waited in it comes out first."""
        wait, held = self._matching, self._matcher.held
        if held or wait.size:
            self._note(wait.step(released=min(wait.size, len(shown)), held=held, at=at))
        return shown

    def _note(self, hold: Hold | None) -> None:
        if hold is not None:
            self._ended.append(hold)

    def _stop(self, stop_string: str) -> None:
        self.stop_string = stop_string
        self.finished = True

    def _deltas(self, text: str) -> list[Delta]:
        if not text:
            return []
        first, self._covered = self._covered, self._received
        holds, self._ended = tuple(self._ended), []
        return [Delta(text=text, first_token=first, end_token=self._received, made_at=self._last_at, holds=holds)]


class TextPipeline(Pipeline[int]):
    """Token ids in. Pass the tokenizer's `Vocabulary`, loaded once: a bare tokenizer is loaded anew for each stream."""

    def __init__(
        self,
        tokenizer: Tokenizer | Vocabulary,
        stop: Sequence[str] = (),
        include_stop: bool = False,
        skip_special_tokens: bool = True,
        prompt_ids: Sequence[int] = (),
    ) -> None:
        """``prompt_ids`` is for raw continuation, never for chat: the text goes on from them and shows none of them."""
        vocabulary = Vocabulary.load(tokenizer)
        detokenizer = vocabulary.detokenizer(skip_special_tokens=skip_special_tokens)
        super().__init__(detokenizer, tier=vocabulary.tier, stop=stop, include_stop=include_stop)
        self._vocabulary = vocabulary
        self._skip_special_tokens = skip_special_tokens
        self._logprobs = LogprobQueue(vocabulary)
        self._shown = 0
        self._include_stop = include_stop
        self._stop_ids = vocabulary.ids_of(check_stops(stop)) if stop and skip_special_tokens else {}
        for token_id in prompt_ids[-PROMPT_CONTEXT:]:
            detokenizer.push(token_id)
        detokenizer.flush()

    def push(
        self,
        piece: int | Sequence[int],
        made_at: float | Sequence[float] | None = None,
        logprobs: IdLogprobs | Sequence[IdLogprobs | None] | None = None,
    ) -> list[Delta]:
        """Return the deltas that the id (or ids) completes; they are the same however many ids are pushed at a time.

        ``made_at`` is when they were made: one time for all, or one each. ``logprobs``, where wanted, are one each.
        """
        token_ids = [piece] if isinstance(piece, int) else piece
        times = repeat(made_at, len(token_ids)) if made_at is None or isinstance(made_at, int | float) else made_at
        each = logprobs if isinstance(logprobs, Sequence) else [logprobs] * len(token_ids)
        deltas: list[Delta] = []
        for token_id, at, likelihood in zip(token_ids, times, each, strict=True):
            if likelihood is not None and self._is_text(token_id):
                self._logprobs.push(token_id, likelihood, begins_at=self._decoded)
            if token_id in self._stop_ids:
                deltas += self._stop_at(self._stop_ids[token_id], at)
            else:
                deltas += super().push(token_id, at)
        return deltas

    def _stop_at(self, special_token: str, at: float | None) -> list[Delta]:
        """End at a skipped special token: its text, a stop string, would never reach the matcher."""
        if self.finished:
            return []
        self._received += 1
        self._last_at = at
        text = self._bring_out(at)
        if not self.finished:
            self._stop(special_token)
            text += special_token if self._include_stop else ""
        return self._deltas(text)

    def _is_text(self, token_id: int) -> bool:
        """Whether the token has a text that can be shown; a special token can that ends the text as its stop string."""
        skipped = self._skip_special_tokens and token_id in self._vocabulary.special
        if skipped:
            return self._include_stop and token_id in self._stop_ids
        return self._vocabulary.bytes_of(token_id) != b""

    def _deltas(self, text: str) -> list[Delta]:
        """Send the log-probabilities of the tokens along that ``text`` begins to show."""
        self._shown += len(text)
        released = self._logprobs.release(self._shown)
        deltas = super()._deltas(text)
        return [replace(delta, logprobs=released) for delta in deltas] if released else deltas


class BytesPipeline(Pipeline[bytes]):
    """Bytes in, for backends that deliver bytes; pieces are counted as tokens."""

    def __init__(self, stop: Sequence[str] = (), include_stop: bool = False) -> None:
        super().__init__(Utf8Decoder(), tier="bytes", stop=stop, include_stop=include_stop)


class PiecesPipeline(Pipeline[str]):
    """Text in, for backends that deliver text; pieces are counted as tokens."""

    def __init__(self, stop: Sequence[str] = (), include_stop: bool = False) -> None:
        super().__init__(SurrogateJoiner(), tier="text", stop=stop, include_stop=include_stop)
