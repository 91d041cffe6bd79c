"""Tier 2: token ids in, text out, for decoders that must see several tokens: decode a short window, emit what is new.

An id costs one decode of at most `WINDOW` ids, and one more when the window slides, whatever the ids are. What was
emitted is never emitted again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tokenizers import Tokenizer

from generation.exceptions import EngineError
from generation.output import HoldCause
from generation.text.utf8 import PER_BYTE, Utf8Decoder

WINDOW = 16
#: Ids that stay as context when the window slides.
KEPT = 8


class WindowDetokenizer:
    """Decode ids with their neighbours; with ``joins_bytes`` a last U+FFFD waits, it may be half a character.

    ``divergences`` counts decodes that did not begin with the text emitted before.
    """

    cause = HoldCause.CONTEXT

    def __init__(
        self, tokenizer: Tokenizer, tokens: Sequence[str | None], *, skipped: Collection[int], joins_bytes: bool
    ) -> None:
        """``tokens`` by id, None where the tokenizer has none; ``skipped`` ids never enter the window."""
        self._tokenizer = tokenizer
        self._tokens = tokens
        self._skipped = skipped
        self._joins_bytes = joins_bytes
        self._ids: list[int] = []
        #: Where groups of ids begin that must not be parted.
        self._borders: list[int] = []
        self._text = ""
        self._emitted = 0
        self._held_from = 0
        self.divergences = 0

    @property
    def held(self) -> int:
        """Characters that wait."""
        return len(self._text) - self._emitted

    def reads(self, token_id: int) -> bool:
        """Whether the id has a text: the tokenizer knows it, and it is not skipped."""
        if token_id < 0:
            raise EngineError(f"Token ids are 0 or more, got {token_id}.")
        return token_id < len(self._tokens) and self._tokens[token_id] is not None and token_id not in self._skipped

    def push(self, token_id: int) -> str:
        """Return the text that is certain with this id; an id without a text adds nothing."""
        return self.push_group([token_id]) if self.reads(token_id) else ""

    def push_group(self, token_ids: Sequence[int]) -> str:
        """Return the text that is certain with these ids, which stay together: the bytes of one character."""
        overdue = self._slide() if len(self._ids) + len(token_ids) > WINDOW else ""
        before, waited = len(self._ids), self.held
        self._borders.append(before)
        self._ids += token_ids
        shown, self._text = self._text[: self._emitted], self._decode()
        self.divergences += not self._text.startswith(shown)
        waits = self._joins_bytes and self._text.endswith("\ufffd")
        text = self._text[self._emitted : len(self._text) - waits]
        if text or not waited:
            self._held_from = before
        self._emitted += len(text)
        return overdue + text

    def flush(self) -> str:
        """Return what waited, as the decoder shows it."""
        text = self._text[self._emitted :]
        self._emitted = len(self._text)
        return text

    def _slide(self) -> str:
        """Keep the last `KEPT` ids or so; return text that waits for longer than that, and will not change any more."""
        overdue = self.flush() if len(self._ids) - self._held_from > KEPT else ""
        held = self.held
        cut = next(border for border in self._borders if border >= len(self._ids) - KEPT)
        del self._ids[:cut]
        self._borders = [border - cut for border in self._borders if border >= cut]
        self._held_from = max(0, self._held_from - cut)
        self._text = self._decode()
        # From the end: the first id of a window may be written otherwise than in the middle of a text.
        self._emitted = len(self._text) - held
        return overdue

    def _decode(self) -> str:
        return str(self._tokenizer.decode(self._ids, skip_special_tokens=False))


class ByteRunDetokenizer:
    """A window for decoders with byte fallback: bytes are joined here, and enter the window as whole characters.

    Left to the decoder, one bad byte would turn a run of any length into U+FFFD, characters already shown included.
    """

    cause = HoldCause.UTF8

    def __init__(self, window: WindowDetokenizer, byte_tokens: Mapping[int, int]) -> None:
        """``byte_tokens`` has the byte of each byte token; there must be all 256."""
        self._window = window
        self._byte_of = byte_tokens
        self._id_of = {byte: token_id for token_id, byte in byte_tokens.items()}
        self._utf8 = Utf8Decoder(PER_BYTE)

    @property
    def held(self) -> int:
        """Bytes that wait."""
        return self._utf8.held

    def push(self, token_id: int) -> str:
        """Return the text that is certain with this id; an id without a text adds nothing."""
        if not self._window.reads(token_id):
            return ""
        byte = self._byte_of.get(token_id)
        if byte is not None:
            return self._show(self._utf8.push(bytes([byte])))
        return self._show(self._utf8.flush()) + self._window.push(token_id)

    def flush(self) -> str:
        """Return one U+FFFD for each byte that waited."""
        return self._show(self._utf8.flush())

    def _show(self, text: str) -> str:
        """Pass characters through the window, which may strip a space at the start."""
        return "".join(self._window.push_group([self._id_of[byte] for byte in char.encode()]) for char in text)
