"""Workers: the processes that run streams, and when each was last heard of."""

from __future__ import annotations

from django.contrib import admin
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from generation.admin.record_admin import RecordAdmin
from generation.models import Stream, Worker


@admin.register(Worker)
class WorkerAdmin(RecordAdmin[Worker]):
    """Workers, the latest started first."""

    list_display = ("id", "hostname", "pid", "started_at", "heartbeat_at", "running")
    fields = ("hostname", "pid", "started_at", "heartbeat_at", "running")
    readonly_fields = ("running",)
    ordering = ("-pk",)
    sortable_by = ()

    @admin.display(description="running streams")
    def running(self, worker: Worker) -> SafeString:
        """A link, not a number: counting would be a query for every worker of the list."""
        return format_html(
            '<a href="{}?worker__id__exact={}&amp;state__exact={}">show</a>',
            reverse("admin:generation_stream_changelist"),
            worker.pk,
            Stream.State.RUNNING,
        )
