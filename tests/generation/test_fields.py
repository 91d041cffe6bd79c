from __future__ import annotations

import re

import pytest
from django.db import connection
from django.db.models import Value
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from generation.fields import LosslessJSONField, escape, json_text, unescape
from generation.models import DeltaBatch, Stream

#: Any Python string, lone surrogates included.
ANY_TEXT = st.text(st.characters(exclude_categories=()))


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        pytest.param("नमस्ते 🙂\n\t\x1b[31m", "नमस्ते 🙂\n\t\x1b[31m", id="ordinary text stays readable"),
        pytest.param("a\x00b", "a\x100000b", id="NUL"),
        pytest.param("a\x10b", "a\x100010b", id="the escape itself"),
        pytest.param("\ud83d", "\x10d83d", id="a lone surrogate"),
        pytest.param("\x100000", "\x1000100000", id="what looks escaped already"),
        pytest.param("", "", id="empty"),
    ],
)
def test_escaping_is_reversible(text, stored):
    assert escape(text) == stored
    assert unescape(stored) == text


@given(ANY_TEXT)
def test_any_text_survives_escaping_and_the_escaped_text_is_storable(text):
    escaped = escape(text)
    escaped.encode()
    assert "\x00" not in escaped
    assert unescape(escaped) == text


def test_an_escape_cut_short_by_the_database_stays_as_it_is():
    assert unescape(escape("ab\x00")[:5]) == "ab\x1000"


@given(
    st.recursive(
        ANY_TEXT | st.none() | st.booleans() | st.integers(-9, 9),
        lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner),
    )
)
def test_json_made_without_the_orm_is_storable_and_read_as_if_made_with_it(value):
    text = json_text(value)
    text.encode()
    assert not re.search(r"(?<!\\)(\\\\)*\\u0000", text)
    assert LosslessJSONField().from_db_value(text, Value(None), connection) == value


@pytest.mark.django_db
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ANY_TEXT, ANY_TEXT)
def test_any_text_is_given_back_by_the_database(text, other):
    row = Stream.objects.create(
        wire_id=f"chatcmpl-{Stream.objects.count()}",
        source="api",
        model="m",
        backend="b",
        started_at="2026-01-01T00:00Z",
        text=text,
        error=other,
        messages=[{"role": "user", "content": text}],
        parameters={"stop": [other, text], "seed": 3, "temperature": 0.5, "nothing": None, "yes": True},
    )
    delta = {"text": text, "first_token": 0, "end_token": 1, "made_s": None, "sent_s": 0.5, "holds": [{"cause": other}]}
    row.batches.create(first_seq=1, deltas=[delta])
    row = Stream.objects.get(pk=row.pk)
    assert (row.text, row.error, row.stop_string) == (text, other, None)
    assert row.messages == [{"role": "user", "content": text}]
    assert row.parameters == {"stop": [other, text], "seed": 3, "temperature": 0.5, "nothing": None, "yes": True}
    assert DeltaBatch.objects.get(stream=row).deltas == [delta]


@pytest.mark.django_db
def test_what_is_updated_is_found_and_given_back_like_what_is_created():
    row = Stream.objects.create(
        wire_id="chatcmpl-1", source="api", model="m", backend="b", started_at="2026-01-01T00:00Z"
    )
    Stream.objects.filter(pk=row.pk).update(text="a\x00b", stop_string="\x10", parameters={"stop": ["\x00"]})
    found = Stream.objects.get(text="a\x00b", parameters__stop=["\x00"])
    assert (found.text, found.stop_string, found.parameters) == ("a\x00b", "\x10", {"stop": ["\x00"]})
    with connection.cursor() as cursor:
        cursor.execute("SELECT text FROM generation_stream")
        assert cursor.fetchone() == ("a\x100000b",)
