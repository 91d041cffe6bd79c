from __future__ import annotations

import io

import pytest

from generation.replay.terminal import carry_every_text, harmless


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m", id="colour"),
        pytest.param("\x1b]0;title\x07", "\\x1b]0;title\\x07", id="window title"),
        pytest.param("\x9b2J", "\\x9b2J", id="8-bit CSI"),
        pytest.param("secret\rpublic", "secret\\x0dpublic", id="carriage return"),
        pytest.param("a\b\x7f\0", "a\\x08\\x7f\\x00", id="controls"),
        pytest.param("\u202egnp.exe\u202c", "\\u202egnp.exe\\u202c", id="bidi override"),
        pytest.param("\u2066a\u2069\u200f\u061c", "\\u2066a\\u2069\\u200f\\u061c", id="isolates and marks"),
        pytest.param("a\u2028b\u2029", "a\\u2028b\\u2029", id="separators"),
        pytest.param("\ud83d", "\\ud83d", id="half a pair"),
    ],
)
def test_what_steers_a_terminal_is_spelled_out(text: str, shown: str) -> None:
    assert harmless(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a\tb\nc\\x1b", id="white space and backslash"),
        pytest.param("👩🏽‍🚀 🏳️‍🌈 1️⃣", id="emoji"),
        pytest.param("می‌خواهم", id="Persian with a non-joiner"),
        pytest.param("שלום नमस्ते 안녕 ไทย", id="scripts"),
    ],
)
def test_text_is_left_alone_when_it_is_only_text(text: str) -> None:
    assert harmless(text) == text


def test_a_pipe_takes_every_character_when_the_locale_does_not() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", errors="strict")
    carry_every_text(out)
    out.write("नमस्ते \ud83d")
    out.flush()
    assert raw.getvalue() == b"\xe0\xa4\xa8\xe0\xa4\xae\xe0\xa4\xb8\xe0\xa5\x8d\xe0\xa4\xa4\xe0\xa5\x87 \\ud83d"


def test_a_terminal_keeps_its_encoding() -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    raw = io.BytesIO()
    out = Terminal(raw, encoding="latin-1")
    carry_every_text(out)
    out.write("é–")
    out.flush()
    assert raw.getvalue() == b"\xe9\\u2013"
