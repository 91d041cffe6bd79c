from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from generation.models import ApiKey, Conversation, Stream
from generation.recording import get_writer
from generation.request import ChatMessage, GenerationRequest, ResponseFormat, SamplingParams


def test_the_row_holds_who_and_what_before_anything_was_generated(open_row):
    user = User.objects.create(username="ada")
    conversation = Conversation.objects.create(user=user)
    message = conversation.messages.create(role="assistant")
    client_stream_id = uuid.uuid4()
    stream_id = open_row(
        request=GenerationRequest(
            model="smol",
            messages=(
                ChatMessage(role="system", content="Be brief."),
                ChatMessage(role="user", content="नमस्ते \x00 🙂"),
            ),
            sampling=SamplingParams(max_tokens=20, temperature=0.0, stop=("\n",), logit_bias={5: -100.0}),
            end_user="their-customer",
            metadata={"ticket": "17"},
        ),
        wire_id="chatcmpl-1234",
        source="page",
        backend="local",
        started_at=datetime(2026, 3, 1, tzinfo=UTC),
        user_id=user.pk,
        session_key="s" * 32,
        conversation_id=conversation.pk,
        message_id=message.pk,
        client_stream_id=client_stream_id,
        client_address_class="loopback",
    )
    row = Stream.objects.select_related("worker").get(pk=stream_id)
    assert (row.state, row.stop_reason, row.ended_at, row.text) == ("running", None, None, "")
    assert (row.wire_id, row.source, row.model, row.backend) == ("chatcmpl-1234", "page", "smol", "local")
    assert (row.user, row.session_key, row.conversation, row.message) == (user, "s" * 32, conversation, message)
    assert (row.client_stream_id, row.client_address_class) == (client_stream_id, "loopback")
    assert row.started_at == datetime(2026, 3, 1, tzinfo=UTC)
    assert row.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "नमस्ते \x00 🙂"},
    ]
    assert row.parameters == {
        "max_tokens": 20,
        "temperature": 0.0,
        "stop": ["\n"],
        "logit_bias": {"5": -100.0},
        "user": "their-customer",
        "metadata": {"ticket": "17"},
    }
    assert row.worker.pid == os.getpid()


@pytest.mark.parametrize(
    ("fields", "messages", "parameters"),
    [
        pytest.param({"prompt": "Once"}, [{"role": "prompt", "content": "Once"}], {}, id="bare prompt"),
        pytest.param({"prompt": (1, 5)}, [{"role": "prompt", "content": [1, 5]}], {}, id="prompt of ids"),
        pytest.param(
            {
                "messages": (
                    ChatMessage(role="assistant", content="", tool_calls=({"id": "c1"},)),
                    ChatMessage(role="tool", content="4", tool_call_id="c1"),
                ),
                "n": 2,
                "tools": ({"type": "function"},),
                "tool_choice": "none",
                "parallel_tool_calls": False,
            },
            [
                {"role": "assistant", "content": "", "tool_calls": [{"id": "c1"}]},
                {"role": "tool", "content": "4", "tool_call_id": "c1"},
            ],
            {"n": 2, "tools": [{"type": "function"}], "tool_choice": "none", "parallel_tool_calls": False},
            id="tools",
        ),
        pytest.param(
            {"sampling": SamplingParams(response_format=ResponseFormat(kind="json_object"))},
            [],
            {"response_format": {"type": "json_object"}},
            id="json_object",
        ),
        pytest.param(
            {"sampling": SamplingParams(response_format=ResponseFormat(kind="json_schema", name="n", schema={"a": 1}))},
            [],
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1}}}},
            id="json_schema",
        ),
    ],
)
def test_the_request_is_kept_as_plain_json(open_row, fields, messages, parameters):
    row = Stream.objects.get(pk=open_row(request=GenerationRequest(**{"model": "m", "messages": (), **fields})))
    assert (row.messages, row.parameters) == (messages, parameters)
    assert row.endpoint == ("completions" if "prompt" in fields else "chat")


def test_the_row_names_its_key_and_which_answer_it_is(open_row):
    key = ApiKey.objects.create(user=User.objects.create(username="ada"), name="ci", prefix="sk-1", secret_sha256="0")
    for choice in range(2):
        open_row(wire_id="chatcmpl-1", choice=choice, api_key_id=key.pk, include_usage=True)
    assert list(Stream.objects.order_by("pk").values_list("choice", "api_key__name", "include_usage")) == [
        (0, "ci", True),
        (1, "ci", True),
    ]


def test_streams_of_a_process_belong_to_one_worker(open_row):
    open_row()
    assert get_writer().flush()  # from here on the process has its row
    owners = {Stream.objects.get(pk=open_row()).worker_id for _ in range(3)}
    assert len(owners) == 1


def test_nothing_is_left_when_the_surrounding_transaction_is_rolled_back(open_row):
    with transaction.atomic():
        open_row()
        transaction.set_rollback(True)
    stream_id = open_row()
    assert list(Stream.objects.values_list("pk", "worker__pid")) == [(stream_id, os.getpid())]
