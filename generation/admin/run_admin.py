"""Corpus runs: what went through which backend, and the stream that each item made."""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString

from generation.admin.content_access import may_view_content
from generation.admin.durations import seconds
from generation.admin.record_admin import RecordAdmin
from generation.admin.request_view import shown_parameters
from generation.admin.visible import visible_html, visible_line
from generation.admin.window import window
from generation.models import Run, RunItem, Stream

ITEMS_PER_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownItem:
    """An item of the corpus with its stream, or the error that kept it from having one (None: not to be shown)."""

    item: RunItem
    name: str
    error: SafeString | None
    stream: Stream | None
    ttft: str
    total: str
    tokens: int | None


@admin.register(Run)
class RunAdmin(RecordAdmin[Run]):
    """Runs, newest first."""

    detail_template = "admin/generation/run/detail.html"
    list_display = ("id", "title", "corpus_path", "model", "started_at", "ended_at")
    sortable_by = ()

    @admin.display(description="name")
    def title(self, run: Run) -> str:
        return visible_line(run.name)

    @admin.display(description="corpus")
    def corpus_path(self, run: Run) -> str:
        return visible_line(run.corpus)

    def detail(self, request: HttpRequest, record: Run) -> dict[str, object]:
        content = may_view_content(request.user)
        items = record.items.all()
        shown = window(request.GET.get("from"), total=items.count(), size=ITEMS_PER_PAGE)
        rows = items.select_related("stream").only(
            "run_id", "position", "item_id", "error",
            "stream__state", "stream__stop_reason", "stream__ttft_visible_s", "stream__total_s",
            "stream__completion_tokens",
        )  # fmt: skip
        return {
            "title": f"Run {record.pk}",
            "name": visible_line(record.name),
            "corpus": visible_line(record.corpus),
            "content": content,
            "parameters": shown_parameters(record.parameters) if content else [],
            "items": [_shown(item, content=content) for item in rows[shown.slice]],
            "window": shown,
        }


def _shown(item: RunItem, *, content: bool) -> ShownItem:
    stream = item.stream
    return ShownItem(
        item=item,
        name=visible_line(item.item_id),
        # It may quote the line of the corpus.
        error=visible_html(item.error, whitespace=False) if content or not item.error else None,
        stream=stream,
        ttft=seconds(stream.ttft_visible_s) if stream else "",
        total=seconds(stream.total_s) if stream else "",
        tokens=stream.completion_tokens if stream else None,
    )
