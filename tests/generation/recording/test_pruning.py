from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from generation.models import Conversation, DeltaBatch, Stream, StreamHour
from generation.recording import pruning
from generation.recording.pruning import Pruned, prune

LOG = {"first_token": 0, "end_token": 1, "made_s": None, "sent_s": 1.0, "holds": []}
NOW = datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
def make(transactional_db, monkeypatch):
    monkeypatch.setattr(pruning, "BATCH", 2)
    numbers = iter(range(100))

    def make(days: float, **changes) -> Stream:
        conversation = Conversation.objects.create(title="secret title", session_key="s")
        question = conversation.messages.create(role="user", content="secret question")
        answer = conversation.messages.create(role="assistant", content="secret answer", parent=question)
        at = NOW - timedelta(days=days)
        Conversation.objects.filter(pk=conversation.pk).update(updated_at=at)
        stream = Stream.objects.create(
            **{
                "wire_id": f"w{next(numbers)}", "source": "page", "model": "m", "backend": "b", "started_at": at,
                "conversation": conversation, "message": answer, "state": "done", "stop_reason": "eos",
                "text": "secret answer", "messages": [{"role": "user", "content": "secret question"}],
                "parameters": {"temperature": 1.0, "stop": ["secret"]}, "token_ids": [1, 2], "total_s": 2.0,
                "proof": "equal", "error": "secret refused",
                "error_body": {"error": {"message": "secret refused", "type": "t", "param": None, "code": "c"}},
                **changes,
            }
        )  # fmt: skip
        stream.reviews.create(label="good", comment="secret is right")
        stream.batches.create(first_seq=1, deltas=[{"text": "secret answer", **LOG}])
        return stream

    return make


def test_old_streams_and_conversations_are_deleted_and_younger_ones_stay(make):
    for days in (40, 35, 31):
        make(days)
    young = make(29)
    StreamHour.objects.create(hour=NOW, model="m", streams=4)
    told = []
    assert prune(NOW - timedelta(days=30), report=told.append) == Pruned(streams=3, conversations=3)
    assert told == [2, 1]
    assert Stream.objects.get() == young
    assert (Conversation.objects.count(), DeltaBatch.objects.count(), StreamHour.objects.count()) == (1, 1, 1)


def test_figures_stay_when_only_text_is_deleted(make):
    old = [make(40), make(50), make(60)]
    young = make(1)
    assert prune(NOW - timedelta(days=30), text_only=True) == Pruned(streams=3, conversations=3)
    assert prune(NOW - timedelta(days=30), text_only=True) == Pruned(streams=0, conversations=0)
    rows = Stream.objects.filter(pk__in=[stream.pk for stream in old])
    assert "secret" not in str(list(rows.values()))
    assert set(rows.values_list("total_s", "proof", "has_text", "state")) == {(2.0, "equal", False, "done")}
    assert {str(row.parameters) for row in rows} == {"{'temperature': 1.0}"}
    assert {row.error_body["error"]["code"] for row in rows} == {"c"}
    assert {(review.label, review.comment) for row in rows for review in row.reviews.all()} == {("good", "")}
    deltas = [batch.deltas for batch in DeltaBatch.objects.exclude(stream=young)]
    assert deltas == [[{"text": "", "chars": 13, **LOG}]] * 3
    old_conversations = Conversation.objects.exclude(streams=young)
    assert {conversation.title for conversation in old_conversations} == {""}
    assert "secret" not in str(list(old_conversations.values("messages__content")))
    young.refresh_from_db()
    assert (young.text, young.has_text) == ("secret answer", True)
    assert "secret" in str(list(young.conversation.messages.values("content")))


@pytest.mark.parametrize("text_only", [False, True])
def test_a_running_stream_is_left_alone(make, text_only):
    running = make(100, state="running", stop_reason=None)
    assert prune(NOW, text_only=text_only) == Pruned(streams=0, conversations=0)
    assert Stream.objects.get() == running
    assert Conversation.objects.get().title == "secret title"


@pytest.mark.parametrize("text_only", [False, True])
def test_nothing_changes_on_a_dry_run(make, text_only):
    make(40)
    before = list(Stream.objects.values())
    assert prune(NOW, text_only=text_only, dry_run=True) == Pruned(streams=1, conversations=1)
    assert list(Stream.objects.values()) == before
