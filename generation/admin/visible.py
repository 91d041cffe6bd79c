"""Strangers' text made visible: what nobody could see, or what could mislead the eye, becomes an escape.

In: any text. Out: segments, of which one that stands for a character has that character's name; HTML of them with
every part escaped; or one plain line. Segments drop and reorder nothing.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

# Controls, spaces, line separators, bidi controls, joiners, fillers, variation selectors, tags: every code point that
# paints nothing of its own (Unicode's White_Space, Default_Ignorable_Code_Point, Cc and Cs).
_UNSEEN = re.compile(
    "[\x00-\x20\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f"
    "\u205f-\u206f\u3000\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_JOINERS = frozenset("\u200c\u200d")
_MARKS = {" ": "·", "\n": "⏎", "\t": "⇥"}
_NAMES = {"\n": "line feed", "\t": "tab", "\r": "carriage return", "\0": "null", "\x1b": "escape"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A run of text as it is (``name`` empty), or the visible stand-in for one character."""

    text: str
    name: str = ""


def visible_segments(text: str, *, whitespace: bool = True) -> list[Segment]:
    """Split text into plain runs and escapes; without ``whitespace``, ordinary white space stays as it is."""
    segments = []
    end = 0
    for match in _UNSEEN.finditer(text):
        character, index = match.group(), match.start()
        if (not whitespace and _spaces(character)) or _shapes(text, index):
            continue
        if index > end:
            segments.append(Segment(text=text[end:index]))
        segments.append(Segment(text=_MARKS.get(character) or _escape(character), name=_name(character)))
        end = match.end()
    if end < len(text):
        segments.append(Segment(text=text[end:]))
    return segments


def visible_html(text: str, *, whitespace: bool = True) -> SafeString:
    """The segments as HTML, stand-ins marked; made here rather than in a template, which would cost 500 includes."""
    segments = visible_segments(text, whitespace=whitespace)
    return format_html_join("", "{}", ((_markup(segment),) for segment in segments))


def visible_line(text: str) -> str:
    """The text on one line: white space collapsed, everything else unseen escaped."""
    line = " ".join(text.split())
    return "".join(segment.text for segment in visible_segments(line, whitespace=False))


def _markup(segment: Segment) -> str:
    """Plain text, which the caller escapes, or a marked stand-in, whose parts are escaped here."""
    if not segment.name:
        return segment.text
    return format_html('<span class="unseen" title="{}">{}</span>', segment.name, segment.text)


def _spaces(character: str) -> bool:
    """Whether a character is white space that a reader expects; a carriage return is not, as HTML would change it."""
    return character in " \n\t" or unicodedata.category(character) == "Zs"


def _shapes(text: str, index: int) -> bool:
    """Whether an unseen character is at work on its neighbours: a joiner inside a word or emoji, a variation selector.

    At the edge of a delta it is all there is to see of that delta's bytes, and beside ASCII it joins nothing.
    """
    character = text[index]
    if "\ufe00" <= character <= "\ufe0f":
        return index > 0
    return character in _JOINERS and 0 < index < len(text) - 1 and not (text[index - 1] + text[index + 1]).isascii()


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0xA0 else f"U+{code:04X}"


def _name(character: str) -> str:
    known = _NAMES.get(character) or unicodedata.name(character, "").lower()
    return known or f"U+{ord(character):04X}"
