from __future__ import annotations

import unicodedata

import pytest

from generation.backends.scripted import DemoScriptsBackend
from tests.generation.backends.asking import ask, read, text


def demo() -> DemoScriptsBackend:
    return DemoScriptsBackend("demo", delay_s=0.0)


async def answer(question: str) -> str:
    return text(await read(await demo().stream(ask(question))))


@pytest.mark.parametrize(
    ("question", "script"),
    [
        ("Latin, please", "LATIN"),
        ("Say it in Greek!", "GREEK"),
        ("russian", "CYRILLIC"),
        ("Arabic?", "ARABIC"),
        ("HEBREW", "HEBREW"),
        ("Hindi", "DEVANAGARI"),
        ("in Bengali", "BENGALI"),
        ("tamil", "TAMIL"),
        ("Thai", "THAI"),
        ("Korean", "HANGUL"),
        ("Chinese", "CJK"),
        ("Japanese", "HIRAGANA"),
    ],
)
async def test_answer_is_in_one_script_when_the_message_names_it(question: str, script: str) -> None:
    shown = await answer(question)
    letters = [unicodedata.name(character) for character in shown if character.isalpha()]
    assert sum(script in name for name in letters) / len(letters) > 0.6
    assert "\n" not in shown


@pytest.mark.parametrize("question", ["Hello!", "Thanks, than you", "", "What is a flagpole?"])
async def test_answer_has_every_script_by_name_when_none_is_named(question: str) -> None:
    lines = (await answer(question)).split("\n")
    assert [line.split(": ")[0] for line in lines] == [
        "Latin",
        "Greek",
        "Cyrillic",
        "Arabic",
        "Hebrew",
        "Devanagari",
        "Bengali",
        "Tamil",
        "Thai",
        "Hangul",
        "Han",
        "Kana",
        "Families",
        "Skin tones",
        "Flags",
        "Keycaps",
        "Combining marks",
    ]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        pytest.param("families", "👨‍👩‍👧‍👦", id="joined"),
        pytest.param("skin tones", "👋🏿", id="skin tone"),
        pytest.param("flags", "🇮🇳", id="flag of two letters"),
        pytest.param("flags", "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", id="flag of tags"),
        pytest.param("keycaps", "1️⃣", id="keycap"),
        pytest.param("combining", "q̃", id="no single code point"),
    ],
)
async def test_hard_characters_arrive_whole_when_asked_for(question: str, expected: str) -> None:
    assert expected in await answer(question)


async def test_pieces_are_cut_inside_characters_when_streamed() -> None:
    deltas = await read(await demo().stream(ask("Tamil")))
    assert sum(bool(delta.holds) for delta in deltas) > 10
    assert all("\ufffd" not in delta.text for delta in deltas)


def test_card_says_that_it_is_a_demonstration_when_listed() -> None:
    (card,) = demo().models()
    assert (card.id, card.title, card.licence) == ("demo-scripts", "Demo: scripts and emoji", "MIT")
