"""Bytes in, whole characters out; the same for text whose surrogate pairs were cut apart.

What comes out is always valid text: what cannot become a character any more is U+FFFD, and at most three bytes wait.
Cutting the input differently never changes the joined output.
"""

from __future__ import annotations

import codecs
from codecs import utf_8_decode
from typing import Final

from generation.output import HoldCause

#: One U+FFFD per maximal part of a broken character: the WHATWG decoder, Rust's `from_utf8_lossy`, browsers.
PER_CHARACTER: Final = "replace"
#: One U+FFFD per byte: what byte-fallback tokenizers show for bytes that are no character.
PER_BYTE: Final = "streamsite-replace-each-byte"


def _replace_each_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd" * (error.end - error.start), error.end


codecs.register_error(PER_BYTE, _replace_each_byte)


class Utf8Decoder:
    """Decode UTF-8 that arrives in pieces; ``pending`` is the start of a character that is not whole yet."""

    cause = HoldCause.UTF8
    __slots__ = ("_errors", "pending")

    def __init__(self, errors: str = PER_CHARACTER) -> None:
        self.pending = b""
        self._errors = errors

    @property
    def held(self) -> int:
        """Bytes that wait."""
        return len(self.pending)

    def push(self, piece: bytes) -> str:
        """Return the characters that are whole with this piece."""
        unread = self.pending + piece
        text, used = utf_8_decode(unread, self._errors, False)
        self.pending = unread[used:]
        return text

    def flush(self) -> str:
        """Give up on the waiting bytes: they become U+FFFD."""
        text, _ = utf_8_decode(self.pending, self._errors, True)
        self.pending = b""
        return text


class SurrogateJoiner:
    """Join surrogate pairs that a JSON escape per half had cut apart; a half that stays alone becomes U+FFFD.

    Text of other servers can hold such halves, and no encoder downstream could send them.
    """

    cause = HoldCause.UTF8
    __slots__ = ("_decoder",)

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-16-le")("replace")

    @property
    def held(self) -> int:
        """Bytes that wait (two: one half of a pair)."""
        return len(self._decoder.getstate()[0])

    def push(self, piece: str) -> str:
        """Return the text that is sound with this piece."""
        return self._decoder.decode(piece.encode("utf-16-le", "surrogatepass"))

    def flush(self) -> str:
        """Give up on the waiting half: it becomes U+FFFD."""
        return self._decoder.decode(b"", final=True)
