from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.admin.visible import Segment, visible_html, visible_line, visible_segments


def shown(text: str, *, whitespace: bool = True) -> list[tuple[str, str]]:
    return [(segment.text, segment.name) for segment in visible_segments(text, whitespace=whitespace)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("plain", [("plain", "")], id="plain"),
        pytest.param("a b", [("a", ""), ("·", "space"), ("b", "")], id="space"),
        pytest.param("a\n", [("a", ""), ("⏎", "line feed")], id="line feed"),
        pytest.param("\t", [("⇥", "tab")], id="tab"),
        pytest.param("\r\n", [("\\x0d", "carriage return"), ("⏎", "line feed")], id="crlf"),
        pytest.param("a\0b", [("a", ""), ("\\x00", "null"), ("b", "")], id="NUL"),
        pytest.param("\x1b[31m", [("\\x1b", "escape"), ("[31m", "")], id="ANSI"),
        pytest.param("\x9b", [("\\x9b", "U+009B")], id="C1 control"),
        pytest.param("\x7f", [("\\x7f", "U+007F")], id="DEL"),
        pytest.param("\u202etxt", [("U+202E", "right-to-left override"), ("txt", "")], id="bidi override"),
        pytest.param("\u2066", [("U+2066", "left-to-right isolate")], id="bidi isolate"),
        pytest.param("\u061c", [("U+061C", "arabic letter mark")], id="arabic letter mark"),
        pytest.param("\u00a0", [("U+00A0", "no-break space")], id="no-break space"),
        pytest.param("\u200b", [("U+200B", "zero width space")], id="zero width space"),
        pytest.param("\ufeff", [("U+FEFF", "zero width no-break space")], id="byte order mark"),
        pytest.param("\u2028", [("U+2028", "line separator")], id="line separator"),
        pytest.param("\U000e0041", [("U+E0041", "tag latin capital letter a")], id="tag character"),
        pytest.param("\ud800", [("U+D800", "U+D800")], id="lone surrogate"),
        pytest.param("नमस्ते", [("नमस्ते", "")], id="Devanagari"),
        pytest.param("👨\u200d👩\u200d👧", [("👨\u200d👩\u200d👧", "")], id="joined emoji"),
        pytest.param("\u200d👩", [("U+200D", "zero width joiner"), ("👩", "")], id="joiner at the edge"),
        pytest.param("a\u200cb", [("a", ""), ("U+200C", "zero width non-joiner"), ("b", "")], id="joiner in ASCII"),
        pytest.param("❤\ufe0f", [("❤\ufe0f", "")], id="variation selector"),
        pytest.param("\ufe0f", [("U+FE0F", "variation selector-16")], id="variation selector alone"),
    ],
)
def test_unseen_characters_become_escapes_when_shown(text: str, expected: list[tuple[str, str]]) -> None:
    assert shown(text) == expected


def test_white_space_stays_when_not_asked_for() -> None:
    assert shown("a b\n\tc\u3000d", whitespace=False) == [("a b\n\tc\u3000d", "")]


def test_controls_are_escaped_when_white_space_stays() -> None:
    assert shown("a \x1b\r\u202e", whitespace=False) == [
        ("a ", ""),
        ("\\x1b", "escape"),
        ("\\x0d", "carriage return"),
        ("U+202E", "right-to-left override"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("  one\n\n two\t", "one two", id="white space collapses"),
        pytest.param("a\x1b[0mb", "a\\x1b[0mb", id="escape sequence"),
        pytest.param("\u202eevil", "U+202Eevil", id="bidi override"),
        pytest.param("<b>", "<b>", id="markup is the template's business"),
    ],
)
def test_text_fits_one_line_when_listed(text: str, expected: str) -> None:
    assert visible_line(text) == expected


@given(st.text(st.sampled_from("ab \n\t\r\0\x1b\u202e\u200d\u200b\ufe0f👩नि")))
def test_no_character_is_lost_when_cut_into_segments(text: str) -> None:
    segments = visible_segments(text)
    assert sum(len(segment.text) if not segment.name else 1 for segment in segments) == len(text)


def test_every_part_is_escaped_when_made_html() -> None:
    assert visible_html('<b>&"\x1b') == '&lt;b&gt;&amp;&quot;<span class="unseen" title="escape">\\x1b</span>'


def test_segments_stay_whole_when_nothing_is_hidden() -> None:
    assert visible_segments("<script>") == [Segment(text="<script>")]
