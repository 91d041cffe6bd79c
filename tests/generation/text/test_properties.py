"""The nine properties of the text pipeline (P1 to P9), searched for counter-examples on every decoder family."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.decoders import DecodeStream

from generation.output import Delta, HoldCause
from generation.text import BytesPipeline, PiecesPipeline, TextPipeline, Verdict, prove
from generation.text.window import WINDOW
from tests.generation.text.families import Family, families
from tests.generation.text.stop_oracle import longest_held, stop_oracle

any_ids = st.one_of(*(st.tuples(st.just(family), family.ids) for family in families().values()))
clean_ids = st.one_of(*(st.tuples(st.just(family), family.clean_ids) for family in families().values()))
#: Few letters, so that stop strings overlap each other and the text.
stop_sets = st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=4)
#: A special token that is skipped, and a character of three tokens.
SPECIAL_STOPS = ("<s>", "€")
Case = tuple[Family, list[int]]


def text_of(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


def streamed(pipeline: TextPipeline, ids: list[int]) -> list[str]:
    """The text so far after each id, and after the flush."""
    parts = [text_of(pipeline.push(token_id)) for token_id in ids]
    return list(itertools.accumulate([*parts, text_of(pipeline.flush())]))


@given(any_ids, st.booleans())
def test_p1_text_is_the_whole_decode_when_ids_are_anything(case: Case, skip: bool) -> None:
    family, ids = case
    text = streamed(TextPipeline(family.vocabulary, skip_special_tokens=skip), ids)[-1]
    proof = prove(family.vocabulary, ids, text, skip_special_tokens=skip)
    assert proof.verdict in ({Verdict.EQUAL, Verdict.INVALID_BYTES} if family.falls_back else {Verdict.EQUAL})


@given(clean_ids)
def test_p1_text_equals_the_tokenizers_decode_when_byte_runs_are_valid(case: Case) -> None:
    family, ids = case
    text = streamed(TextPipeline(family.vocabulary), ids)[-1]
    assert text == family.vocabulary.tokenizer.decode(ids, skip_special_tokens=True)


@given(any_ids)
def test_p2_text_is_right_when_the_ids_are_cut_anywhere(case: Case) -> None:
    family, ids = case
    for cut in range(len(ids)):
        text = streamed(TextPipeline(family.vocabulary), ids[:cut])[-1]
        assert prove(family.vocabulary, ids[:cut], text).verdict is not Verdict.DIFFERENT


@given(any_ids)
def test_p3_nothing_is_taken_back_when_the_stream_goes_on_or_ends(case: Case) -> None:
    family, ids = case
    so_far = streamed(TextPipeline(family.vocabulary), ids)
    for count, shown in enumerate(so_far[:-1], start=1):
        ended_here = streamed(TextPipeline(family.vocabulary), ids[:count])[-1]
        assert ended_here.startswith(shown)
        assert so_far[count].startswith(shown)


@given(any_ids, st.lists(st.integers(0, 40), max_size=5))
def test_p4_deltas_are_the_same_when_ids_come_in_batches(case: Case, cuts: list[int]) -> None:
    family, ids = case
    singly, batched = TextPipeline(family.vocabulary), TextPipeline(family.vocabulary)
    one_by_one = [delta for token_id in ids for delta in singly.push(token_id)] + singly.flush()
    pairs = itertools.pairwise([0, *sorted(min(cut, len(ids)) for cut in cuts), len(ids)])
    in_batches = [delta for start, end in pairs for delta in batched.push(ids[start:end])] + batched.flush()
    assert in_batches == one_by_one


@given(any_ids)
def test_p5_what_waits_is_bounded_when_ids_are_anything(case: Case) -> None:
    family, ids = case
    pipeline = TextPipeline(family.vocabulary)
    for token_id in ids:
        pipeline.push(token_id)
        for hold in pipeline.waiting:
            assert hold.size <= (3 if hold.cause is HoldCause.UTF8 else 1)


@given(stop_sets, st.lists(st.text("abcx", max_size=6), max_size=8))
def test_p5_exactly_the_possible_stop_waits_when_text_ends_in_one(stops: list[str], pieces: list[str]) -> None:
    pipeline = PiecesPipeline(stops)
    text = ""
    for piece in pieces:
        pipeline.push(piece)
        text += piece
        waiting = sum(hold.size for hold in pipeline.waiting)
        assert waiting == (0 if pipeline.finished else longest_held(text, stops))


@given(clean_ids)
def test_p6_no_replacement_character_is_shown_when_the_decode_has_none_there(case: Case) -> None:
    family, ids = case
    whole = family.vocabulary.tokenizer.decode(ids, skip_special_tokens=True)
    for shown in streamed(TextPipeline(family.vocabulary), ids):
        assert shown.count("\ufffd") == whole[: len(shown)].count("\ufffd")


@given(stop_sets, st.lists(st.text("abcx", max_size=8), max_size=8), st.booleans())
def test_p7_the_stop_does_not_depend_on_the_cutting(stops: list[str], pieces: list[str], include_stop: bool) -> None:
    pipeline = PiecesPipeline(stops, include_stop)
    shown = "".join(text_of(pipeline.push(piece)) for piece in pieces) + text_of(pipeline.flush())
    assert (shown, pipeline.stop_string) == stop_oracle("".join(pieces), stops, include_stop=include_stop)
    if not include_stop:
        assert not any(stop in shown for stop in stops)


@given(
    st.lists(st.sampled_from([*b"aabbc", 0xE2, 0x82, 0xAC, 256, 257]), max_size=24),
    stop_sets,
    st.sampled_from(SPECIAL_STOPS),
)
def test_p8_stream_and_whole_reply_agree_and_nothing_follows_the_end(
    ids: list[int], stops: list[str], last_stop: str
) -> None:
    family = families()["byte_level"]
    stop = (*stops[:3], last_stop)
    stream, whole = TextPipeline(family.vocabulary, stop), TextPipeline(family.vocabulary, stop)
    shown = streamed(stream, ids)[-1]
    assert shown == text_of(whole.push(ids) + whole.flush())
    assert stream.stop_string == whole.stop_string
    assert prove(family.vocabulary, ids, shown, stop=stop).verdict is Verdict.EQUAL
    assert stream.finished
    assert stream.push(ids) + stream.flush() == []


class CountingTokenizer:
    """A tokenizer that counts its decodes and the longest one: the work of the sliding window."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.decodes = 0
        self.longest = 0

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        self.decodes += 1
        self.longest = max(self.longest, len(ids))
        return str(self._tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


@given(any_ids)
def test_p9_work_per_id_is_bounded_when_ids_are_anything(case: Case) -> None:
    family, ids = case
    counting = CountingTokenizer(family.vocabulary.tokenizer)
    detokenizer = family.detokenizer_counted_by(counting)
    for token_id in ids * 3:
        before = counting.decodes
        detokenizer.push(token_id)
        # A byte that ends a broken character shows up to three others, each with a decode, and the window may slide.
        assert counting.decodes - before <= 5
    assert counting.longest <= WINDOW
    assert counting.decodes <= 2 * 3 * len(ids)


@pytest.mark.parametrize("flood", ["replacement_ids", "special_ids", "empty_ids", "unknown"])
@pytest.mark.parametrize("name", sorted(families()))
def test_p9_decodes_do_not_grow_with_the_length_when_a_flood_comes(name: str, flood: str) -> None:
    family = families()[name]
    ids = (len(family.vocabulary.tokens),) if flood == "unknown" else getattr(family, flood)
    counting = CountingTokenizer(family.vocabulary.tokenizer)
    detokenizer = family.detokenizer_counted_by(counting)
    for token_id in ids * 2000:
        detokenizer.push(token_id)
    assert counting.decodes <= 1.2 * 2000 * len(ids)
    assert counting.longest <= WINDOW


@given(st.lists(st.one_of(st.binary(max_size=6), st.text(max_size=3).map(str.encode)), max_size=8))
def test_bytes_give_the_whole_decode_when_cut_anywhere(pieces: list[bytes]) -> None:
    pipeline = BytesPipeline()
    shown = "".join(text_of(pipeline.push(piece)) for piece in pieces) + text_of(pipeline.flush())
    assert shown == b"".join(pieces).decode(errors="replace")


@given(st.lists(st.integers(0, 266), max_size=24))
def test_ids_equal_the_decode_stream_of_the_library_when_it_works(ids: list[int]) -> None:
    """`DecodeStream` is right on ByteLevel ids but for a last U+FFFD, which it never gives out."""
    vocabulary = families()["byte_level"].vocabulary
    oracle = DecodeStream(skip_special_tokens=True)
    expected = "".join(oracle.step(vocabulary.tokenizer, token_id) or "" for token_id in ids)
    assert streamed(TextPipeline(vocabulary), ids)[-1].startswith(expected)
