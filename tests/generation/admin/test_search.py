from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

from generation.admin.search import conversations_matching, streams_matching
from generation.models import Conversation, Stream
from generation.text_index import index_since


@pytest.fixture
def anna(db: None) -> User:
    return User.objects.create_user("Anna")


def found(term: str) -> list[Stream]:
    return list(Stream.objects.filter(streams_matching(term)))


def test_a_stream_is_found_when_its_id_is_given(make_stream: Callable[..., Stream]) -> None:
    stream, _ = make_stream(), make_stream()
    assert found(str(stream.pk)) == [stream]


def test_a_stream_is_found_when_its_wire_id_is_given(make_stream: Callable[..., Stream]) -> None:
    stream, _ = make_stream(wire_id="chatcmpl-this"), make_stream(wire_id="chatcmpl-that")
    assert found("chatcmpl-this") == [stream]


def test_streams_are_found_when_a_name_begins_like_this(make_stream: Callable[..., Stream], anna: User) -> None:
    stream, _ = make_stream(user=anna), make_stream()
    assert found("ann") == [stream]
    assert found("nna") == []


def test_streams_are_found_when_an_identifier_is_given(make_stream: Callable[..., Stream]) -> None:
    conversation = Conversation.objects.create()
    identifier = uuid.uuid4()
    stream = make_stream(conversation=conversation, client_stream_id=identifier)
    make_stream()
    assert found(str(conversation.pk)) == [stream]
    assert found(str(identifier)) == [stream]


@pytest.mark.parametrize("term", ["Hello", "9" * 30, "9" * 5000, "٣", "%", "' OR 1=1 --"])
def test_nothing_is_found_when_the_term_names_nothing(term: str, make_stream: Callable[..., Stream]) -> None:
    make_stream(["Hello"])
    assert found(term) == []


def test_streams_are_found_by_their_words_when_content_may_be_seen(
    make_stream: Callable[..., Stream], staff_client: Callable[..., Client]
) -> None:
    make_stream(["Green ", "chai"], user=User.objects.create_user("chaim"))
    make_stream(["Black ", "tea"], wire_id="chatcmpl-that")
    client = staff_client("view_stream")
    assert [shown(client, term) for term in ("green chai", "tea", "chai", "chatcmpl-that")] == [0, 0, 1, 1]
    User.objects.get(username="staff").user_permissions.add(Permission.objects.get(codename="view_stream_content"))
    assert [shown(client, term) for term in ("green chai", "tea", "chai", "chatcmpl-that")] == [1, 1, 1, 1]


def shown(client: Client, term: str, **filters: str) -> int:
    html = client.get(reverse("admin:generation_stream_changelist"), {"q": term, **filters}).content.decode()
    return html.count('<th class="field-id">')


@pytest.mark.parametrize(("term", "user"), [("chai", ""), ("ann", "anna annabel")], ids=["a word", "a name"])
def test_a_filtered_stream_is_found_when_over_a_thousand_newer_ones_match(
    term: str, user: str, admin_client: Client, make_stream: Callable[..., Stream]
) -> None:
    users = [User.objects.create_user(name) for name in user.split()]
    old = make_stream(["chai"], model="old", user=users[0] if users else None)
    Stream.objects.bulk_create(
        Stream(
            wire_id=f"newer-{number}", source="api", model="new", backend="default", state="done", stop_reason="eos",
            started_at=old.started_at, text="chai", user=users[-1] if users else None,
        )
        for number in range(1100)
    )  # fmt: skip
    index_since(old.pk)
    assert shown(admin_client, term, model="old") == 1
    assert shown(admin_client, term) == 50


def test_conversations_are_found_when_id_or_owner_is_given(anna: User) -> None:
    conversation = Conversation.objects.create(user=anna)
    Conversation.objects.create()
    for term in (str(conversation.pk), "Ann"):
        assert list(Conversation.objects.filter(conversations_matching(term))) == [conversation]


def test_streams_of_several_people_are_found_when_a_name_begins_like_theirs(
    make_stream: Callable[..., Stream], anna: User
) -> None:
    streams = [make_stream(user=anna), make_stream(user=User.objects.create_user("annabel"))]
    make_stream()
    assert sorted(found("ann"), key=lambda stream: stream.pk) == streams
