"""Exports of the stream list: of the streams that are ticked, or of the whole list with its filters and search.

The answer is a download that is read page by page while it is sent. Who lacks the permission for content gets figures.
Every export is in the admin's log before its first byte: in the history of each ticked stream, or once for a list.
"""

from __future__ import annotations

from collections.abc import Iterable

from django import forms
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import QuerySet
from django.http import HttpRequest, StreamingHttpResponse
from django.utils import timezone

from generation.admin.content_access import may_view_content
from generation.admin.record_admin import RecordAdmin
from generation.export import ExportFormat, chunks, read_in_threads
from generation.models import Stream

#: As `content_access.VIEWED`, a flag beyond Django's own.
EXPORTED = 5


class ExportActions(RecordAdmin[Stream]):
    """The actions, for staff with the permission ``generation.export_stream``."""

    actions = ("export_csv", "export_jsonl", "export_deltas", "export_messages")

    def has_export_permission(self, request: HttpRequest) -> bool:
        return bool(request.user.has_perm("generation.export_stream"))

    def has_export_content_permission(self, request: HttpRequest) -> bool:
        return self.has_export_permission(request) and may_view_content(request.user)

    @admin.action(description="Export as CSV", permissions=["export"])
    def export_csv(self, request: HttpRequest, queryset: QuerySet[Stream]) -> StreamingHttpResponse:
        return _download(request, queryset, ExportFormat.CSV)

    @admin.action(description="Export as JSON lines", permissions=["export"])
    def export_jsonl(self, request: HttpRequest, queryset: QuerySet[Stream]) -> StreamingHttpResponse:
        return _download(request, queryset, ExportFormat.JSONL)

    @admin.action(description="Export deltas as JSON lines", permissions=["export"])
    def export_deltas(self, request: HttpRequest, queryset: QuerySet[Stream]) -> StreamingHttpResponse:
        return _download(request, queryset, ExportFormat.DELTAS)

    @admin.action(description="Export messages as JSON lines, to replay", permissions=["export_content"])
    def export_messages(self, request: HttpRequest, queryset: QuerySet[Stream]) -> StreamingHttpResponse:
        return _download(request, queryset, ExportFormat.MESSAGES)


def _download(request: HttpRequest, streams: QuerySet[Stream], export_format: ExportFormat) -> StreamingHttpResponse:
    content = may_view_content(request.user)
    _note_export(request, streams, f"{export_format.label}, {'with' if content else 'without'} the text")
    # An asynchronous iterator: Django would read a synchronous one to its end before it sends the first byte.
    lines = read_in_threads(chunks(streams, export_format, content=content))
    response = StreamingHttpResponse(lines, content_type=export_format.content_type)
    name = f"streams-{timezone.now():%Y%m%d-%H%M%S}{export_format.suffix}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "no-store, no-transform"
    # nginx would write the whole file to its disk first where the reader is slower than the database.
    response["X-Accel-Buffering"] = "no"
    return response


def _note_export(request: HttpRequest, streams: QuerySet[Stream], what: str) -> None:
    """Log who exports which streams; a whole list, which may be a million of them, by its address."""
    if forms.BooleanField(required=False).to_python(request.POST.get("select_across")):
        query = request.META.get("QUERY_STRING", "")
        _log(request, [None], f"Exported the list as {what}" + (f": ?{query}" if query else "."))
    else:
        _log(request, streams.values_list("pk", flat=True), f"Exported as {what}.")


def _log(request: HttpRequest, stream_ids: Iterable[int | None], message: str) -> None:
    content_type = ContentType.objects.get_for_model(Stream)
    LogEntry.objects.bulk_create(
        LogEntry(
            user_id=int(request.user.pk or 0),
            content_type=content_type,
            object_id=None if stream_id is None else str(stream_id),
            object_repr="streams" if stream_id is None else f"stream {stream_id}",
            action_flag=EXPORTED,
            change_message=message,
        )
        for stream_id in stream_ids
    )
