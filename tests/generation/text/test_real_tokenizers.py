"""The vocabularies and texts of the real world: reported cases, the Declaration of Human Rights, grapheme clusters."""

import html
import itertools
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.output import Delta
from generation.text import BytesPipeline, TextPipeline, Tier, Verdict, Vocabulary, prove
from tests.real_tokenizers import GRAPHEME_BREAKS, LARGE_TOKENIZERS, UDHR, fetched, real_vocabulary

pytestmark = pytest.mark.model

NAMES = ["llama", "qwen3", "smollm2"]
if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz":
    NAMES += LARGE_TOKENIZERS
#: Languages of the Declaration, each in a script of its own.
SCRIPTS = (
    "amh", "arb", "ben", "bod", "cmn_hans", "div", "ell_monotonic", "guj", "heb",
    "hin", "hye", "jpn", "kan", "kat", "khm", "kor", "lao",
    "mal", "mya", "pan", "rus", "sin", "tam", "tel", "tha",
)  # fmt: skip
CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "detokenizer.jsonl").read_text(encoding="utf-8").splitlines()
]


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


def streamed(vocabulary: Vocabulary, ids: list[int], *, per_push: int = 1) -> list[str]:
    """The text so far after each push, and after the flush."""
    pipeline = TextPipeline(vocabulary)
    pushes = [ids[start : start + per_push] for start in range(0, len(ids), per_push)]
    return list(itertools.accumulate([*(text_of(pipeline.push(push)) for push in pushes), text_of(pipeline.flush())]))


def declaration(language: str) -> str:
    page = (fetched(UDHR) / "declaration" / f"{language}.html").read_text(encoding="utf-8")
    return html.unescape(re.sub(r"<[^>]*>", "", page))


@pytest.mark.parametrize("name", NAMES)
def test_ids_are_read_from_the_table(name: str) -> None:
    assert real_vocabulary(name).tier is Tier.TABLE


@pytest.mark.parametrize("case", CASES, ids=[f"{case['id']} {case['source']}" for case in CASES])
class TestReportedCases:
    @pytest.mark.parametrize("per_push", [1, 2, 3, 100])
    def test_text_is_right(self, case: dict[str, Any], per_push: int) -> None:
        assert streamed(real_vocabulary(case["tokenizer"]), case["ids"], per_push=per_push)[-1] == case["text"]

    def test_text_so_far_is_a_prefix_when_cut_anywhere(self, case: dict[str, Any]) -> None:
        vocabulary = real_vocabulary(case["tokenizer"])
        for count, shown in enumerate(streamed(vocabulary, case["ids"])[:-1], start=1):
            assert case["text"].startswith(shown)
            ended_here = streamed(vocabulary, case["ids"][:count])[-1]
            assert prove(vocabulary, case["ids"][:count], ended_here).verdict is not Verdict.DIFFERENT


class TestTutorial:
    def test_text_encodes_to_the_ids_of_the_tutorial(self) -> None:
        ids = real_vocabulary("llama").tokenizer.encode("The chai is ready", add_special_tokens=False).ids
        assert ids == [450, 521, 1794, 338, 7960]

    def test_spaces_are_lost_only_when_decoded_one_by_one(self) -> None:
        vocabulary = real_vocabulary("llama")
        ids = [450, 521, 1794, 338, 7960]
        assert "".join(vocabulary.tokenizer.decode([token_id]) for token_id in ids) == "Thechaiisready"
        assert [delta.text for delta in TextPipeline(vocabulary).push(ids)] == ["The", " ch", "ai", " is", " ready"]


class TestProperties:
    @given(st.sampled_from(NAMES), st.lists(st.integers(0, 2**18), max_size=12))
    def test_text_is_the_whole_decode_when_ids_are_random(self, name: str, numbers: list[int]) -> None:
        vocabulary = real_vocabulary(name)
        ids = [number % (len(vocabulary.tokens) + 2) for number in numbers]
        verdict = prove(vocabulary, ids, streamed(vocabulary, ids)[-1]).verdict
        assert verdict in ({Verdict.EQUAL, Verdict.INVALID_BYTES} if vocabulary.byte_tokens else {Verdict.EQUAL})

    @given(st.sampled_from(NAMES), st.text(max_size=16))
    def test_text_equals_the_tokenizers_decode_when_it_is_valid(self, name: str, text: str) -> None:
        vocabulary = real_vocabulary(name)
        ids = vocabulary.tokenizer.encode(text, add_special_tokens=False).ids
        assert streamed(vocabulary, ids)[-1] == vocabulary.tokenizer.decode(ids)


class TestDeclarationOfHumanRights:
    def test_scripts_are_twenty_or_more(self) -> None:
        assert len(SCRIPTS) == 25

    @pytest.mark.parametrize("language", SCRIPTS)
    def test_text_survives_when_cut_every_n_bytes(self, language: str) -> None:
        text = declaration(language)
        assert len(text) > 2000
        written = text.encode()
        for size in range(1, 8):
            pipeline = BytesPipeline()
            shown = [text_of(pipeline.push(written[start : start + size])) for start in range(0, len(written), size)]
            assert "".join(shown) + text_of(pipeline.flush()) == text
            assert not any("\ufffd" in piece for piece in shown)

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("language", SCRIPTS)
    def test_text_equals_the_tokenizers_decode(self, language: str, name: str) -> None:
        vocabulary = real_vocabulary(name)
        ids = vocabulary.tokenizer.encode(declaration(language)[:4000], add_special_tokens=False).ids
        assert streamed(vocabulary, ids)[-1] == vocabulary.tokenizer.decode(ids)


def test_grapheme_clusters_survive_when_bytes_come_singly() -> None:
    listed = (fetched(GRAPHEME_BREAKS) / "tests" / "GraphemeBreakTest.txt").read_text(encoding="utf-8")
    lines = [line.partition("#")[0] for line in listed.splitlines()]
    texts = [
        "".join(chr(int(code, 16)) for code in re.findall(r"[0-9A-F]{4,}", line)) for line in lines if line.strip()
    ]
    assert len(texts) == 822
    for text in texts:
        # A lone surrogate stands in some lines; no UTF-8 can carry it.
        written = text.encode(errors="replace")
        pipeline = BytesPipeline()
        shown = "".join(text_of(pipeline.push(bytes([byte]))) for byte in written) + text_of(pipeline.flush())
        assert shown == written.decode()
