from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from generation.admin import conversation_admin
from generation.models import Conversation, Message, Stream

LIST = reverse("admin:generation_conversation_changelist")


@pytest.fixture
def conversation(db: None) -> Conversation:
    return Conversation.objects.create(title="Tides", user=User.objects.create_user("reader"))


def page_of(conversation: Conversation) -> str:
    return reverse("admin:generation_conversation_change", args=[conversation.pk])


def test_messages_link_to_their_streams_when_shown(
    admin_client: Client, conversation: Conversation, make_stream: Callable[..., Stream]
) -> None:
    question = Message.objects.create(conversation=conversation, role="user", content="Why\nare there tides?")
    answer = Message.objects.create(conversation=conversation, role="assistant", content="The moon.", parent=question)
    stream = make_stream(["The ", "moon."], conversation=conversation, message=answer)
    html = admin_client.get(page_of(conversation)).content.decode()
    assert re.findall(r'<pre class="text"[^>]*>\n(.*?)</pre>', html, re.DOTALL) == [
        "Why\nare there tides?",
        "The moon.",
    ]
    assert f"#{answer.pk}, answers #{question.pk}, " in html
    assert html.count(f'<a href="/admin/generation/stream/{stream.pk}/change/">stream {stream.pk}</a>') == 1


def test_the_page_takes_six_queries_when_there_are_many_messages(
    admin_client: Client,
    conversation: Conversation,
    make_stream: Callable[..., Stream],
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    for _ in range(10):
        message = Message.objects.create(conversation=conversation, role="assistant", content="x")
        make_stream(message=message)
    admin_client.get(page_of(conversation))  # logs the view
    # Session, staff user, conversation with its owner, log entry, number of messages, messages with their streams.
    with django_assert_num_queries(6):
        admin_client.get(page_of(conversation))


def test_messages_are_paged_when_there_are_many(
    admin_client: Client, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation_admin, "MESSAGES_PER_PAGE", 2)
    for number in range(3):
        Message.objects.create(conversation=conversation, role="user", content=f"message {number}")
    html = admin_client.get(page_of(conversation) + "?from=3").content.decode()
    assert re.findall(r"message \d", html) == ["message 2"]
    assert "Messages 3–3 of 3" in html


def test_conversations_are_listed_with_their_owners_when_searched(
    admin_client: Client, conversation: Conversation
) -> None:
    Conversation.objects.create(session_key="s")
    assert re.findall(r'class="field-owner[^"]*">(.*?)<', admin_client.get(LIST).content.decode()) == [
        "a browser session",
        "reader",
    ]
    found = admin_client.get(LIST, {"q": "read"}).content.decode()
    assert re.findall(r'class="field-owner[^"]*">(.*?)<', found) == ["reader"]
