from __future__ import annotations

import json

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from generation.delta_columns import of_deltas, pack, unpack, without_words
from generation.output import Delta, Hold, HoldCause, TokenLogprob, ToolCallDelta
from tests.stored_streams import stream_maker

MOMENTS = st.integers(0, 10**12).map(lambda us: us / 1e6)
HOLDS = st.lists(st.fixed_dictionaries({"cause": st.sampled_from(["utf8", "stop"]), "size": st.integers(0, 9)}))
DELTAS = st.lists(
    st.fixed_dictionaries(
        {
            "text": st.text(),
            "first_token": st.integers(0, 9) | st.none(),
            "end_token": st.integers(0, 9) | st.none(),
            "made_s": MOMENTS | st.none(),
            "sent_s": MOMENTS,
            "holds": HOLDS,
        },
        optional={"logprobs": st.just([{"logprob": -0.5}]), "tool_calls": st.just([{"index": 0}])},
    )
)


@given(DELTAS, st.booleans())
def test_deltas_are_what_they_were_after_columns_and_json(deltas, counted):
    if counted:
        deltas = [delta | {"chars": len(delta["text"])} for delta in deltas]
    assert unpack(json.loads(json.dumps(pack(deltas)))) == deltas


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, {"made_s": None, "holds": []}, id="no times, no holds"),
        pytest.param({"made_at": 10.1234567}, {"made_s": 0.123457, "holds": []}, id="rounded to microseconds"),
        pytest.param(
            {"holds": (Hold(cause=HoldCause.STOP, size=2), Hold(cause=HoldCause.UTF8, size=1, held_s=0.5))},
            {
                "made_s": None,
                "holds": [
                    {"cause": "stop", "size": 2, "held_s": None},
                    {"cause": "utf8", "size": 1, "held_s": 0.5},
                ],
            },
            id="two holds",
        ),
        pytest.param(
            {
                "logprobs": (
                    TokenLogprob(
                        text="\ufffd",
                        data=b"\xc3",
                        logprob=-0.1234567890123,
                        top=(TokenLogprob(text="a", data=b"a", logprob=-2.5),),
                    ),
                ),
                "tool_calls": (ToolCallDelta(index=0, id="c", name="f", arguments="{"),),
            },
            {
                "made_s": None,
                "holds": [],
                "logprobs": [
                    {
                        "text": "\ufffd",
                        "bytes": "c3",
                        "logprob": -0.1234567890123,
                        "top": [{"text": "a", "bytes": "61", "logprob": -2.5}],
                    }
                ],
                "tool_calls": [{"index": 0, "id": "c", "name": "f", "arguments": "{"}],
            },
            id="log-probabilities and a tool call",
        ),
    ],
)
def test_a_delta_is_kept_with_offsets_from_the_request(changes, expected):
    common = {"text": "é", "first_token": 4, "end_token": 5, "sent_s": 1.25}
    before = Delta(text="", first_token=3, end_token=4)
    kept = Delta(text="é", first_token=4, end_token=5, **changes)
    columns = of_deltas([(before, 11.0), (kept, 11.25)], received_at=10.0)
    assert unpack(columns)[1] == common | expected


def test_times_holds_and_lengths_stay_without_words():
    figures = {"first_token": 0, "end_token": 1, "made_s": None, "sent_s": 1.0, "holds": [{"cause": "utf8"}]}
    columns = pack([{"text": "né", **figures, "logprobs": [1], "tool_calls": [2]}])
    assert unpack(without_words(columns)) == [{"text": "", "chars": 2, **figures}]
    assert without_words(without_words(columns)) == without_words(columns)


@pytest.mark.django_db
def test_rows_from_before_there_were_columns_are_read():
    stream = stream_maker()(["a", "b"])
    batch = stream.batches.get()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE generation_deltabatch SET deltas = %s", [json.dumps(batch.deltas)])
    assert stream.batches.get().deltas == batch.deltas
    assert stream.shown_text == "ab"


@pytest.mark.django_db
def test_the_database_keeps_columns():
    stream_maker()(["a", "b"])
    with connection.cursor() as cursor:
        cursor.execute("SELECT deltas FROM generation_deltabatch")
        (stored,) = cursor.fetchone()
    assert json.loads(stored) == {
        "text": ["a", "b"], "first_token": [0, 1], "end_token": [1, 2], "made_us": [None, None],
        "sent_us": [100_000, 200_000],
    }  # fmt: skip
