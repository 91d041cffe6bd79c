from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from generation.access import create_key
from generation.models import Conversation, Review, Stream


@pytest.fixture
def ada(make_stream: Callable[..., Stream]) -> User:
    """A person with a conversation, a stream, a key and a review."""
    ada = User.objects.create_user("ada")
    conversation = Conversation.objects.create(user=ada, title="secret title")
    conversation.messages.create(role="user", content="secret question")
    stream = make_stream(user=ada, conversation=conversation)
    Review.objects.create(stream=stream, reviewer=ada, label="good")
    create_key(ada, "laptop")
    return ada


def test_records_stay_without_a_name_when_their_owner_is_deleted(
    ada: User, staff_client: Callable[..., Client]
) -> None:
    client = staff_client("view_user", "delete_user")
    page = reverse("admin:auth_user_delete", args=[ada.pk])
    asked = client.get(page)
    assert "secret" not in asked.content.decode()
    assert client.post(page, {"post": "yes"}).status_code == 302
    assert not User.objects.filter(username="ada").exists()
    assert not Conversation.objects.exists()
    stream, review = Stream.objects.get(), Review.objects.get()
    assert (stream.user, stream.conversation, stream.text, review.reviewer) == (None, None, "Hello", None)


def test_nobody_is_deleted_when_staff_lack_the_permission(ada: User, staff_client: Callable[..., Client]) -> None:
    client = staff_client("view_user", "change_user")
    assert client.post(reverse("admin:auth_user_delete", args=[ada.pk]), {"post": "yes"}).status_code == 403
    assert User.objects.filter(username="ada").exists()
