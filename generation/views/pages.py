"""The chat page: the page itself, its streams, and its state after a return from the back/forward cache."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from generation import conversations
from generation.backends import backends
from generation.conversations import ShownMessage
from generation.exceptions import AuthenticationError, InvalidRequestError, NotFoundError
from generation.models import Conversation, Stream
from generation.protocol import CompletionRequest
from generation.protocol.completion_request import completion_request, load_json_object
from generation.recording import REQUEST_FLUSH_TIMEOUT_S, get_writer
from generation.streaming import Origin, begin
from generation.views.access import Caller, page_caller
from generation.views.methods import require_methods
from generation.views.responses import no_store, read_json_body, stream_response, with_error_bodies

T = TypeVar("T")

HISTORY_LENGTH = 30
EXAMPLES = (
    {"title": "A short story", "prompt": "Write a short story about a lighthouse keeper and a lost gull."},
    {"title": "हिन्दी और 🙂", "prompt": "नमस्ते! ☕ How do you say 'The tea is ready' in Hindi? 🙂"},
    {"title": "Explain a thing", "prompt": "Explain in three sentences why the sky is blue."},
)
#: Fields of a turn that are the page's own; all others are those of a chat completion, but for those made here.
_PAGE_FIELDS = ("stream_id", "conversation_id", "parent_id", "content", "system")
_MADE_FIELDS = ("messages", "stream", "stream_options")


@cache_control(private=True, no_cache=True)  # "no-store" would keep the page out of the back/forward cache
@require_safe
def chat(request: HttpRequest, conversation_id: uuid.UUID | None = None) -> HttpResponse:
    """The page, empty or with a conversation."""
    try:
        caller = page_caller(request)
    except AuthenticationError:
        return redirect_to_login(request.get_full_path())
    conversation = None
    if conversation_id is not None:
        try:
            conversation = conversations.owned_conversation(conversation_id, caller.user, caller.session_key)
        except NotFoundError as exc:
            raise Http404(str(exc)) from exc
    health = backends["default"].health
    state_url = reverse("generation:chat-state", args=[conversation.pk]) if conversation else None
    context = {
        "conversation": conversation,
        "messages": _branch(conversation) if conversation else [],
        "conversations": Conversation.objects.owned_by(caller.user, caller.session_key)[:HISTORY_LENGTH],
        "models": backends.models(),
        "model_state": {"state": health.state.value, "message": health.message},
        "examples": EXAMPLES,
        "page_config": {
            "conversation_id": str(conversation.pk) if conversation else None,
            "stream_url": reverse("generation:chat-stream"),
            "stop_url": reverse("generation:chat-stop"),
            "state_url": state_url,
            "ready_url": reverse("generation:readyz"),
            "keep_alive_s": settings.STREAMSITE_KEEP_ALIVE_S,
        },
    }
    return render(request, "generation/chat.html", context)


@with_error_bodies
@require_methods("POST")
async def chat_stream(request: HttpRequest) -> HttpResponseBase:
    """Answer one turn of a conversation, as an event stream."""
    received_at = time.monotonic()
    body = load_json_object(read_json_body(request))
    turn = await sync_to_async(_read_turn)(request, body)
    message_ids: dict[str, int | None] = {}

    def attach(origin: Origin) -> Origin:
        conversation, answer = conversations.add_turn(
            turn.conversation,
            user_id=turn.caller.user_id,
            session_key=turn.caller.session_key,
            parent_id=turn.parent_id,
            content=turn.content,
        )
        message_ids.update(question=answer.parent_id, answer=answer.pk)
        return replace(origin, conversation_id=conversation.pk, message_id=answer.pk)

    origin = Origin(
        source="page",
        user_id=turn.caller.user_id,
        session_key=turn.caller.session_key,
        client_stream_id=turn.stream_id,
        client_address_class=turn.caller.address_class,
    )
    generation = await begin(
        turn.completion.generation, origin, received_at=received_at, attach=attach, include_usage=True
    )
    response = stream_response([generation], include_usage=True)
    response["x-conversation-id"] = str(generation.origin.conversation_id)
    response["x-stream-id"] = str(generation.stream_id)
    response["x-user-message-id"] = str(message_ids["question"])
    response["x-assistant-message-id"] = str(message_ids["answer"])
    return response


@with_error_bodies
@require_methods("GET")
async def chat_state(request: HttpRequest, conversation_id: uuid.UUID) -> HttpResponseBase:
    """A conversation as it is stored now."""
    return no_store(JsonResponse(await sync_to_async(_state)(request, conversation_id)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One question of the page, checked."""

    caller: Caller
    stream_id: uuid.UUID
    conversation: Conversation | None
    parent_id: int | None
    content: str | None
    completion: CompletionRequest


def _read_turn(request: HttpRequest, body: Mapping[str, Any]) -> Turn:
    """Check a turn against its conversation; synchronous, it reads rows."""
    caller = page_caller(request)
    for name in _MADE_FIELDS:
        if name in body:
            raise InvalidRequestError(f"'{name}' is not a field of a turn.", param=name, code="unknown_parameter")
    stream_id = read_uuid(body, "stream_id")
    if stream_id is None:
        raise InvalidRequestError("'stream_id' is missing; it must be a new UUID.", param="stream_id")
    conversation_id = read_uuid(body, "conversation_id")
    parent_id = _read(body, "parent_id", int)
    content = _read(body, "content", str)
    if content is not None and not content.strip():
        raise InvalidRequestError("'content' is empty; type a question.", param="content")
    conversation, messages = None, []
    if conversation_id is not None:
        conversation = conversations.owned_conversation(conversation_id, caller.user, caller.session_key)
        if parent_id is not None:
            messages = _branch(conversation, parent_id)
    elif parent_id is not None:
        raise InvalidRequestError("'parent_id' needs a 'conversation_id'.", param="parent_id")
    conversations.check_parent(messages, content)
    asked = conversations.history(messages, system=_read(body, "system", str) or "")
    if content is not None:
        asked.append({"role": "user", "content": content})
    rest = {name: value for name, value in body.items() if name not in _PAGE_FIELDS}
    return Turn(
        caller=caller,
        stream_id=stream_id,
        conversation=conversation,
        parent_id=parent_id,
        content=content,
        completion=completion_request({**rest, "messages": asked, "stream": True}),
    )


def read_uuid(body: Mapping[str, Any], name: str) -> uuid.UUID | None:
    """A UUID of a body, None if absent. Raises InvalidRequestError."""
    value = _read(body, name, str)
    try:
        return uuid.UUID(value) if value else None
    except ValueError as exc:
        raise InvalidRequestError(f"'{name}' is not a UUID.", param=name) from exc


def _read(body: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    value = body.get(name)
    if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    words = {int: "a whole number", str: "a string"}
    raise InvalidRequestError(f"'{name}' must be {words[kind]}.", param=name)


def _state(request: HttpRequest, conversation_id: uuid.UUID) -> dict[str, Any]:
    caller = page_caller(request)
    conversation = conversations.owned_conversation(conversation_id, caller.user, caller.session_key)
    return {
        "conversation": {"id": str(conversation.pk), "title": conversation.title},
        "messages": [_message_state(message) for message in _branch(conversation)],
    }


def _branch(conversation: Conversation, leaf_id: int | None = None) -> list[ShownMessage]:
    """The branch with all that answers have by now: the end of one is stored a moment after its last frame."""
    shown = conversations.branch(conversation, leaf_id)
    if any(message.stream and message.stream.state == Stream.State.RUNNING for message in shown):
        get_writer().flush(REQUEST_FLUSH_TIMEOUT_S)
        shown = conversations.branch(conversation, leaf_id)
    return shown


def _message_state(message: ShownMessage) -> dict[str, Any]:
    stream = message.stream
    return {
        "id": message.id,
        "parent_id": message.parent_id,
        "role": message.role,
        "content": message.content,
        "stream": stream
        and {
            "id": stream.pk,
            "wire_id": stream.wire_id,
            "error": stream.error,
            **stream.shown_end,
            "holds": stream.holds,
        },
    }
