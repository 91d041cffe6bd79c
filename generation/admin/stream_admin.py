"""The list of streams; `stream_page` is the page of one."""

from __future__ import annotations

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString

from generation.admin.content_access import may_view_content
from generation.admin.durations import seconds
from generation.admin.export_actions import ExportActions
from generation.admin.filters import (
    BackendFilter,
    GapFilter,
    HeldFilter,
    KeyFilter,
    LabelFilter,
    ModelFilter,
    ProofFilter,
    SlowFilter,
    SourceFilter,
    UserFilter,
)
from generation.admin.search import streams_matching
from generation.admin.started_filter import StartedFilter
from generation.admin.stream_change_list import FIRST_WORDS, StreamChangeList
from generation.admin.stream_page import StreamPage
from generation.admin.visible import visible_line
from generation.fields import escape
from generation.models import Review, Stream


@admin.register(Stream)
class StreamAdmin(ExportActions, StreamPage):
    """Streams, newest first."""

    list_display = (
        "id", "state_badge", "reason", "first_words", "model", "backend_name", "caller", "started", "ttft", "gap",
        "total", "tokens", "tokens_per_s", "ender", "verdict", "labels",
    )  # fmt: skip
    list_filter = (
        StartedFilter, "state", "stop_reason", "ended_by", SlowFilter, GapFilter, HeldFilter, LabelFilter, ProofFilter,
        ModelFilter, BackendFilter, SourceFilter, UserFilter, KeyFilter,
    )  # fmt: skip
    list_select_related = ("user", "api_key")
    linked_columns = frozenset({"api_key", "conversation", "started_at", "user", "worker"})
    sortable_by = ()
    list_per_page = 50
    search_fields = ("id", "wire_id", "user")
    search_help_text = (
        "An id, a wire id, a conversation's id, the beginning of a user name, or, for those who may see it, words of "
        "the text."
    )

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        """Leave out what a model wrote for those who may not see it."""
        content = may_view_content(request.user)
        return tuple(name for name in self.list_display if content or name != "first_words")

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[ChangeList]:
        return StreamChangeList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Stream], search_term: str
    ) -> tuple[QuerySet[Stream], bool]:
        term = search_term.strip()
        if not term:
            return queryset, False
        return queryset.filter(streams_matching(term, words=may_view_content(request.user))), False

    @admin.display(description="state")
    def state_badge(self, stream: Stream) -> SafeString:
        return format_html('<span class="state state-{}">{}</span>', stream.state, stream.get_state_display().lower())

    @admin.display(description="backend")
    def backend_name(self, stream: Stream) -> str:
        return visible_line(stream.backend)

    @admin.display(description="user, key")
    def caller(self, stream: Stream) -> str | None:
        names = [stream.user.get_username()] if stream.user else []
        return ", ".join(map(visible_line, [*names, stream.api_key.name] if stream.api_key else names)) or None

    @admin.display(description="started")
    def started(self, stream: Stream) -> str:
        return date_format(timezone.localtime(stream.started_at), "Y-m-d H:i:s")

    @admin.display(description="TTFT (visible)")
    def ttft(self, stream: Stream) -> str | None:
        return seconds(stream.ttft_visible_s) or None

    @admin.display(description="largest gap")
    def gap(self, stream: Stream) -> str | None:
        return seconds(stream.icl_max_s) or None

    @admin.display(description="total")
    def total(self, stream: Stream) -> str | None:
        return seconds(stream.total_s) or None

    @admin.display(description="tokens")
    def tokens(self, stream: Stream) -> int | None:
        return stream.completion_tokens

    @admin.display(description="tokens/s")
    def tokens_per_s(self, stream: Stream) -> str | None:
        return None if stream.tokens_per_s is None else f"{stream.tokens_per_s:.1f}"

    @admin.display(description="stop reason")
    def reason(self, stream: Stream) -> str | None:
        return stream.get_stop_reason_display() if stream.stop_reason else None

    @admin.display(description="ended by")
    def ender(self, stream: Stream) -> str | None:
        return stream.get_ended_by_display() if stream.ended_by else None

    @admin.display(description="proof")
    def verdict(self, stream: Stream) -> str | None:
        return stream.proof.replace("_", " ") if stream.proof else None

    @admin.display(description="labels")
    def labels(self, stream: Stream) -> str | None:
        given: list[Review] = stream.labelled  # type: ignore[attr-defined]  # fetched by StreamChangeList
        return ", ".join(dict.fromkeys(visible_line(review.label) for review in given)) or None

    @admin.display(description="first words")
    def first_words(self, stream: Stream) -> str:
        words: str = stream.first_words  # type: ignore[attr-defined]  # annotated by StreamChangeList
        # The database cut the text as it is stored.
        return visible_line(words) + ("…" if len(escape(words)) >= FIRST_WORDS else "")
