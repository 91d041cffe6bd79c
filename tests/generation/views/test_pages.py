"""The page's routes: turns, branches, owners, stop and state."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connection
from django.test import AsyncClient, Client
from django.urls import reverse

from generation.models import Conversation, Message, Stream
from generation.recording import get_writer

pytestmark = pytest.mark.django_db(transaction=True)


async def turn(client: AsyncClient, **fields: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Post one turn and read its stream until it is stored; returns the response and its chunks."""
    response, chunks = await turn_not_stored(client, **fields)
    assert await sync_to_async(get_writer().flush)()
    return response, chunks


async def turn_not_stored(client: AsyncClient, **fields: Any) -> tuple[Any, list[dict[str, Any]]]:
    """The same until its last frame."""
    body = {"stream_id": str(uuid.uuid4()), "model": "default", **fields}
    response = await client.post("/chat/stream/", json.dumps(body), content_type="application/json")
    if not response.streaming:
        return response, []
    frames = b"".join([piece async for piece in response.streaming_content]).decode().split("\n\n")
    response.close()
    assert frames[-2:] == ["data: [DONE]", ""]
    return response, [json.loads(frame.removeprefix("data: ")) for frame in frames[:-2]]


def text_of(chunks: list[dict[str, Any]]) -> str:
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk.get("choices"))


class FarClient(AsyncClient):
    """A client on another machine."""

    def _base_scope(self, **request: Any) -> dict[str, Any]:
        return super()._base_scope(**request) | {"client": ["192.0.2.7", 50000]}


@pytest.fixture
def client() -> AsyncClient:
    """A browser of the local demo, with its own session."""
    return AsyncClient()


class TestTurn:
    async def test_first_one_makes_a_conversation_with_both_messages(self, client: AsyncClient) -> None:
        response, chunks = await turn(client, content="  What is\n tea? ")
        assert text_of(chunks) == "Hello, world!"
        assert chunks[-1]["usage"]["completion_tokens"] == 4
        conversation = await Conversation.objects.aget(pk=response["x-conversation-id"])
        assert conversation.title == "What is tea?"
        question = await Message.objects.aget(pk=response["x-user-message-id"])
        answer = await Message.objects.select_related("stream").aget(pk=response["x-assistant-message-id"])
        assert (question.role, question.content, question.parent_id) == ("user", "  What is\n tea? ", None)
        assert (answer.role, answer.parent_id, answer.stream.text) == ("assistant", question.pk, "Hello, world!")
        assert (answer.stream.source, str(answer.stream.pk)) == ("page", response["x-stream-id"])

    async def test_no_connection_is_held_while_a_new_readers_answer_streams(self, client: AsyncClient) -> None:
        body = {"stream_id": str(uuid.uuid4()), "model": "scripted-slow", "content": "hi"}
        response = await client.post("/chat/stream/", json.dumps(body), content_type="application/json")
        assert "sessionid" in client.cookies
        assert await sync_to_async(lambda: connection.connection)() is None
        response.close()

    async def test_next_one_sends_the_whole_branch(self, client: AsyncClient) -> None:
        first, _ = await turn(client, content="one")
        second, _ = await turn(
            client,
            content="two",
            conversation_id=first["x-conversation-id"],
            parent_id=int(first["x-assistant-message-id"]),
            system="Be short.",
        )
        stream = await Stream.objects.aget(pk=second["x-stream-id"])
        assert stream.messages == [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "Hello, world!"},
            {"role": "user", "content": "two"},
        ]

    async def test_next_one_and_state_have_the_whole_answer_when_they_come_at_once(self, client: AsyncClient) -> None:
        first, _ = await turn_not_stored(client, content="one")
        conversation_id = first["x-conversation-id"]
        state = await client.get(f"/chat/state/{conversation_id}/")
        assert [message["content"] for message in state.json()["messages"]] == ["one", "Hello, world!"]
        answer_id = int(first["x-assistant-message-id"])
        second, _ = await turn_not_stored(client, content="two", conversation_id=conversation_id, parent_id=answer_id)
        third, _ = await turn(
            client,
            content="three",
            conversation_id=conversation_id,
            parent_id=int(second["x-assistant-message-id"]),
        )
        asked = (await Stream.objects.aget(pk=third["x-stream-id"])).messages
        assert [message["content"] for message in asked] == ["one", "Hello, world!", "two", "Hello, world!", "three"]

    async def test_another_answer_to_the_same_question_is_a_sibling(self, client: AsyncClient) -> None:
        first, _ = await turn(client, content="one")
        again, _ = await turn(
            client, conversation_id=first["x-conversation-id"], parent_id=int(first["x-user-message-id"])
        )
        assert again["x-user-message-id"] == first["x-user-message-id"]
        assert again["x-assistant-message-id"] != first["x-assistant-message-id"]
        stream = await Stream.objects.aget(pk=again["x-stream-id"])
        assert stream.messages == [{"role": "user", "content": "one"}]

    @pytest.mark.parametrize(
        ("fields", "status", "param"),
        [
            ({"content": " "}, 400, "content"),
            ({"content": 5}, 400, "content"),
            ({"content": "a", "stream_id": "x"}, 400, "stream_id"),
            ({"content": "a", "stream_id": None}, 400, "stream_id"),
            ({"content": "a", "conversation_id": str(uuid.uuid4())}, 404, "conversation_id"),
            ({"content": "a", "parent_id": 1}, 400, "parent_id"),
            ({"content": None}, 400, "parent_id"),
            ({"content": "a", "temperature": 9}, 400, "temperature"),
            ({"content": "a", "stop": [""]}, 400, "stop"),
            ({"content": "a", "model": "none"}, 404, "model"),
            ({"content": "a", "messages": []}, 400, "messages"),
            ({"content": "a", "colour": "red"}, 400, "colour"),
        ],
        ids=str,
    )
    async def test_wrong_one_is_refused_and_leaves_nothing(
        self, client: AsyncClient, fields: dict[str, Any], status: int, param: str
    ) -> None:
        response, _ = await turn(client, **fields)
        assert (response.status_code, response.json()["error"]["param"]) == (status, param)
        assert await Message.objects.acount() == 0
        assert await Conversation.objects.acount() == 0

    @pytest.mark.parametrize("whose", ["own", "another's"])
    async def test_is_refused_and_leaves_nothing_when_its_stream_id_was_used_before(
        self, client: AsyncClient, whose: str
    ) -> None:
        stream_id = str(uuid.uuid4())
        await turn(client, content="a", stream_id=stream_id)
        response, _ = await turn(client if whose == "own" else AsyncClient(), content="b", stream_id=stream_id)
        assert (response.status_code, response.json()["error"]["param"]) == (400, "stream_id")
        assert await Conversation.objects.acount() == 1

    async def test_needs_the_csrf_token(self) -> None:
        client = AsyncClient(enforce_csrf_checks=True)
        response, _ = await turn(client, content="a")
        assert response.status_code == 403


class TestOwners:
    """Route by route, another's conversation does not exist."""

    async def test_strangers_get_404_everywhere(self, client: AsyncClient) -> None:
        mine, _ = await turn(client, content="secret")
        conversation_id = mine["x-conversation-id"]
        user = await User.objects.acreate_user("someone", password="x")
        logged_in = AsyncClient()
        await logged_in.aforce_login(user)
        for stranger in (AsyncClient(), logged_in):
            assert (await stranger.get(f"/c/{conversation_id}/")).status_code == 404
            assert (await stranger.get(f"/chat/state/{conversation_id}/")).status_code == 404
            response, _ = await turn(stranger, content="a", conversation_id=conversation_id)
            assert (response.status_code, response.json()["error"]["param"]) == (404, "conversation_id")
            assert b"secret" not in (await stranger.get("/")).content

    async def test_owner_sees_it(self, client: AsyncClient) -> None:
        mine, _ = await turn(client, content="my question")
        page = await client.get(f"/c/{mine['x-conversation-id']}/")
        assert page.status_code == 200
        assert b"my question" in page.content
        assert b"Hello, world!" in page.content

    async def test_parent_of_another_conversation_does_not_exist(self, client: AsyncClient) -> None:
        one, _ = await turn(client, content="one")
        two, _ = await turn(client, content="two")
        response, _ = await turn(
            client,
            content="x",
            conversation_id=one["x-conversation-id"],
            parent_id=int(two["x-assistant-message-id"]),
        )
        assert (response.status_code, response.json()["error"]["param"]) == (404, "parent_id")

    @pytest.mark.parametrize("path", ["/", f"/c/{uuid.uuid4()}/"])
    async def test_page_asks_for_a_login_when_it_is_not_the_local_demo(self, settings: Any, path: str) -> None:
        settings.STREAMSITE_ANONYMOUS = False
        response = await AsyncClient().get(path)
        assert (response.status_code, response["Location"]) == (302, f"/login/?next={path}")

    @pytest.mark.parametrize(
        ("method", "path"),
        [
            ("post", "/chat/stream/"),
            ("post", "/chat/stop/"),
            ("get", f"/chat/state/{uuid.uuid4()}/"),
            ("post", "/v1/chat/completions"),
            ("get", "/v1/models"),
            ("get", "/v1/models/default"),
        ],
    )
    @pytest.mark.parametrize("why", ["not_demo", "not_debug", "not_local"])
    async def test_everything_else_is_401_when_it_is_not_the_local_demo(
        self, settings: Any, method: str, path: str, why: str
    ) -> None:
        client = AsyncClient()
        if why == "not_demo":
            settings.STREAMSITE_ANONYMOUS = False
        elif why == "not_debug":
            settings.DEBUG = False
        else:
            client = FarClient()
        body = {
            "stream_id": str(uuid.uuid4()), "model": "default", "content": "a",
            "messages": [{"role": "user", "content": "a"}],
        }  # fmt: skip
        if path.startswith("/v1"):
            del body["stream_id"], body["content"]
        elif method == "post":
            del body["messages"]
        arguments = {"data": json.dumps(body), "content_type": "application/json"} if method == "post" else {}
        response = await getattr(client, method)(path, **arguments)
        assert response.status_code == 401
        assert response.json()["error"]["type"] == "authentication_error"


class TestStop:
    async def test_is_the_same_204_for_a_stream_that_does_not_run(self, client: AsyncClient) -> None:
        body = {"stream_id": str(uuid.uuid4())}
        response = await client.post("/chat/stop/", json.dumps(body), content_type="application/json")
        assert (response.status_code, response.content) == (204, b"")

    async def test_notes_what_the_reader_had_seen_once(self, client: AsyncClient) -> None:
        stream_id = str(uuid.uuid4())
        await turn(client, content="a", stream_id=stream_id)
        for seen in ("5", "9"):
            await client.post("/chat/stop/", {"stream_id": stream_id, "seen_chars": seen})
        stream = await Stream.objects.aget(client_stream_id=stream_id)
        assert (stream.seen_chars, stream.unseen_chars, stream.stop_reason) == (5, 8, "eos")

    async def test_does_not_touch_the_stream_of_another(self, client: AsyncClient) -> None:
        stream_id = str(uuid.uuid4())
        await turn(client, content="a", stream_id=stream_id)
        response = await AsyncClient().post("/chat/stop/", {"stream_id": stream_id, "seen_chars": "5"})
        assert response.status_code == 204
        assert (await Stream.objects.aget(client_stream_id=stream_id)).seen_chars is None

    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"stream_id": "x"},
            {"stream_id": str(uuid.uuid4()), "seen_chars": "-1"},
            {"stream_id": str(uuid.uuid4()), "seen_chars": "9" * 5000},
        ],
        ids=["no id", "no uuid", "negative", "5,000 digits"],
    )
    async def test_wrong_fields_are_refused(self, client: AsyncClient, fields: dict[str, str]) -> None:
        response = await client.post("/chat/stop/", fields)
        assert response.status_code == 400
        assert response.json()["error"]["param"] in {"stream_id", "seen_chars"}


async def test_state_is_what_a_returning_page_needs(client: AsyncClient) -> None:
    made, _ = await turn(client, content="one")
    body = (await client.get(f"/chat/state/{made['x-conversation-id']}/")).json()
    assert body["conversation"] == {"id": made["x-conversation-id"], "title": "one"}
    question, answer = body["messages"]
    assert (question["role"], question["content"], question["stream"]) == ("user", "one", None)
    assert (answer["role"], answer["content"], answer["parent_id"]) == ("assistant", "Hello, world!", question["id"])
    assert (answer["stream"]["state"], answer["stream"]["tokens"]) == ("done", 4)


def test_page_shows_hostile_text_as_text(client: None) -> None:
    browser = Client()
    browser.get("/")
    conversation = Conversation.objects.create(session_key=browser.session.session_key, title="<img src=x onerror=1>")
    conversation.messages.create(role="user", content="<script>alert(1)</script>")
    page = browser.get(reverse("generation:conversation", args=[conversation.pk])).content.decode()
    assert "<script>alert(1)" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
