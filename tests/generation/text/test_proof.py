import hashlib

import pytest

from generation.text import TextPipeline, Verdict, Vocabulary, prove
from tests.byte_tokenizer import END, END_ID, byte_tokenizer
from tests.generation.text.families import byte_fallback

BYTES = Vocabulary(byte_tokenizer())
FALLBACK = Vocabulary(byte_fallback())


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def fallback_ids(*tokens: str) -> list[int]:
    return [FALLBACK.tokenizer.token_to_id(token) for token in tokens]


class TestVerdict:
    @pytest.mark.parametrize(
        ("text", "verdict"),
        [
            pytest.param("a€", Verdict.EQUAL, id="right"),
            pytest.param("a", Verdict.DIFFERENT, id="character lost"),
            pytest.param("aa€", Verdict.DIFFERENT, id="character twice"),
            pytest.param("a\ufffd", Verdict.DIFFERENT, id="broken character"),
        ],
    )
    def test_text_is_compared_with_the_whole_decode(self, text: str, verdict: Verdict) -> None:
        proof = prove(BYTES, list("a€".encode()), text)
        assert proof.verdict is verdict
        assert proof.text_sha256 == digest(text)
        assert proof.reference_sha256 == digest("a€")

    @pytest.mark.parametrize(
        ("text", "verdict"),
        [
            pytest.param("a€", Verdict.EQUAL, id="all of it"),
            pytest.param("a", Verdict.PREFIX, id="a part"),
            pytest.param("", Verdict.PREFIX, id="nothing"),
            pytest.param("b", Verdict.DIFFERENT, id="something else"),
            pytest.param("a€b", Verdict.DIFFERENT, id="more"),
        ],
    )
    def test_a_cut_stream_may_have_said_the_beginning_only(self, text: str, verdict: Verdict) -> None:
        assert prove(BYTES, list("a€".encode()), text, cut=True).verdict is verdict

    def test_invalid_run_is_told_from_a_wrong_text(self) -> None:
        ids = fallback_ids("<0xE2>", "<0x82>", "<0xAC>", "<0xE2>", "▁x")
        assert prove(FALLBACK, ids, "€\ufffd x").verdict is Verdict.INVALID_BYTES
        assert prove(FALLBACK, ids, "\ufffd\ufffd\ufffd\ufffd x").verdict is Verdict.EQUAL
        assert prove(FALLBACK, ids, "€ x").verdict is Verdict.DIFFERENT
        assert prove(FALLBACK, ids, "€\ufffd x").reference_sha256 == digest("\ufffd\ufffd\ufffd\ufffd x")

    def test_valid_run_must_be_equal(self) -> None:
        assert prove(FALLBACK, fallback_ids("<0xE2>", "<0x82>", "<0xAC>"), "€").verdict is Verdict.EQUAL

    def test_unknown_ids_and_skipped_tokens_are_not_part_of_the_text(self) -> None:
        assert prove(BYTES, [ord("a"), 5000, END_ID, ord("b")], "ab").verdict is Verdict.EQUAL
        ids = [ord("a"), END_ID]
        assert prove(BYTES, ids, "a" + END, skip_special_tokens=False).verdict is Verdict.EQUAL

    def test_nothing_equals_nothing(self) -> None:
        assert prove(BYTES, [], "").verdict is Verdict.EQUAL


class TestUpToTheStop:
    @pytest.mark.parametrize(
        ("stop", "include_stop", "text"),
        [
            pytest.param(["lo", "ell"], False, "h", id="first to complete"),
            pytest.param(["ell"], True, "hell", id="included"),
            pytest.param(["lo", "llo"], False, "he", id="longest of the same end"),
            pytest.param(["x"], True, "hello", id="none"),
        ],
    )
    def test_reference_ends_at_the_stop_string(self, stop: list[str], include_stop: bool, text: str) -> None:
        assert prove(BYTES, list(b"hello"), text, stop=stop, include_stop=include_stop).verdict is Verdict.EQUAL

    @pytest.mark.parametrize(("include_stop", "text"), [(False, "a"), (True, "a" + END)], ids=["left", "included"])
    def test_reference_ends_at_a_special_token_that_is_a_stop(self, include_stop: bool, text: str) -> None:
        ids = [ord("a"), END_ID, ord("b")]
        assert prove(BYTES, ids, text, stop=[END], include_stop=include_stop).verdict is Verdict.EQUAL


def test_reference_goes_on_from_the_prompt() -> None:
    the = fallback_ids("▁the")
    assert prove(FALLBACK, the, " the", prompt_ids=the).verdict is Verdict.EQUAL
    assert prove(FALLBACK, the, "the").verdict is Verdict.EQUAL


@pytest.mark.parametrize(
    ("prompt", "generated"),
    [
        pytest.param(b"caf\xc3", b"\xa9!", id="the character is finished"),
        pytest.param(b"caf\xc3", b"e!", id="the character is broken"),
        pytest.param(b"\xe2\x82", b"\xac\xe2\x82\xac", id="another follows"),
    ],
)
def test_text_is_what_was_generated_when_the_prompt_ends_inside_a_character(prompt: bytes, generated: bytes) -> None:
    pipeline = TextPipeline(BYTES, prompt_ids=list(prompt))
    deltas = [delta for token_id in generated for delta in pipeline.push(token_id)] + pipeline.flush()
    text = "".join(delta.text for delta in deltas)
    assert text == generated.decode(errors="replace")
    assert prove(BYTES, list(generated), text, prompt_ids=list(prompt)).verdict is Verdict.EQUAL
