"""A tokenizer in, the bytes or text of each of its tokens out; or None when tokens cannot be read one by one.

Two decoders can be read that way: ByteLevel (GPT-2, Llama 3, Qwen, SmolLM) and the SentencePiece chain with byte
fallback (Llama 2, Mistral, Gemma). A table is accepted only after it agreed with the tokenizer on every single id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tokenizers import Tokenizer

from generation.exceptions import EngineError
from generation.output import HoldCause
from generation.text.utf8 import PER_BYTE, PER_CHARACTER, Utf8Decoder

#: One step of a tokenizer's decoder, as tokenizer.json writes it.
DecoderStep = Mapping[str, object]
BYTE_TOKEN: Final = re.compile(r"<0x([0-9A-Fa-f]{2})>")
ONE_LEADING_SPACE: Final = {"type": "Strip", "content": " ", "start": 1, "stop": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteTable:
    """What each token id adds: text that is whole by itself, or bytes (``b""``: nothing at all).

    Text ends a run of bytes before it, even empty text; ``errors`` says how the rest of a broken run is shown.
    """

    entries: Sequence[str | bytes]
    errors: str
    strip_leading_space: bool

    def without(self, token_ids: Iterable[int]) -> ByteTable:
        """Return a table in which these ids add nothing."""
        entries = list(self.entries)
        for token_id in token_ids:
            entries[token_id] = b""
        return replace(self, entries=entries)


class TableDetokenizer:
    """Tier 1: token ids in, text out, by looking each one up; only the bytes of an unfinished character wait."""

    cause = HoldCause.UTF8
    __slots__ = ("_at_start", "_entries", "_utf8")

    def __init__(self, table: ByteTable) -> None:
        self._entries = table.entries
        self._utf8 = Utf8Decoder(table.errors)
        self._at_start = table.strip_leading_space

    @property
    def held(self) -> int:
        """Bytes that wait."""
        return len(self._utf8.pending)

    def push(self, token_id: int) -> str:
        """Return the text that is whole with this id; an id that the tokenizer does not know adds nothing."""
        if token_id < 0:
            raise EngineError(f"Token ids are 0 or more, got {token_id}.")
        try:
            entry = self._entries[token_id]
        except IndexError:
            return ""
        if isinstance(entry, bytes):
            text = self._utf8.push(entry)
        elif self._utf8.pending:
            text = self._utf8.flush() + entry
        else:
            text = entry
        return self._without_first_space(text) if self._at_start else text

    def flush(self) -> str:
        """Return one U+FFFD per character (or byte) that is not going to be whole."""
        text = self._utf8.flush()
        return self._without_first_space(text) if self._at_start else text

    def _without_first_space(self, text: str) -> str:
        """SentencePiece puts a space before the first word; the decoder strips exactly one."""
        self._at_start = not text
        return text.removeprefix(" ")


def build_byte_table(
    tokenizer: Tokenizer, tokens: Sequence[str | None], decoders: Sequence[DecoderStep]
) -> ByteTable | None:
    """Return the table of ``tokens`` (by id, None for a hole), or None when the decoder needs more than one token."""
    match decoders:
        case [{"type": "ByteLevel"}]:
            table = _byte_level(tokens)
        case [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            *strip,
        ] if strip in ([], [ONE_LEADING_SPACE]):
            table = _byte_fallback(tokens, strip_leading_space=bool(strip))
        case _:
            return None
    return table if _agrees(table, tokenizer, tokens) else None


def _byte_level(tokens: Sequence[str | None]) -> ByteTable:
    alphabet = _byte_level_alphabet()
    entries = [b"" if token is None else _byte_level_entry(token, alphabet) for token in tokens]
    return ByteTable(entries=entries, errors=PER_CHARACTER, strip_leading_space=False)


def _byte_level_entry(token: str, alphabet: Mapping[int, int]) -> str | bytes:
    try:
        written = token.translate(alphabet).encode("latin-1")
    except UnicodeEncodeError:  # an added token with other characters stands for itself
        written = token.encode()
    try:
        return written.decode() or b""
    except UnicodeDecodeError:
        return written


def _byte_level_alphabet() -> dict[int, int]:
    """GPT-2's way to write bytes as printable characters, as a translation to Latin-1.

    Latin-1's printable characters stand for themselves; the other bytes, in order, are written from U+0100 on.
    Latin-1 characters that are not in the alphabet translate to one that Latin-1 cannot encode.
    """
    printable = {*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)}
    others = [byte for byte in range(256) if byte not in printable]
    return dict.fromkeys(others, 0xFFFF) | {256 + place: byte for place, byte in enumerate(others)}


def _byte_fallback(tokens: Sequence[str | None], *, strip_leading_space: bool) -> ByteTable:
    def entry(token: str | None) -> str | bytes:
        if token is None:
            return b""
        if token.startswith("<0x") and (byte := BYTE_TOKEN.fullmatch(token)):
            return bytes.fromhex(byte[1])
        return token.replace("▁", " ")

    return ByteTable(
        entries=[entry(token) for token in tokens], errors=PER_BYTE, strip_leading_space=strip_leading_space
    )


def _agrees(table: ByteTable, tokenizer: Tokenizer, tokens: Sequence[str | None]) -> bool:
    """Whether ``anchor id anchor`` decodes as the table says, for every id."""
    anchor = _anchor(table)
    if anchor is None:
        return False
    around = _shown(table.entries[anchor], table.errors)
    known = [token_id for token_id, token in enumerate(tokens) if token is not None]
    decoded = tokenizer.decode_batch([[anchor, token_id, anchor] for token_id in known], skip_special_tokens=False)
    return all(
        around + _shown(table.entries[token_id], table.errors) + around == text
        for token_id, text in zip(known, decoded, strict=True)
    )


def _anchor(table: ByteTable) -> int | None:
    """The first id whose text is one ASCII letter: whole by itself, and no space to strip."""
    plain = (
        token_id
        for token_id, entry in enumerate(table.entries)
        if isinstance(entry, str) and entry.isascii() and entry.isalpha()
    )
    return next(plain, None)


def _shown(entry: str | bytes, errors: str) -> str:
    return entry if isinstance(entry, str) else entry.decode(errors=errors)
