from __future__ import annotations

import pytest

from generation.models import Conversation, DeltaBatch, Stream
from generation.output import StopReason
from generation.recording import Recorder, StreamEnd
from generation.recording.entries import amendment_entry, deltas_entry, end_entry
from generation.recording.store import store

END = StreamEnd(stop_reason=StopReason.EOS, ended_at=2.0)


@pytest.fixture
def recorder(open_row):
    return lambda **changes: Recorder(open_row(**changes), received_at=0.0)


def test_nothing_changes_when_everything_is_written_twice(recorder, delta, caplog):
    one = recorder()
    one.delta(delta("once"), 1.0)
    items = [
        deltas_entry(one, 1, [(delta("once"), 1.0)]),
        end_entry(one, END),
        amendment_entry(one, END),
    ]
    store(items)
    first = (list(Stream.objects.values()), list(DeltaBatch.objects.values()))
    store(items)
    assert (list(Stream.objects.values()), list(DeltaBatch.objects.values())) == first
    assert first[1][0]["deltas"][0]["text"] == "once"
    assert caplog.text == ""


def test_the_owners_end_replaces_lost_when_a_reaper_was_wrong(recorder, delta):
    one = recorder()
    one.delta(delta("all of it"), 1.0)
    Stream.objects.filter(pk=one.stream_id).update(state="lost", stop_reason="lost", ended_by="server", text="all")
    store([end_entry(one, END)])
    row = Stream.objects.get(pk=one.stream_id)
    assert (row.state, row.stop_reason, row.ended_by, row.text) == ("done", "eos", "model", "all of it")


def test_an_end_is_never_replaced_by_another(recorder):
    one = recorder()
    store([end_entry(one, END)])
    store([end_entry(one, StreamEnd(stop_reason=StopReason.TIMEOUT, ended_at=9.0))])
    row = Stream.objects.get(pk=one.stream_id)
    assert (row.stop_reason, row.total_s) == ("eos", 2.0)


def test_the_answer_message_gets_the_text(recorder, delta):
    conversation = Conversation.objects.create()
    message = conversation.messages.create(role="assistant")
    other = conversation.messages.create(role="assistant", content="another answer")
    one = recorder(conversation_id=conversation.pk, message_id=message.pk)
    one.delta(delta("An answer"), 1.0)
    store([end_entry(one, END)])
    message.refresh_from_db()
    other.refresh_from_db()
    assert (message.content, other.content) == ("An answer", "another answer")


def test_the_others_are_stored_when_one_stream_has_been_deleted(recorder, delta, caplog):
    gone, kept = recorder(), recorder()
    Stream.objects.filter(pk=gone.stream_id).delete()
    store(
        [
            deltas_entry(gone, 1, [(delta("of nobody"), 1.0)]),
            end_entry(gone, END),
            deltas_entry(kept, 1, [(delta("kept"), 1.0)]),
            end_entry(kept, END),
        ]
    )
    assert [batch.deltas[0]["text"] for batch in DeltaBatch.objects.all()] == ["kept"]
    assert Stream.objects.get().state == "done"
    assert f"The database refused the deltas of stream {gone.stream_id}." in caplog.text
    assert "of nobody" not in caplog.text


def test_a_stream_still_ends_when_the_database_refuses_one_of_its_figures(recorder, delta, caplog):
    one = recorder()
    one.delta(delta("text"), 1.0)
    store([end_entry(one, StreamEnd(stop_reason=StopReason.EOS, ended_at=2.0, seen_chars=-1))])
    row = Stream.objects.get(pk=one.stream_id)
    assert (row.state, row.text, row.total_s, row.log_incomplete) == ("done", "text", None, True)
    assert "The database refused the end" in caplog.text
