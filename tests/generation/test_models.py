from __future__ import annotations

import pytest
from django.db import IntegrityError, transaction

from generation.models import Conversation, DeltaBatch, Run, RunItem, Stream, Worker

pytestmark = pytest.mark.django_db


def stream(**changes) -> Stream:
    return Stream(
        **{
            "wire_id": "chatcmpl-1",
            "source": "api",
            "model": "m",
            "backend": "b",
            "started_at": "2026-01-01T00:00Z",
            **changes,
        }
    )


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"state": "done"}, id="ended without a reason"),
        pytest.param({"state": "running", "stop_reason": "eos"}, id="running with a reason"),
        pytest.param({"seen_chars": -1}, id="a negative count"),
    ],
)
def test_the_database_refuses_a_stream_whose_columns_contradict_each_other(changes):
    with pytest.raises(IntegrityError), transaction.atomic():
        stream(**changes).save()


@pytest.mark.parametrize("state", ["done", "stopped", "failed", "lost"])
def test_a_stream_may_end_in_any_state_with_a_reason(state):
    stream(state=state, stop_reason="eos").save()
    assert Stream.objects.get().state == state


@pytest.mark.parametrize(
    "changes",
    [{"wire_id": "chatcmpl-1"}, {"wire_id": "chatcmpl-2", "client_stream_id": "3f0c9a52-0000-4000-8000-000000000000"}],
    ids=["wire id", "client's stream id"],
)
def test_the_database_refuses_a_second_stream_with_the_same(changes):
    stream(client_stream_id="3f0c9a52-0000-4000-8000-000000000000").save()
    with pytest.raises(IntegrityError), transaction.atomic():
        stream(**changes).save()


@pytest.mark.parametrize("first_seq", [1, 0], ids=["the same deltas twice", "sequence numbers start at one"])
def test_the_database_refuses_a_batch(first_seq):
    row = stream()
    row.save()
    row.batches.create(first_seq=1, deltas=[])
    with pytest.raises(IntegrityError), transaction.atomic():
        row.batches.create(first_seq=first_seq, deltas=[])


def test_batches_come_in_the_order_of_their_deltas():
    row = stream()
    row.save()
    for first_seq in (5, 1, 3):
        row.batches.create(first_seq=first_seq, deltas=[])
    assert [batch.first_seq for batch in row.batches.all()] == [1, 3, 5]


@pytest.mark.parametrize(("tpot_s", "expected"), [(0.05, 20.0), (None, None)], ids=["tokens", "fewer than two tokens"])
def test_tokens_per_second_is_the_decode_speed(tpot_s, expected):
    assert stream(tpot_s=tpot_s).tokens_per_s == expected


@pytest.mark.parametrize(("seen_chars", "expected"), [(None, None), (0, 5), (3, 2), (5, 0), (9, 0)], ids=str)
def test_unseen_characters_are_those_sent_and_not_shown(seen_chars, expected):
    assert stream(text="Hello", seen_chars=seen_chars).unseen_chars == expected


def test_the_record_survives_when_its_conversation_is_deleted():
    conversation = Conversation.objects.create()
    message = conversation.messages.create(role="assistant")
    stream(conversation=conversation, message=message).save()
    conversation.delete()
    row = Stream.objects.get()
    assert (row.conversation, row.message) == (None, None)


def test_the_log_goes_with_its_stream():
    row = stream()
    row.save()
    row.batches.create(first_seq=1, deltas=[])
    row.delete()
    assert not DeltaBatch.objects.exists()


def test_rows_name_themselves_for_people():
    conversation = Conversation.objects.create(title="Rivers")
    row = stream()
    row.save()
    run = Run.objects.create(name="nightly", corpus="questions.jsonl", model="m")
    assert [
        str(Conversation(title="Rivers", id="3f0c9a52-0000-4000-8000-000000000000")),
        str(conversation.messages.create(role="user")).rpartition(" ")[0],
        str(row),
        str(row.batches.create(first_seq=4, deltas=[])),
        str(Worker(hostname="host", pid=7)),
        str(run),
        str(RunItem(run=run, item_id="q1")),
    ] == [
        "conversation 3f0c9a52-0000-4000-8000-000000000000",
        "user message",
        f"stream {row.pk}",
        f"deltas from 4 of stream {row.pk}",
        "host:7",
        f"run {run.pk} of questions.jsonl",
        f"item q1 of run {run.pk}",
    ]
