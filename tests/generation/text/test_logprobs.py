"""The log-probability of each token goes out once, with the delta that begins to show the token."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generation.output import Delta, IdLogprobs, TokenLogprob
from generation.text import TextPipeline, Vocabulary
from tests.byte_tokenizer import END, END_ID, byte_tokenizer
from tests.generation.text.families import byte_fallback, families, word_level

VOCABULARY = Vocabulary(byte_tokenizer())


def pushed(pipeline: TextPipeline, ids: list[int]) -> list[Delta]:
    """The deltas of ``ids``; the token at place n has the log-probability -n."""
    return pipeline.push(ids, None, [IdLogprobs(logprob=-float(place)) for place in range(len(ids))])


def places(delta: Delta) -> list[int]:
    """Which tokens a delta has entries of."""
    return [-int(entry.logprob) for entry in delta.logprobs]


def shown(pipeline: TextPipeline, ids: list[int]) -> list[tuple[str, list[int]]]:
    return [(delta.text, places(delta)) for delta in pushed(pipeline, ids) + pipeline.flush()]


def test_entry_has_text_and_bytes_of_the_token_and_of_the_likeliest() -> None:
    likely = IdLogprobs(logprob=-0.5, top=((ord("a"), -0.5), (0xE2, -1.5)))
    (delta,) = TextPipeline(VOCABULARY).push(ord("a"), None, likely)
    assert delta.logprobs == (
        TokenLogprob(
            text="a",
            data=b"a",
            logprob=-0.5,
            top=(
                TokenLogprob(text="a", data=b"a", logprob=-0.5),
                TokenLogprob(text="\ufffd", data=b"\xe2", logprob=-1.5),
            ),
        ),
    )


def test_no_entry_comes_when_none_is_wanted() -> None:
    assert TextPipeline(VOCABULARY).push(ord("a"))[0].logprobs == ()


def test_log_probabilities_must_be_as_many_as_ids() -> None:
    with pytest.raises(ValueError, match="zip"):
        TextPipeline(VOCABULARY).push(list(b"ab"), None, [IdLogprobs(logprob=-1.0)])


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        pytest.param([*b"ab"], [("a", [0]), ("b", [1])], id="a token each"),
        pytest.param([*"€x".encode()], [("€", [0, 1, 2]), ("x", [3])], id="a character of three tokens"),
        pytest.param([ord("a"), 0xE2], [("a", [0]), ("\ufffd", [1])], id="a character that never ends"),
        pytest.param([0xE2, ord("a")], [("\ufffda", [0, 1])], id="a character that another token breaks"),
        pytest.param([ord("a"), END_ID, 999, ord("b")], [("a", [0]), ("b", [3])], id="special and unknown ids"),
    ],
)
def test_entries_go_with_the_text_of_their_tokens_when(ids: list[int], expected: list[tuple[str, list[int]]]) -> None:
    assert shown(TextPipeline(VOCABULARY), ids) == expected


@pytest.mark.parametrize(
    ("text", "include_stop", "expected"),
    [
        pytest.param("aSTx", False, [("a", [0]), ("STx", [1, 2, 3])], id="was no stop"),
        pytest.param("aST", False, [("a", [0]), ("ST", [1, 2])], id="end while it waits"),
        pytest.param("aSTOPb", False, [("a", [0])], id="was one"),
        pytest.param("aSTOPb", True, [("a", [0]), *((char, [n]) for n, char in enumerate("STOP", 1))], id="kept"),
    ],
)
def test_entries_of_a_possible_stop_wait_with_it(
    text: str, include_stop: bool, expected: list[tuple[str, list[int]]]
) -> None:
    pipeline = TextPipeline(VOCABULARY, stop=["STOP"], include_stop=include_stop)
    assert shown(pipeline, [*text.encode()]) == expected


@pytest.mark.parametrize(
    ("stop", "text", "entries"),
    [
        pytest.param("es", " th", [0], id="its beginning is shown"),
        pytest.param(" the", "", [], id="all of it is cut"),
    ],
)
def test_token_that_a_stop_cuts_has_an_entry_only_when(stop: str, text: str, entries: list[int]) -> None:
    vocabulary = Vocabulary(byte_tokenizer(merged=[b" the"]))
    the = vocabulary.tokenizer.get_vocab_size() - 1
    deltas = shown(TextPipeline(vocabulary, stop=[stop]), [the, ord("s")])
    assert deltas == ([(text, entries)] if text else [])


def test_special_token_has_an_entry_when_it_is_the_stop_that_is_kept() -> None:
    pipeline = TextPipeline(VOCABULARY, stop=[END], include_stop=True)
    assert shown(pipeline, [ord("a"), END_ID]) == [("a", [0]), (END, [1])]


def test_special_token_has_an_entry_when_it_is_not_skipped() -> None:
    pipeline = TextPipeline(VOCABULARY, skip_special_tokens=False)
    assert shown(pipeline, [END_ID]) == [(END, [0])]


@pytest.mark.parametrize(
    ("vocabulary", "token", "data"),
    [
        pytest.param(Vocabulary(byte_fallback()), "▁the", b" the", id="space marker"),
        pytest.param(Vocabulary(byte_fallback()), "<0xE2>", b"\xe2", id="byte token"),
        pytest.param(Vocabulary(byte_fallback()), "<s>", b"<s>", id="special"),
        pytest.param(families()["word_piece"].vocabulary, "##y", b"y", id="window: part of a word"),
        pytest.param(families()["word_piece"].vocabulary, "chai", b" chai", id="window: word"),
        pytest.param(families()["byte_fallback_window"].vocabulary, "<0xE2>", b"\xe2", id="window: byte token"),
        pytest.param(families()["byte_fallback_window"].vocabulary, "<s>", b"<s>", id="window: special"),
        pytest.param(Vocabulary(word_level(None, "a")), "a", b" a", id="window: no decoder"),
    ],
)
def test_bytes_of_a_token_are_what_it_adds_to_a_text(vocabulary: Vocabulary, token: str, data: bytes) -> None:
    token_id = vocabulary.tokenizer.token_to_id(token)
    assert token_id is not None
    assert vocabulary.bytes_of(token_id) == data


@pytest.mark.parametrize("token_id", [-1, 10_000])
def test_unknown_ids_have_no_bytes(token_id: int) -> None:
    assert VOCABULARY.bytes_of(token_id) == b""


any_ids = st.one_of(*(st.tuples(st.just(family), family.ids) for family in families().values()))


@given(any_ids, st.lists(st.text("abcx €", min_size=1, max_size=3), max_size=3), st.booleans())
def test_entries_come_once_and_in_order_when_ids_are_anything(case, stops, include_stop) -> None:  # type: ignore[no-untyped-def]
    family, ids = case
    ids = [token_id for token_id in ids if token_id >= 0]
    pipeline = TextPipeline(family.vocabulary, stop=stops, include_stop=include_stop)
    singly = TextPipeline(family.vocabulary, stop=stops, include_stop=include_stop)
    deltas = pushed(pipeline, ids) + pipeline.flush()
    entries = [place for delta in deltas for place in places(delta)]
    assert entries == sorted(set(entries))
    likely = [IdLogprobs(logprob=-float(place)) for place in range(len(ids))]
    one_by_one = [
        delta for token_id, logprobs in zip(ids, likely, strict=True) for delta in singly.push(token_id, None, logprobs)
    ]
    assert one_by_one + singly.flush() == deltas
    if not stops:
        texts = [n for n, i in enumerate(ids) if i not in family.special_ids and family.vocabulary.bytes_of(i)]
        assert texts[: len(entries)] == entries
        # CTC shows repeated tokens once; and a first space that is stripped may be all there is.
        assert entries == texts or family.name == "ctc" or not deltas


@given(st.lists(st.integers(0, 264), max_size=24))
def test_bytes_of_the_entries_are_the_text_when_bytes_are_joined(ids: list[int]) -> None:
    family = families()["byte_level"]
    deltas = pushed(TextPipeline(family.vocabulary), ids)
    for end in range(len(deltas)):
        data = b"".join(entry.data for delta in itertools.islice(deltas, end + 1) for entry in delta.logprobs)
        text = "".join(delta.text for delta in deltas[: end + 1])
        assert data.decode(errors="replace").startswith(text)
