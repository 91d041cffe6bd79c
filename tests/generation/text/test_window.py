import pytest
from tokenizers import Tokenizer, decoders

from generation.exceptions import EngineError
from generation.text import Vocabulary
from generation.text.window import WINDOW, WindowDetokenizer
from tests.generation.text.families import byte_level, families, word_level


def shown(name: str, *tokens: str) -> list[str]:
    vocabulary = families()[name].vocabulary
    detokenizer = vocabulary.detokenizer()
    return [*(detokenizer.push(vocabulary.tokenizer.token_to_id(token)) for token in tokens), detokenizer.flush()]


@pytest.mark.parametrize(
    ("name", "tokens", "expected"),
    [
        pytest.param(
            "word_piece", ["chai", "is", "ready", "##'s", "."], ["chai", " is", " ready", "'s", "."], id="words"
        ),
        pytest.param("metaspace", ["▁the", "chai", "▁the", "▁"], ["the", "chai", " the", " "], id="metaspace"),
        pytest.param("bpe_suffix", ["chai</w>", "is", "re</w>"], ["chai", " is", "re"], id="suffix"),
        pytest.param("ctc", ["a", "a", "<pad>", "a", "|", "is"], ["a", "", "", "a", " ", "is"], id="ctc"),
        pytest.param("no_decoder", ["chai", "\ufffd", "is"], ["chai", " \ufffd", " is"], id="none"),
    ],
)
def test_tokens_are_read_with_their_neighbours(name: str, tokens: list[str], expected: list[str]) -> None:
    assert shown(name, *tokens) == [*expected, ""]


def test_first_space_is_dropped_only_at_the_start_when_the_window_has_slid() -> None:
    vocabulary = families()["metaspace"].vocabulary
    the = vocabulary.tokenizer.token_to_id("▁the")
    detokenizer = vocabulary.detokenizer()
    assert [detokenizer.push(the) for _ in range(5 * WINDOW)] == ["the"] + [" the"] * (5 * WINDOW - 1)


def test_waiting_character_comes_out_when_the_window_slides_past_it() -> None:
    """Tokens without text behind half a character: it cannot wait for ever."""
    tokenizer = byte_level(decoders.Sequence([decoders.ByteLevel(), decoders.Replace("\x00", "")]))
    detokenizer = Vocabulary(tokenizer).detokenizer()
    shown = [detokenizer.push(token_id) for token_id in [0xE2] + [0] * (2 * WINDOW)]
    assert "".join(shown) == "\ufffd"


def test_half_a_character_waits_when_the_window_slides_in_the_middle_of_it() -> None:
    vocabulary = families()["byte_level_window"].vocabulary
    for before in range(WINDOW - 4, WINDOW + 4):
        detokenizer = vocabulary.detokenizer()
        ids = [ord("a")] * before + [*"😀".encode()]
        assert "".join(detokenizer.push(token_id) for token_id in ids) == "a" * before + "😀"


def test_divergence_is_counted_and_nothing_is_emitted_twice() -> None:
    """A decoder that would be refused at load, fed by hand."""
    tokenizer = word_level(decoders.Sequence([decoders.Fuse(), decoders.Replace("--", "—")]), "-", "a")
    detokenizer = window(tokenizer)
    ids = [tokenizer.token_to_id(token) for token in ("a", "-", "-", "a")]
    assert [detokenizer.push(token_id) for token_id in ids] == ["a", "-", "", "a"]
    assert detokenizer.divergences == 1


def test_negative_id_is_an_error() -> None:
    with pytest.raises(EngineError, match="got -5"):
        window(word_level(None, "a")).push(-5)


def window(tokenizer: Tokenizer) -> WindowDetokenizer:
    tokens = [tokenizer.id_to_token(token_id) for token_id in range(20)]
    return WindowDetokenizer(tokenizer, tokens, skipped=(), joins_bytes=False)


class TestByteRuns:
    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            pytest.param("☕é".encode(), "☕é", id="valid"),
            pytest.param(b"\xe2\x82\xac\xe2", "€\ufffd", id="cut"),
            pytest.param(b"\x0b\x8e\x1f", "\x0b\ufffd\x1f", id="bad byte in the middle"),
            pytest.param("😀".encode() * 12 + b"\xf0\x9f", "😀" * 12 + "\ufffd\ufffd", id="longer than the window"),
        ],
    )
    def test_good_characters_stay_when_a_run_is_broken(self, data: bytes, expected: str) -> None:
        assert "".join(shown("byte_fallback_window", "a", *(f"<0x{byte:02X}>" for byte in data))) == "a" + expected
