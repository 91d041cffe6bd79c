"""All reviews, the newest first: who said what of which stream. They are made on a stream's page and never changed."""

from __future__ import annotations

from django.conf import settings
from django.contrib import admin
from django.contrib.admin import SimpleListFilter
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from generation.admin.content_access import may_view_content
from generation.admin.record_admin import RecordAdmin
from generation.admin.reviewing import range_of
from generation.admin.visible import visible_line
from generation.models import Review

#: How much of a comment the list shows.
FIRST_WORDS = 120


class LabelFilter(SimpleListFilter):
    """The labels that can be given now."""

    title = "label"
    parameter_name = "label"

    def lookups(self, request: HttpRequest, model_admin: object) -> list[tuple[str, str]]:
        return [(label, label) for label in settings.STREAMSITE_REVIEW_LABELS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Review]) -> QuerySet[Review]:
        return queryset.filter(label=self.value()) if self.value() is not None else queryset


@admin.register(Review)
class ReviewAdmin(RecordAdmin[Review]):
    """Reviews of streams; comments, which may quote a text, are for those who may see texts."""

    list_display = ("id", "reviewed", "about", "label_given", "score", "words", "by", "created_at")
    list_display_links = None
    list_filter = (LabelFilter, "score")
    list_select_related = ("reviewer",)
    ordering = ("-id",)
    sortable_by = ()
    list_per_page = 50
    fields = ("reviewed", "about", "label_given", "score", "whole_comment", "by", "created_at")
    readonly_fields = fields

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        return tuple(name for name in self.list_display if name != "words" or may_view_content(request.user))

    def get_fields(self, request: HttpRequest, obj: Review | None = None) -> tuple[str, ...]:
        return tuple(name for name in self.fields if name != "whole_comment" or may_view_content(request.user))

    @admin.display(description="stream")
    def reviewed(self, review: Review) -> SafeString:
        page = reverse("admin:generation_stream_change", args=[review.stream_id])
        return format_html('<a href="{}#reviews">{}</a>', page, review.stream_id)

    @admin.display(description="about")
    def about(self, review: Review) -> str:
        return range_of(review)

    @admin.display(description="label")
    def label_given(self, review: Review) -> str | None:
        return visible_line(review.label) or None

    @admin.display(description="comment")
    def words(self, review: Review) -> str | None:
        line = visible_line(review.comment[: FIRST_WORDS + 1])
        return (line[:FIRST_WORDS] + "…" if len(line) > FIRST_WORDS else line) or None

    @admin.display(description="comment")
    def whole_comment(self, review: Review) -> str | None:
        return visible_line(review.comment) or None

    @admin.display(description="reviewer")
    def by(self, review: Review) -> str | None:
        return visible_line(review.reviewer.get_username()) if review.reviewer else None
