from __future__ import annotations

import json

import pytest
from django.test import AsyncClient

from generation.conversations import add_turn, branch, history
from generation.exceptions import EngineError
from generation.models import Conversation, DeltaBatch, Message, Stream
from generation.output import Hold, HoldCause, StopReason, TokenLogprob, ToolCallDelta
from generation.protocol import error_body
from generation.recording import Recorder, StreamEnd, get_writer
from generation.recording.words import parameters_without_words
from generation.request import ChatMessage, GenerationRequest, SamplingParams

SECRET = "s3cret"


@pytest.fixture
def no_text(settings) -> None:
    settings.STREAMSITE_STORE_TEXT = False


def test_only_numbers_stay_of_parameters():
    parameters = {"temperature": 0.5, "n": 2, "ignore_eos": True, "stop": ["x"], "user": "me", "tools": [{}]}
    assert parameters_without_words(parameters) == {"temperature": 0.5, "n": 2, "ignore_eos": True}


@pytest.mark.usefixtures("no_text")
def test_no_word_reaches_the_database_when_text_is_not_stored(open_row, delta):
    request = GenerationRequest(
        model="scripted",
        messages=(ChatMessage(role="user", content=SECRET),),
        sampling=SamplingParams(stop=(SECRET,), temperature=0.5),
        end_user=SECRET,
        metadata={"about": SECRET},
        tools=({"type": "function", "function": {"name": SECRET}},),
    )
    recorder = Recorder(open_row(request=request), received_at=0.0)
    recorder.delta(delta(SECRET, holds=(Hold(cause=HoldCause.STOP, size=3, held_s=0.1),)), 1.0)
    recorder.delta(delta("", 1, tool_calls=(ToolCallDelta(index=0, id="1", name=SECRET),)), 1.5)
    recorder.delta(delta("x", 2, logprobs=(TokenLogprob(text=SECRET, data=b"", logprob=-1.0),)), 1.7)
    recorder.finish(
        StreamEnd(
            stop_reason=StopReason.STOP_STRING, ended_at=2.0, stop_string=SECRET, token_ids=[1], token_times=[1.0]
        )
    )
    assert get_writer().flush()
    assert SECRET not in str(list(Stream.objects.values()))
    assert SECRET not in str(list(DeltaBatch.objects.values()))
    row = Stream.objects.get()
    assert (row.state, row.stop_reason, row.has_text, row.text, row.token_ids) == (
        "done",
        "stop_string",
        False,
        "",
        None,
    )
    assert (row.ttft_visible_s, row.total_s, row.delta_count) == (1.0, 2.0, 3)
    assert row.holds["stop"]["count"] == 1
    assert row.parameters == {"temperature": 0.5}
    assert [one["chars"] for batch in row.batches.all() for one in batch.deltas] == [len(SECRET), 0, 1]


@pytest.mark.usefixtures("no_text")
def test_kind_of_an_error_stays_without_what_it_says_when_text_is_not_stored(open_row):
    recorder = Recorder(open_row(), received_at=0.0)
    told = EngineError(f"The upstream refused {SECRET!r}.")
    recorder.finish(
        StreamEnd(stop_reason=StopReason.ENGINE_ERROR, ended_at=2.0, error=told.message, error_body=error_body(told))
    )
    assert get_writer().flush()
    row = Stream.objects.get()
    assert (row.stop_reason, row.error) == ("engine_error", "")
    assert row.error_body == {"error": {"message": "", "type": told.type, "param": None, "code": told.code}}


@pytest.mark.usefixtures("no_text")
@pytest.mark.django_db(transaction=True)
def test_a_conversation_goes_on_without_its_text_when_it_is_not_stored():
    conversation, answer = add_turn(None, user_id=None, session_key="s", parent_id=None, content=SECRET)
    assert (conversation.title, [message.content for message in conversation.messages.all()]) == ("", ["", ""])
    Stream.objects.create(
        message=answer, wire_id="a", source="page", has_text=False, delta_count=3, state="done", stop_reason="eos",
        started_at="2026-01-01T00:00Z",
    )  # fmt: skip
    shown = branch(conversation)
    assert [message.is_not_kept for message in shown] == [True, True]
    assert history(shown) == []


@pytest.mark.usefixtures("no_text")
@pytest.mark.django_db(transaction=True)
async def test_the_page_answers_and_says_that_nothing_was_kept(settings):
    settings.STREAMSITE_ANONYMOUS = settings.DEBUG = True
    client = AsyncClient()
    answered = await client.post(
        "/chat/stream/",
        json.dumps({"model": "default", "content": SECRET, "stream_id": "7a30c0de-0000-4000-8000-000000000001"}),
        content_type="application/json",
    )
    frames = b"".join([piece async for piece in answered.streaming_content])
    answered.close()
    assert b"Hello" in frames
    conversation = await Conversation.objects.aget()
    from asgiref.sync import sync_to_async

    await sync_to_async(get_writer().flush)()
    page = await client.get(f"/c/{conversation.pk}/")
    assert page.content.count(b"The text was not kept.") == 2
    assert SECRET.encode() not in page.content
    assert [message.content async for message in Message.objects.all()] == ["", ""]
    answer = await Message.objects.aget(role="assistant")
    again = await client.post(
        "/chat/stream/",
        json.dumps(
            {
                "model": "default",
                "conversation_id": str(conversation.pk),
                "parent_id": answer.parent_id,
                "stream_id": "7a30c0de-0000-4000-8000-000000000002",
            }
        ),
        content_type="application/json",
    )
    assert (again.status_code, again.json()["error"]["param"]) == (400, "parent_id")
    assert "was not kept" in again.json()["error"]["message"]
