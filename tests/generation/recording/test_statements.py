from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest
from django.db import IntegrityError, transaction

from generation.delta_columns import unpack
from generation.models import Conversation, DeltaBatch, Stream, StreamHour
from generation.recording.statements import find_locked, insert, insert_new, update

pytestmark = pytest.mark.django_db

ROW = {
    "wire_id": "chatcmpl-1",
    "source": "api",
    "model": "smol",
    "backend": "default",
    "messages": [{"role": "user", "content": "a \x00, a \x10, a \\u0000 and a \ud83d"}],
    "started_at": datetime(2026, 5, 1, 12, 0, 0, 250, tzinfo=UTC),
}
LOG = {"first_token": [0], "end_token": [1], "made_us": [None], "sent_us": [250]}
END = {
    "state": "done",
    "stop_reason": "eos",
    "text": "\x00 नमस्ते 🙂",
    "error_body": {"error": {"message": "\x00"}},
    "tool_calls": None,
    "ended_at": datetime(2026, 5, 1, 12, 0, 1, tzinfo=UTC),
    "ttft_visible_s": 0.25,
    "log_incomplete": True,
    "token_offsets": [0.1, 0.2],
    "client_stream_id": uuid.UUID(int=7),
}


def columns(stream_id: int) -> dict[str, object]:
    row = Stream.objects.values().get(pk=stream_id)
    return {name: value for name, value in row.items() if name not in {"id", "wire_id", "client_stream_id"}}


def test_a_row_is_what_the_orm_would_have_made_of_it():
    conversation_id = Conversation.objects.create().pk
    ours = insert(Stream, {**ROW, "conversation_id": conversation_id})
    theirs = Stream.objects.create(**{**ROW, "conversation_id": conversation_id, "wire_id": "chatcmpl-2"}).pk
    assert columns(ours) == columns(theirs)
    assert columns(ours)["conversation_id"] == conversation_id


def test_an_update_is_what_the_orm_would_have_made_of_it():
    ours, theirs = insert(Stream, ROW), insert(Stream, {**ROW, "wire_id": "chatcmpl-2"})
    assert update(Stream, END, id=ours) == 1
    Stream.objects.filter(pk=theirs).update(**{**END, "client_stream_id": None})
    assert columns(ours) == columns(theirs)
    assert Stream.objects.get(pk=ours).client_stream_id == END["client_stream_id"]


def test_only_rows_that_match_are_updated():
    stream_id = insert(Stream, ROW)
    assert update(Stream, {"seen_chars": 3}, id=stream_id, state="lost") == 0
    assert update(Stream, {"seen_chars": 3}, id=stream_id, state="running") == 1
    assert update(Stream, {"seen_chars": 4}, id=stream_id + 1) == 0
    assert Stream.objects.get().seen_chars == 3


def test_rows_whose_unique_columns_are_taken_stay_as_they_are():
    stream_id = insert(Stream, ROW)
    rows = [{"stream_id": stream_id, "first_seq": seq, "deltas": {"text": [f"{seq} \x00"], **LOG}} for seq in (1, 2, 3)]
    insert_new(DeltaBatch, rows[:2])
    insert_new(DeltaBatch, [{**rows[0], "deltas": {}}, rows[2]])
    insert_new(DeltaBatch, [])
    assert [batch.deltas for batch in DeltaBatch.objects.all()] == [unpack(row["deltas"]) for row in rows]


def test_many_rows_are_all_inserted():
    stream_id = insert(Stream, ROW)
    log = {"text": ["x"], **LOG}
    insert_new(DeltaBatch, [{"stream_id": stream_id, "first_seq": seq, "deltas": log} for seq in range(1, 151)])
    assert list(DeltaBatch.objects.values_list("first_seq", flat=True)) == list(range(1, 151))


def test_a_row_is_found_by_its_columns_or_not_at_all():
    hour = datetime(2026, 5, 1, 12, tzinfo=UTC)
    StreamHour.objects.create(hour=hour, model="smol", streams=2, ends={"eos": 2})
    found = find_locked(StreamHour, ("id", "streams", "ends"), hour=hour, model="smol")
    assert found == {"id": StreamHour.objects.get().pk, "streams": 2, "ends": {"eos": 2}}
    assert find_locked(StreamHour, ("id",), hour=hour, model="other") is None


def test_what_a_constraint_refuses_is_an_error():
    stream_id = insert(Stream, ROW)
    for refused in (
        lambda: insert(Stream, ROW),
        lambda: update(Stream, {"stop_reason": "eos"}, id=stream_id),
        lambda: insert_new(DeltaBatch, [{"stream_id": stream_id, "first_seq": 0, "deltas": {}}]),
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            refused()
