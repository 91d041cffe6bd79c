"""A conversation's messages as a tree: the branch to show, the history to send, the turn to add.

Synchronous; called by the page's views in their own thread. An answer gets its content when its stream ends; until
then its text is what the stream has stored so far.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from generation.exceptions import InvalidRequestError, NotFoundError
from generation.models import Conversation, Message, Stream

TITLE_CHARS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownMessage:
    """A message with its text, and the stream that made it if a model did."""

    id: int
    parent_id: int | None
    role: str
    content: str
    stream: Stream | None

    @property
    def is_not_kept(self) -> bool:
        """Whether there was a text that is no longer, or was never, stored."""
        if self.stream is not None:
            return not self.stream.has_text and self.stream.delta_count > 0
        return self.role == Message.Role.USER and not self.content


def branch(conversation: Conversation, leaf_id: int | None = None) -> list[ShownMessage]:
    """The messages from the first down to ``leaf_id``, or to the newest one. Raises NotFoundError for a strange id."""
    messages = {message.pk: message for message in conversation.messages.select_related("stream")}
    if leaf_id is None:
        leaf_id = max(messages, default=None)
    elif leaf_id not in messages:
        raise NotFoundError(f"The conversation has no message {leaf_id}.", param="parent_id")
    shown = []
    while leaf_id is not None:
        message = messages[leaf_id]
        shown.append(_shown(message))
        leaf_id = message.parent_id
    return shown[::-1]


def history(messages: list[ShownMessage], *, system: str = "") -> list[dict[str, str]]:
    """The same messages as a request has them; those without text (never answered, or not kept) are left out."""
    head = [{"role": "system", "content": system}] if system else []
    return head + [{"role": message.role, "content": message.content} for message in messages if message.content]


def add_turn(
    conversation: Conversation | None,
    *,
    user_id: int | None,
    session_key: str,
    parent_id: int | None,
    content: str | None,
) -> tuple[Conversation, Message]:
    """Add a question and the empty message of its answer; without ``content``, another answer to ``parent_id``.

    Makes the conversation if there is none. Returns it and the answer's message.
    """
    if conversation is None:
        title = _title(content or "") if settings.STREAMSITE_STORE_TEXT else ""
        conversation = Conversation.objects.create(user_id=user_id, session_key=session_key, title=title)
    else:
        conversation.save(update_fields=["updated_at"])
    question_id = parent_id
    if content is not None:
        kept = content if settings.STREAMSITE_STORE_TEXT else ""
        question_id = conversation.messages.create(role=Message.Role.USER, content=kept, parent_id=parent_id).pk
    return conversation, conversation.messages.create(role=Message.Role.ASSISTANT, parent_id=question_id)


def check_parent(messages: list[ShownMessage], content: str | None) -> None:
    """A question follows an answer (or nothing); another answer follows a question. Raises InvalidRequestError."""
    last_role = messages[-1].role if messages else None
    if content is None and last_role != Message.Role.USER:
        raise InvalidRequestError("'parent_id' must name a question when there is no 'content'.", param="parent_id")
    if content is None and not messages[-1].content:
        raise InvalidRequestError("The question's text was not kept; ask it again.", param="parent_id")
    if content is not None and last_role == Message.Role.USER:
        raise InvalidRequestError("'parent_id' must name an answer when there is 'content'.", param="parent_id")


def owned_conversation(
    conversation_id: uuid.UUID, user: AbstractBaseUser | AnonymousUser, session_key: str
) -> Conversation:
    """The caller's conversation. Raises NotFoundError, for another's too."""
    conversation = Conversation.objects.owned_by(user, session_key).filter(pk=conversation_id).first()
    if conversation is None:
        raise NotFoundError("There is no such conversation.", param="conversation_id")
    return conversation


def _shown(message: Message) -> ShownMessage:
    stream: Stream | None = getattr(message, "stream", None)
    return ShownMessage(
        id=message.pk,
        parent_id=message.parent_id,
        role=message.role,
        content=message.content if stream is None else stream.shown_text,
        stream=stream,
    )


def _title(text: str) -> str:
    # NUL is a character that PostgreSQL does not store.
    line = " ".join(text.replace("\0", " ").split())
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"
