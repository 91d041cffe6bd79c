import pytest

from generation.exceptions import EngineError, InvalidRequestError
from generation.output import Delta, Hold, HoldCause
from generation.text import BytesPipeline, PiecesPipeline, TextPipeline, Vocabulary
from tests.byte_tokenizer import END, END_ID, byte_tokenizer
from tests.generation.text.families import byte_fallback, byte_level

VOCABULARY = Vocabulary(byte_tokenizer())


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


class TestDeltas:
    def test_ranges_join_when_some_tokens_show_nothing(self) -> None:
        pipeline = TextPipeline(VOCABULARY)
        deltas = pipeline.push([*"a€".encode(), END_ID, 999, ord("b"), 0xE2]) + pipeline.flush()
        assert [(delta.text, delta.first_token, delta.end_token) for delta in deltas] == [
            ("a", 0, 1),
            ("€", 1, 4),
            ("b", 4, 7),
            ("\ufffd", 7, 8),
        ]

    def test_delta_has_the_time_of_its_last_token(self) -> None:
        pipeline = TextPipeline(VOCABULARY)
        deltas = pipeline.push([*"é".encode(), ord("x")], [1.0, 2.0, 4.0])
        assert [delta.made_at for delta in deltas] == [2.0, 4.0]

    def test_one_time_serves_all_when_ids_were_made_together(self) -> None:
        assert [delta.made_at for delta in TextPipeline(VOCABULARY).push(list(b"ab"), 3.0)] == [3.0, 3.0]

    def test_times_must_be_as_many_as_ids(self) -> None:
        with pytest.raises(ValueError, match="zip"):
            TextPipeline(VOCABULARY).push(list(b"ab"), [1.0])

    def test_nothing_comes_out_when_nothing_went_in(self) -> None:
        pipeline = TextPipeline(VOCABULARY)
        assert pipeline.push([]) == []
        assert pipeline.flush() == []
        assert pipeline.finished

    def test_flush_ends_the_pipeline(self) -> None:
        pipeline = TextPipeline(VOCABULARY)
        pipeline.push(0xE2)
        assert text_of(pipeline.flush()) == "\ufffd"
        assert pipeline.flush() == []
        assert pipeline.push(ord("x")) == []

    def test_negative_id_is_an_error_of_this_stream(self) -> None:
        with pytest.raises(EngineError, match="0 or more, got -1"):
            TextPipeline(VOCABULARY).push(-1)


class TestHolds:
    def test_bytes_of_a_character_are_one_hold(self) -> None:
        pipeline = TextPipeline(VOCABULARY)
        pipeline.push(0xE2, 1.0)
        assert pipeline.waiting == (Hold(cause=HoldCause.UTF8, size=1),)
        pipeline.push(0x82, 2.0)
        (delta,) = pipeline.push(0xAC, 4.0)
        assert delta.holds == (Hold(cause=HoldCause.UTF8, size=2, held_s=3.0),)
        assert pipeline.waiting == ()

    def test_character_may_end_one_hold_and_begin_the_next(self) -> None:
        pipeline = BytesPipeline()
        assert pipeline.push("आ".encode()[:2], 1.0) == []
        (first,) = pipeline.push("आ".encode()[2:] + "च".encode()[:1], 2.0)
        (second,) = pipeline.push("च".encode()[1:], 5.0)
        assert (first.text, first.holds) == ("आ", (Hold(cause=HoldCause.UTF8, size=2, held_s=1.0),))
        assert (second.text, second.holds) == ("च", (Hold(cause=HoldCause.UTF8, size=1, held_s=3.0),))

    def test_possible_stop_is_a_hold_of_its_characters(self) -> None:
        pipeline = PiecesPipeline(["STOP"])
        (first,) = pipeline.push("go ST", 1.0)
        assert (first.text, first.holds) == ("go ", ())
        assert pipeline.waiting == (Hold(cause=HoldCause.STOP, size=2),)
        (second,) = pipeline.push("ART", 3.0)
        assert (second.text, second.holds) == ("START", (Hold(cause=HoldCause.STOP, size=2, held_s=2.0),))

    def test_both_causes_are_named_when_a_character_waited_for_bytes_and_then_for_a_stop(self) -> None:
        pipeline = BytesPipeline(["€!"])
        assert pipeline.push(b"\xe2\x82", 1.0) == []
        assert pipeline.push(b"\xac", 2.0) == []
        assert pipeline.waiting == (Hold(cause=HoldCause.STOP, size=1),)
        (delta,) = pipeline.push(b"?", 4.0)
        assert delta.text == "€?"
        assert delta.holds == (
            Hold(cause=HoldCause.UTF8, size=2, held_s=1.0),
            Hold(cause=HoldCause.STOP, size=1, held_s=2.0),
        )

    def test_hold_ends_at_the_flush_when_the_generation_ends(self) -> None:
        pipeline = PiecesPipeline(["STOP"])
        pipeline.push("ST", 1.0)
        (delta,) = pipeline.flush(2.5)
        assert delta == Delta(
            text="ST",
            first_token=0,
            end_token=1,
            made_at=1.0,
            holds=(Hold(cause=HoldCause.STOP, size=2, held_s=1.5),),
        )

    def test_times_are_unknown_when_none_are_given(self) -> None:
        pipeline = BytesPipeline()
        pipeline.push(b"\xc3")
        (delta,) = pipeline.push(b"\xa9")
        assert delta.made_at is None
        assert delta.holds == (Hold(cause=HoldCause.UTF8, size=1, held_s=None),)

    def test_nothing_waits_when_a_stop_has_ended_the_stream(self) -> None:
        pipeline = PiecesPipeline(["STOP"])
        pipeline.push("ST")
        pipeline.push("OP")
        assert pipeline.finished
        assert pipeline.waiting == ()

    def test_context_is_the_cause_when_the_window_waits(self) -> None:
        from tokenizers import decoders

        tokenizer = byte_level(decoders.Sequence([decoders.ByteLevel(), decoders.Replace("ß", "ss")]))
        pipeline = TextPipeline(tokenizer)
        assert pipeline.tier == "window"
        pipeline.push(0xC3, 1.0)
        assert pipeline.waiting == (Hold(cause=HoldCause.CONTEXT, size=1),)
        (delta,) = pipeline.push(0xA9, 2.0)
        assert (delta.text, delta.holds) == ("é", (Hold(cause=HoldCause.CONTEXT, size=1, held_s=1.0),))


class TestStops:
    def test_stop_string_ends_the_stream_in_the_middle_of_a_batch(self) -> None:
        pipeline = TextPipeline(VOCABULARY, stop=["lo"])
        assert text_of(pipeline.push(list(b"hello you"))) == "hel"
        assert pipeline.stop_string == "lo"
        assert pipeline.finished
        assert pipeline.flush() == []

    def test_half_a_character_becomes_text_before_the_matcher_sees_the_end(self) -> None:
        pipeline = TextPipeline(VOCABULARY, stop=["a\ufffd"])
        assert pipeline.push([ord("x"), ord("a"), 0xE2])[0].text == "x"
        assert pipeline.flush() == []
        assert pipeline.stop_string == "a\ufffd"

    @pytest.mark.parametrize(
        ("include_stop", "expected"), [(False, "a<|"), (True, "a<|" + END)], ids=["left", "included"]
    )
    def test_id_of_a_skipped_special_token_is_a_stop_when_its_text_is_one(
        self, include_stop: bool, expected: str
    ) -> None:
        pipeline = TextPipeline(VOCABULARY, stop=[END], include_stop=include_stop)
        assert text_of(pipeline.push([*b"a<|", END_ID, ord("b")])) == expected
        assert pipeline.stop_string == END
        assert pipeline.finished

    def test_text_of_a_special_token_is_matched_as_text_when_it_is_not_skipped(self) -> None:
        pipeline = TextPipeline(VOCABULARY, stop=["end|"], skip_special_tokens=False)
        assert text_of(pipeline.push([ord("a"), END_ID])) == "a<|"
        assert pipeline.stop_string == "end|"

    def test_stop_that_the_flush_before_a_special_token_completes_comes_first(self) -> None:
        pipeline = TextPipeline(VOCABULARY, stop=["\ufffd", END])
        assert text_of(pipeline.push([ord("a"), 0xE2, END_ID])) == "a"
        assert pipeline.stop_string == "\ufffd"

    def test_wrong_stops_are_refused(self) -> None:
        with pytest.raises(InvalidRequestError, match="at most 4"):
            BytesPipeline(list("abcde"))


class TestPromptIds:
    def test_first_space_stays_when_the_text_goes_on_from_a_prompt(self) -> None:
        vocabulary = Vocabulary(byte_fallback())
        the = vocabulary.tokenizer.token_to_id("▁the")
        assert text_of(TextPipeline(vocabulary).push(the)) == "the"
        assert text_of(TextPipeline(vocabulary, prompt_ids=[the] * 20).push(the)) == " the"

    def test_prompt_is_never_shown_and_never_a_stop(self) -> None:
        pipeline = TextPipeline(VOCABULARY, stop=["ab"], prompt_ids=[*b"xa", 0xE2])
        assert text_of(pipeline.push(list(b"bc")) + pipeline.flush()) == "bc"
        assert pipeline.stop_string is None


class TestTiers:
    def test_tier_is_readable(self) -> None:
        assert TextPipeline(VOCABULARY).tier == "table"
        assert TextPipeline(byte_tokenizer()).tier == "table"
        assert BytesPipeline().tier == "bytes"
        assert PiecesPipeline().tier == "text"


def test_text_is_sound_when_an_upstream_cuts_a_surrogate_pair() -> None:
    pipeline = PiecesPipeline()
    assert pipeline.push("\ud83d") == []
    assert text_of(pipeline.push("\ude00") + pipeline.push("\ud83d") + pipeline.flush()) == "😀\ufffd"
