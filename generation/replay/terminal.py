"""Text on its way to a terminal: whatever a terminal would obey instead of show becomes a visible escape.

In: any text, cut anywhere; one character decides alone, so cuts do not matter. Letters, joiners and variation
selectors pass, or words in Persian and families of emoji would fall apart. A pipe gets the text as it is.
"""

from __future__ import annotations

import io
import re

# Controls (CSI and OSC among them, 7-bit and 8-bit) but tab and line feed; bidi marks, embeddings, overrides and
# isolates; line and paragraph separator; halves of surrogate pairs.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    """The same text with every character that steers a terminal spelled out."""
    return _OBEYED.sub(lambda found: _spelled(ord(found[0])), text)


def carry_every_text(out: io.TextIOBase) -> None:
    """Let no write to a command's output fail in the middle of an answer: a pipe is UTF-8, whatever the locale says."""
    reconfigure = getattr(out, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(encoding=None if out.isatty() else "utf-8", errors="backslashreplace")


def _spelled(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
