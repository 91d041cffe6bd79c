from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from generation.models import Stream
from generation.stream_search import StreamsFound
from generation.text_index import keep_triggers

_numbers = count(1)


def store(text: str, **columns: Any) -> int:
    return Stream.objects.create(
        wire_id=f"words-{next(_numbers)}", source="api", model="scripted", backend="default", state="done",
        stop_reason="eos", started_at=datetime(2026, 3, 1, tzinfo=UTC), text=text, **columns,
    ).pk  # fmt: skip


def streams_with_words(words: str) -> list[int]:
    return list(Stream.objects.filter(StreamsFound(words=words)).order_by("-pk").values_list("pk", flat=True))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The chai is ready.", "chai"),
        ("The chai is ready.", "READY chai"),
        ("Straße nach Köln", "köln"),
        ("हिन्दी में चाय", "चाय"),
        ("NUL \0 and escape \x10", "escape"),
        ('say "hello" OR don\'t', 'OR "hello"'),
    ],
)
def test_a_stream_is_found_when_its_text_has_the_words(text: str, words: str) -> None:
    _, stream = store("something else"), store(text)
    assert streams_with_words(words) == [stream]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "words", ["tea", "chai tea", "cha", "NOT tea", "", " ", '"', "*", "%", "' OR 1=1 --", "text:chai", "(", "x" * 9000]
)
def test_nothing_is_found_when_a_word_is_missing(words: str) -> None:
    store("The chai is ready.")
    assert streams_with_words(words) == []


@pytest.mark.django_db
def test_the_index_follows_when_texts_come_change_and_go() -> None:
    stream = store("")
    for text, found in (("one", ["one"]), ("two", ["two"]), ("two", ["two"]), ("", []), ("one", ["one"])):
        Stream.objects.filter(pk=stream).update(text=text)
        assert [word for word in ("one", "two") if streams_with_words(word)] == found
    Stream.objects.filter(pk=stream).delete()
    assert streams_with_words("one") == []


@pytest.mark.django_db
def test_a_text_is_stored_when_it_has_more_words_than_the_index_takes() -> None:
    stream = store(" ".join(f"word{number:07}" for number in range(200_000)))
    assert streams_with_words("word0000001") == [stream]


@pytest.mark.django_db
def test_the_triggers_are_back_when_a_migration_made_the_table_anew() -> None:
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER stream_words_changed")
            cursor.execute("DROP TRIGGER stream_words_removed")
        unseen = store("tea")
        keep_triggers(using="default")
        Stream.objects.filter(pk=unseen).delete()
    stream = store("tea")
    Stream.objects.filter(pk=stream).update(text="chai")
    assert streams_with_words("tea") == []
    assert streams_with_words("chai") == [stream]


@pytest.mark.django_db(transaction=True)
def test_stored_texts_are_found_when_the_index_is_made_over_them() -> None:
    call_command("migrate", "generation", "0002", verbosity=0)
    stream = store("")  # with a text, it would be told to the index, which is not there
    Stream.objects.filter(pk=stream).update(text="chai")
    call_command("migrate", "generation", verbosity=0)
    assert streams_with_words("chai") == [stream]
