import logging

import pytest
from tokenizers import Tokenizer, decoders, models

from generation.exceptions import BackendUnavailableError
from generation.text import Tier, Vocabulary
from tests.byte_tokenizer import byte_tokenizer
from tests.generation.text.families import LLAMA_STEPS, TIERS, byte_fallback, byte_level, families, word_level


def streamed(vocabulary: Vocabulary, ids: list[int], *, skip_special_tokens: bool = True) -> str:
    detokenizer = vocabulary.detokenizer(skip_special_tokens=skip_special_tokens)
    return "".join(detokenizer.push(token_id) for token_id in ids) + detokenizer.flush()


class BracketDecoder:
    """A decoder written in Python that works token by token."""

    def decode_chain(self, tokens: list[str]) -> list[str]:
        return [f"[{token}]" for token in tokens]


class ReversingDecoder:
    """A decoder written in Python that no stream can follow."""

    def decode_chain(self, tokens: list[str]) -> list[str]:
        return tokens[::-1]


class TestChoiceOfTier:
    @pytest.mark.parametrize("name", sorted(families()))
    def test_tier_fits_the_decoder(self, name: str) -> None:
        assert families()[name].vocabulary.tier == TIERS[name]

    def test_choice_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, "generation.text"):
            Vocabulary(byte_tokenizer())
        assert caplog.messages == ["Tokenizer with 257 tokens, decoder ByteLevel: tier table."]

    def test_window_is_used_when_the_table_disagrees_with_the_tokenizer(self) -> None:
        """A token written like a byte, with a sign: the library reads it as a byte, the table as text."""
        tokenizer = byte_fallback()
        tokenizer.add_tokens(["<0x+A>"])
        assert tokenizer.decode([tokenizer.token_to_id("<0x+A>")]) == "\n"
        assert Vocabulary(tokenizer).tier is Tier.WINDOW

    def test_decoder_written_in_python_gets_the_window_when_it_works_token_by_token(self) -> None:
        tokenizer = byte_tokenizer()
        tokenizer.decoder = decoders.Decoder.custom(BracketDecoder())
        vocabulary = Vocabulary(tokenizer)
        assert vocabulary.tier is Tier.WINDOW
        assert streamed(vocabulary, list(b"ab") * 20) == "[a][b]" * 20

    def test_vocabulary_is_returned_as_it_is_when_loaded_again(self) -> None:
        vocabulary = Vocabulary.load(byte_tokenizer())
        assert Vocabulary.load(vocabulary) is vocabulary


class TestRefusal:
    @pytest.mark.parametrize(
        ("tokenizer", "reason"),
        [
            pytest.param(
                byte_fallback(*LLAMA_STEPS[:3], decoders.Replace("--", "—")), "it replaces", id="replace after fuse"
            ),
            pytest.param(
                byte_level(decoders.Sequence([decoders.ByteLevel(), decoders.Replace("--", "—")])),
                "it replaces",
                id="replace after ByteLevel",
            ),
            pytest.param(
                word_level(decoders.Sequence([decoders.Fuse(), decoders.Strip(" ", 0, 1)]), "a"),
                "it strips the end",
                id="strip at the end",
            ),
            pytest.param(
                word_level(decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]), "<0x41>"),
                "1 of the 256 bytes",
                id="bytes missing",
            ),
        ],
    )
    def test_tokenizer_is_refused_when_its_decoder_rewrites_across_tokens(
        self, tokenizer: Tokenizer, reason: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        with pytest.raises(BackendUnavailableError, match=reason) as refused:
            Vocabulary(tokenizer)
        assert refused.value.code == "unsupported_tokenizer"
        assert reason in caplog.text

    def test_tokenizer_is_refused_when_streaming_disagrees_with_its_decode(self) -> None:
        tokenizer = byte_tokenizer()
        tokenizer.decoder = decoders.Decoder.custom(ReversingDecoder())
        with pytest.raises(BackendUnavailableError, match="not made of the texts of its parts"):
            Vocabulary(tokenizer)


class TestIds:
    def test_holes_and_ids_above_the_vocabulary_add_nothing(self) -> None:
        tokenizer = word_level(decoders.Metaspace(), "a")
        vocabulary = Vocabulary(tokenizer)
        far = tokenizer.token_to_id("far")
        assert far > tokenizer.get_vocab_size()
        assert len(vocabulary.tokens) == far + 1
        assert streamed(vocabulary, [far - 1, 1, far + 1, far, 10**30]) == "afar"
        assert [vocabulary.knows(token_id) for token_id in (-1, 1, far - 1, far, far + 1)] == [
            False,
            True,
            False,
            True,
            False,
        ]

    @pytest.mark.parametrize("name", sorted(families()))
    def test_special_tokens_are_skipped_only_when_asked(self, name: str) -> None:
        vocabulary = families()[name].vocabulary
        assert sorted(vocabulary.special.values()) == ["<s>", "<|end|>"]
        for token_id in vocabulary.special:
            assert streamed(vocabulary, [token_id]) == ""
            assert streamed(vocabulary, [token_id], skip_special_tokens=False) != ""

    def test_added_token_goes_first_when_it_has_the_id_of_another(self) -> None:
        tokenizer = Tokenizer(models.WordLevel(vocab={"[UNK]": 0, "<s>": 1, "a": 2}, unk_token="[UNK]"))
        tokenizer.add_special_tokens(["<s>"])
        assert Vocabulary(tokenizer).special == {1: "<s>"}

    def test_added_token_has_its_own_spaces_and_no_others(self) -> None:
        vocabulary = families()["byte_level"].vocabulary
        think = vocabulary.tokenizer.token_to_id("<think> aloud")
        assert streamed(vocabulary, [ord("a"), think, ord("1")]) == "a<think> aloud1"

    def test_empty_tokenizer_streams_nothing(self) -> None:
        vocabulary = Vocabulary(Tokenizer(models.BPE()))
        assert streamed(vocabulary, [0, 1]) == ""
