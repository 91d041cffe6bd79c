"""A tokenizer in, detokenizers for its streams out: each takes token ids and gives text that is never taken back.

Tier 1 reads tokens one by one from a table; tier 2 decodes a sliding window; a decoder that rewrites text across
tokens is refused, because what a reader has seen would have to change. The choice is made once per tokenizer.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from random import Random
from typing import cast

from tokenizers import Tokenizer

from generation.exceptions import BackendUnavailableError
from generation.text.byte_table import BYTE_TOKEN, DecoderStep, TableDetokenizer, build_byte_table
from generation.text.window import WINDOW, ByteRunDetokenizer, WindowDetokenizer

logger = logging.getLogger(__name__)

Detokenizer = TableDetokenizer | WindowDetokenizer | ByteRunDetokenizer


class Tier(StrEnum):
    """How a tokenizer's ids become text."""

    TABLE = "table"
    WINDOW = "window"


class Vocabulary:
    """A tokenizer prepared for streaming: built once (0.1 to 2 s), shared by any number of streams and threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Raise BackendUnavailableError when no stream of this tokenizer could be right."""
        self.tokenizer = tokenizer
        self.tokens = _tokens_by_id(tokenizer)
        #: Text of each special token, by id.
        self.special = _special_tokens(tokenizer, self.tokens)
        decoders = _decoders(tokenizer)
        #: The byte that a byte-fallback token stands for, by id.
        self.byte_tokens = _byte_tokens(self.tokens) if _has(decoders, "ByteFallback") else {}
        self._joins_bytes = _has(decoders, "ByteLevel", "Custom")
        #: What `bytes_of` found, where that takes decoding.
        self._decoded_bytes: dict[int, bytes] = {}
        self._table = build_byte_table(tokenizer, self.tokens, decoders)
        if self._table is None:
            self.tier = Tier.WINDOW
            _refuse_rewriting(decoders)
            self._refuse_missing_bytes()
            self._refuse_disagreement()
        else:
            self.tier = Tier.TABLE
            self._table_without_special = self._table.without(self.special)
        logger.info("Tokenizer with %d tokens, decoder %s: tier %s.", len(self.tokens), _names(decoders), self.tier)

    @classmethod
    def load(cls, tokenizer: Tokenizer | Vocabulary) -> Vocabulary:
        """Return the vocabulary of ``tokenizer``; one that is already prepared is returned as it is."""
        return tokenizer if isinstance(tokenizer, Vocabulary) else cls(tokenizer)

    def detokenizer(self, *, skip_special_tokens: bool = True) -> Detokenizer:
        """Return a new detokenizer for one stream; costs next to nothing."""
        if self._table is not None:
            return TableDetokenizer(self._table_without_special if skip_special_tokens else self._table)
        skipped = self.special if skip_special_tokens else {}
        window = WindowDetokenizer(self.tokenizer, self.tokens, skipped=skipped, joins_bytes=self._joins_bytes)
        return ByteRunDetokenizer(window, self.byte_tokens) if self.byte_tokens else window

    def knows(self, token_id: int) -> bool:
        """Whether the tokenizer has a token of this id; models may have more ids than their tokenizer."""
        return 0 <= token_id < len(self.tokens) and self.tokens[token_id] is not None

    def bytes_of(self, token_id: int) -> bytes:
        """What the token adds in the middle of a text, special tokens too; empty for one that is not known.

        A decoder of the second tier shows part of a character as U+FFFD.
        """
        if not self.knows(token_id):
            return b""
        if self._table is not None:
            entry = self._table.entries[token_id]
            return entry.encode() if isinstance(entry, str) else entry
        if token_id not in self._decoded_bytes:
            self._decoded_bytes[token_id] = self._decode_bytes(token_id)
        return self._decoded_bytes[token_id]

    def _decode_bytes(self, token_id: int) -> bytes:
        if token_id in self.byte_tokens:
            return bytes([self.byte_tokens[token_id]])
        if token_id in self.special:
            return self.special[token_id].encode()
        alone, before, both = (
            str(self.tokenizer.decode(ids, skip_special_tokens=False))
            for ids in ([token_id], [self._anchor], [self._anchor, token_id])
        )
        return (both.removeprefix(before) or alone).encode()

    @functools.cached_property
    def _anchor(self) -> int:
        """The id of a word, for what stands in the middle of a text."""
        decoded = ((i, self.tokenizer.decode([i])) for i, token in enumerate(self.tokens) if token is not None)
        return next((i for i, text in decoded if text.isascii() and text.isalpha()), 0)

    def ids_of(self, texts: Collection[str]) -> Mapping[int, str]:
        """The special tokens among ``texts``, by id."""
        return {token_id: text for token_id, text in self.special.items() if text in texts}

    def _refuse_missing_bytes(self) -> None:
        if len(set(self.byte_tokens.values())) not in (0, 256):
            raise _refusal(f"it joins bytes to characters, but has tokens for {len(self.byte_tokens)} of the 256 bytes")

    def _refuse_disagreement(self) -> None:
        """Stream random ids and compare with the whole decode: the last line against decoders not seen before."""
        candidates = [
            token_id for token_id, token in enumerate(self.tokens) if token and token_id not in self.byte_tokens
        ]
        random = Random(0)
        for _ in range(64 if candidates else 0):
            ids = random.choices(candidates, k=3 * WINDOW)
            detokenizer = self.detokenizer(skip_special_tokens=False)
            text = "".join(detokenizer.push(token_id) for token_id in ids) + detokenizer.flush()
            if text != self.tokenizer.decode(ids, skip_special_tokens=False):
                raise _refusal("the text of a sequence is not made of the texts of its parts")


def _tokens_by_id(tokenizer: Tokenizer) -> Sequence[str | None]:
    """Sizes come from the real ids: some tokenizers have ids above ``vocab_size``, and holes below it."""
    ids = tokenizer.get_vocab(with_added_tokens=True)
    tokens: list[str | None] = [None] * (max(ids.values(), default=-1) + 1)
    for token, token_id in ids.items():
        tokens[token_id] = token
    # An added token may have the id of a token of the model, and goes first.
    for token_id, added in tokenizer.get_added_tokens_decoder().items():
        tokens[token_id] = added.content
    return tokens


def _special_tokens(tokenizer: Tokenizer, tokens: Sequence[str | None]) -> Mapping[int, str]:
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special}
    return {token_id: token for token_id, token in enumerate(tokens) if token is not None and token in special}


def _byte_tokens(tokens: Sequence[str | None]) -> Mapping[int, int]:
    return {
        token_id: int(byte[1], base=16)
        for token_id, token in enumerate(tokens)
        if token is not None and token.startswith("<0x") and (byte := BYTE_TOKEN.fullmatch(token))
    }


def _decoders(tokenizer: Tokenizer) -> list[DecoderStep]:
    """The tokenizer's decoder as its flat list of steps; empty for none, one of type "Custom" for Python's own."""
    if tokenizer.decoder is None:
        return []
    try:
        state = json.loads(tokenizer.decoder.__getstate__())
    except Exception:  # what the binding raises for a decoder written in Python
        return [{"type": "Custom"}]
    return list(_flat(state))


def _flat(decoder: DecoderStep) -> Iterator[DecoderStep]:
    match decoder:
        case {"type": "Sequence", "decoders": [*parts]}:
            for part in parts:
                yield from _flat(cast("DecoderStep", part))
        case _:
            yield decoder


def _names(decoders: Sequence[DecoderStep]) -> str:
    return " + ".join(str(decoder["type"]) for decoder in decoders) or "none"


def _has(decoders: Sequence[DecoderStep], *types: str) -> bool:
    return any(decoder["type"] in types for decoder in decoders)


def _refuse_rewriting(decoders: Sequence[DecoderStep]) -> None:
    joined = False
    for decoder in decoders:
        match decoder:
            case {"type": "Fuse" | "ByteLevel"}:
                joined = True
            case {"type": "Replace", "pattern": {"String": str(pattern)}} if len(pattern) <= 1:
                pass
            # After the tokens were joined, more than one character can reach across them.
            case {"type": "Replace", "pattern": pattern} if joined:
                raise _refusal(f"it replaces {pattern} after the tokens were joined")
            # And tokenizers 0.23 panics when the text is shorter than what is to be stripped.
            case {"type": "Strip", "stop": int(stop)} if stop > 0:
                raise _refusal("it strips the end of a text, which a stream does not know until it is over")


def _refusal(reason: str) -> BackendUnavailableError:
    message = (
        f"This tokenizer's decoder rewrites text across tokens: {reason}. Text that a reader has seen would have to "
        "change. Use a tokenizer whose decoder works token by token."
    )
    logger.error(message)
    return BackendUnavailableError(message, code="unsupported_tokenizer")
