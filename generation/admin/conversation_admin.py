"""Conversations: who owns them, and their messages with links to the streams that made them."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from generation.admin.content_access import may_view_content, note_content_view
from generation.admin.record_admin import RecordAdmin
from generation.admin.search import conversations_matching
from generation.admin.visible import visible_html, visible_line
from generation.admin.window import window
from generation.models import Conversation, Message, Stream

MESSAGES_PER_PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTurn:
    """A message with its text made visible (None: not to be shown), and the stream that wrote it, if one did."""

    message: Message
    content: SafeString | None
    stream: Stream | None


@admin.register(Conversation)
class ConversationAdmin(RecordAdmin[Conversation]):
    """Conversations, the last used first."""

    detail_template = "admin/generation/conversation/detail.html"
    list_display = ("id", "name", "owner", "created_at", "updated_at")
    sortable_by = ()
    search_fields = ("id", "user")
    search_help_text = "A conversation's id, or the beginning of a user name."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Conversation]:
        return super().get_queryset(request).select_related("user")

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        """Leave out titles, which are the first words of what somebody asked, for those who may not see content."""
        content = may_view_content(request.user)
        return tuple(name for name in self.list_display if content or name != "name")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Conversation], search_term: str
    ) -> tuple[QuerySet[Conversation], bool]:
        term = search_term.strip()
        return (queryset.filter(conversations_matching(term)) if term else queryset), False

    @admin.display(description="title")
    def name(self, conversation: Conversation) -> str:
        return visible_line(conversation.title or str(conversation))

    @admin.display(description="owner")
    def owner(self, conversation: Conversation) -> str:
        return visible_line(conversation.user.get_username()) if conversation.user else "a browser session"

    def detail(self, request: HttpRequest, record: Conversation) -> dict[str, object]:
        content = may_view_content(request.user)
        if content:
            note_content_view(request.user, record)
        messages = record.messages.all()
        shown = window(request.GET.get("from"), total=messages.count(), size=MESSAGES_PER_PAGE)
        columns = (
            "conversation_id", "parent_id", "role", "created_at",
            "stream__message_id", "stream__state", "stream__stop_reason", *(["content"] if content else []),
        )  # fmt: skip
        turns = messages.select_related("stream").only(*columns)
        return {
            "title": self.name(record) if content else f"Conversation {record.pk}",
            "content": content,
            "owner": self.owner(record),
            "turns": [
                ShownTurn(
                    message=message,
                    content=visible_html(message.content, whitespace=False) if content else None,
                    # The other side of a one-to-one raises where there is none.
                    stream=getattr(message, "stream", None),
                )
                for message in turns[shown.slice]
            ],
            "window": shown,
        }
