from __future__ import annotations

import json

import pytest
from django.db import connection
from hypothesis import given
from hypothesis import strategies as st

from generation.delta_columns import pack, unpack, without_words
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
