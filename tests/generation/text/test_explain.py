from generation.output import Hold, HoldCause
from generation.text import HoldTotals, Verdict, Vocabulary
from generation.text.explain import StopOptions, explain_bytes, explain_ids, explain_pieces
from tests.byte_tokenizer import byte_tokenizer
from tests.generation.text.families import byte_fallback

TEXT = "आपका चाय ☕ तैयार है"


def cut(text: str, size: int) -> list[bytes]:
    written = text.encode()
    return [written[start : start + size] for start in range(0, len(written), size)]


class TestBytes:
    def test_the_tutorials_example_comes_out_to_the_letter_when_cut_in_fives(self) -> None:
        explanation = explain_bytes(cut(TEXT, 5), StopOptions())
        deltas = [delta.text for delta in explanation.deltas]
        assert deltas == ["आ", "पक", "ा ", "चा", "य ", "☕ त", "ै", "या", "र ", "है"]
        assert explanation.text == TEXT
        assert explanation.naive_errors == 10
        assert explanation.verdict is Verdict.EQUAL

    def test_the_tutorials_example_comes_out_to_the_letter_when_cut_in_ones(self) -> None:
        explanation = explain_bytes(cut(TEXT, 1), StopOptions())
        assert [delta.text for delta in explanation.deltas] == list(TEXT)
        assert len(explanation.steps) == 49 + 1
        assert explanation.naive_errors == 49 - 4
        assert explanation.holds[HoldCause.UTF8] == HoldTotals(count=15, size=30)

    def test_steps_say_what_is_naive_what_is_right_and_what_waits(self) -> None:
        first, second, end = explain_bytes([b"a\xc3", b"\xa9"], StopOptions()).steps
        assert (first.piece, first.naive, first.correct) == ("61 c3", "a\ufffd", "a")
        assert first.waiting == (Hold(cause=HoldCause.UTF8, size=1),)
        assert (second.piece, second.naive, second.correct) == ("a9", "\ufffd", "é")
        assert (end.piece, end.emitted, end.waiting) == ("", (), ())

    def test_naive_way_is_right_when_the_text_is_ascii(self) -> None:
        explanation = explain_bytes(cut("Hello", 2), StopOptions())
        assert explanation.naive_errors == 0

    def test_stop_string_ends_the_steps(self) -> None:
        explanation = explain_bytes(cut("one STOP two", 3), StopOptions(stop=("STOP",)))
        assert explanation.text == "one "
        assert explanation.stop_string == "STOP"
        assert explanation.verdict is Verdict.EQUAL
        assert [step.piece for step in explanation.steps] == ["6f 6e 65", "20 53 54", "4f 50 20", ""]

    def test_waiting_for_a_stop_is_no_error_of_the_naive_way(self) -> None:
        explanation = explain_bytes(cut("a ST", 1), StopOptions(stop=("STOP",)))
        assert explanation.naive_errors == 0


class TestIds:
    def test_spaces_are_lost_when_decoded_one_by_one(self) -> None:
        vocabulary = Vocabulary(byte_fallback())
        ids = [vocabulary.tokenizer.token_to_id(token) for token in ("▁the", "▁x", "a", "▁the")]
        explanation = explain_ids(vocabulary, ids, StopOptions())
        assert [step.naive for step in explanation.steps] == ["the", "x", "a", "the", ""]
        assert [delta.text for delta in explanation.deltas] == ["the", " x", "a", " the"]
        assert explanation.naive_errors == 2
        assert explanation.tier == "table"

    def test_ids_without_a_token_have_no_naive_text_either(self) -> None:
        explanation = explain_ids(Vocabulary(byte_tokenizer()), [97, 10**30], StopOptions())
        assert [step.naive for step in explanation.steps] == ["a", "", ""]

    def test_options_reach_the_pipeline_and_the_proof(self) -> None:
        options = StopOptions(stop=("<|end|>",), include_stop=True, skip_special_tokens=False)
        explanation = explain_ids(Vocabulary(byte_tokenizer()), [97, 256, 98], options, per_push=2)
        assert explanation.text == "a<|end|>"
        assert explanation.verdict is Verdict.EQUAL


def test_surrogate_halves_are_joined_when_pieces_are_text() -> None:
    explanation = explain_pieces(["\ud83d", "\ude00"], StopOptions())
    assert explanation.text == "😀"
    assert explanation.verdict is Verdict.EQUAL
    assert explanation.naive_errors == 2
