"""Log-probabilities of token ids in, entries with the tokens' text out, each with the delta that shows its token.

A token whose text waits, for the rest of a character or a possible stop string, keeps its entry back with it; a token
of which nothing is ever shown has none.
"""

from __future__ import annotations

from collections import deque

from generation.output import IdLogprobs, TokenLogprob
from generation.text.detokenizer import Vocabulary


class LogprobQueue:
    """The entries of the tokens that are not shown yet, in the order generated."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        #: Where each token's text begins in that of the stream, in characters.
        self._waiting: deque[tuple[int, TokenLogprob]] = deque()

    def push(self, token_id: int, logprobs: IdLogprobs, *, begins_at: int) -> None:
        """Take the log-probability of a token that is part of the text."""
        entry = token_logprob(self._vocabulary, token_id, logprobs)
        self._waiting.append((begins_at, entry))

    def release(self, shown: int) -> tuple[TokenLogprob, ...]:
        """The entries that go with a delta after which ``shown`` characters of the stream are shown."""
        released: list[TokenLogprob] = []
        while self._waiting and self._waiting[0][0] < shown:
            released.append(self._waiting.popleft()[1])
        return tuple(released)


def token_logprob(vocabulary: Vocabulary, token_id: int, logprobs: IdLogprobs) -> TokenLogprob:
    """The entry of a token, with those of the likeliest ones at its place."""
    top = tuple(_entry(vocabulary.bytes_of(other), logprob) for other, logprob in logprobs.top)
    return _entry(vocabulary.bytes_of(token_id), logprobs.logprob, top)


def _entry(data: bytes, logprob: float, top: tuple[TokenLogprob, ...] = ()) -> TokenLogprob:
    return TokenLogprob(text=data.decode(errors="replace"), data=data, logprob=logprob, top=top)
