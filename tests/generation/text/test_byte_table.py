import pytest

from generation.text import Vocabulary
from generation.text.byte_table import BYTE_TOKEN
from tests.generation.text.families import LLAMA_STEPS, byte_fallback, byte_level


def streamed(vocabulary: Vocabulary, tokens: list[str]) -> list[str]:
    detokenizer = vocabulary.detokenizer()
    ids = [vocabulary.tokenizer.token_to_id(token) for token in tokens]
    assert None not in ids
    return [*(detokenizer.push(token_id) for token_id in ids), detokenizer.flush()]


def run(data: bytes) -> list[str]:
    return [f"<0x{byte:02X}>" for byte in data]


class TestByteFallback:
    vocabulary = Vocabulary(byte_fallback())

    @pytest.mark.parametrize(
        ("tokens", "expected"),
        [
            pytest.param([*run(b"\xe2\x82\xac\xe2"), "▁x"], ["", "", "€", "", "\ufffd x", ""], id="vllm#17448"),
            pytest.param(run(b"\xe2\x82"), ["", "", "\ufffd\ufffd"], id="one U+FFFD for each byte at the end"),
            pytest.param([*run(b"\xe2"), "", "a"], ["", "\ufffd", "a", ""], id="an empty token ends a run"),
            pytest.param(["▁", "▁x"], ["", " x", ""], id="one space is stripped"),
            pytest.param(["▁▁", "x"], [" ", "x", ""], id="one of two spaces is stripped"),
            pytest.param([*run(b" "), "x"], ["", "x", ""], id="a space byte is stripped"),
            pytest.param(["x", "▁x"], ["x", " x", ""], id="a later space stays"),
            pytest.param(["", "▁x"], ["", "x", ""], id="an empty token does not use up the strip"),
            pytest.param(["a", "\ufffd"], ["a", "\ufffd", ""], id="a genuine U+FFFD passes at once"),
            pytest.param([*run(b"\xe2"), "▁x"], ["", "\ufffd x", ""], id="a leftover byte before a space"),
        ],
    )
    def test_tokens_give_their_text(self, tokens: list[str], expected: list[str]) -> None:
        assert streamed(self.vocabulary, tokens) == expected

    def test_first_space_stays_when_the_decoder_does_not_strip(self) -> None:
        assert streamed(Vocabulary(byte_fallback(*LLAMA_STEPS[:3])), ["▁x"]) == [" x", ""]

    def test_skipped_token_does_not_end_a_run(self) -> None:
        assert streamed(self.vocabulary, ["<0xE2>", "<s>", "<0x82>", "<0xAC>"]) == ["", "", "", "€", ""]

    @pytest.mark.parametrize("token", ["<0x4>", "<0x4G>", "<0x041>", "0x41", " <0x41>"])
    def test_token_is_text_when_it_is_not_quite_a_byte(self, token: str) -> None:
        assert BYTE_TOKEN.fullmatch(token) is None


class TestByteLevel:
    vocabulary = Vocabulary(byte_level())

    def shown(self, *pieces: bytes) -> list[str]:
        """Push the tokens that stand for these bytes."""
        by_bytes = {b" the": 258, b"ch": 259, b"\xe0\xa4": 260, b"\xa4\x86": 261, b"\x98\x95 ": 262}
        detokenizer = self.vocabulary.detokenizer()
        ids = [by_bytes[piece] if piece in by_bytes else piece[0] for piece in pieces]
        return [*(detokenizer.push(token_id) for token_id in ids), detokenizer.flush()]

    def test_token_may_end_and_begin_characters(self) -> None:
        assert self.shown(b"\xe0", b"\xa4\x86", b"\xe2", b"\x98\x95 ") == ["", "आ", "", "☕ ", ""]

    def test_text_token_ends_a_broken_character(self) -> None:
        assert self.shown(b"\xe0\xa4", b"ch") == ["", "\ufffdch", ""]

    def test_cut_character_is_one_replacement_character(self) -> None:
        assert self.shown(b"\xe0\xa4") == ["", "\ufffd"]
