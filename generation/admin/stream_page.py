"""The page of one stream: what was asked, what came, when, how fast, why it stopped, and what staff say of it.

What people and models wrote is for those with the permission to see it, and each such view is logged. The script reads
deltas, frames and tokens by range from addresses below the page's own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, QueryDict
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from generation.admin.content_access import may_view_content, note_content_view
from generation.admin.figures import figure_groups, hold_figures
from generation.admin.joined_check import joined_check, joined_text
from generation.admin.neighbours import neighbours
from generation.admin.record_admin import RecordAdmin
from generation.admin.repeat_request import curl_command
from generation.admin.request_view import shown_messages, shown_parameters
from generation.admin.reviewing import ReviewForm, append_review, shown_reviews
from generation.admin.stream_events import StreamEvent, stream_events
from generation.admin.stream_ranges import MAX_DELTAS, deltas_in, frames_fixture, frames_in, tokens_in
from generation.admin.visible import visible_html
from generation.models import Stream
from generation.stream_search import Walked

#: What the address of a stream's page carries of the list it was opened from; the admin's own name for it.
LIST_QUERY = "_changelist_filters"

#: Figures that are read first.
HEADLINE = frozenset({"TTFT, visible", "Total", "Tokens/s", "Abort latency", "Wasted tokens"})

RangeView = Callable[[HttpRequest, Stream], HttpResponseBase]


class StreamPage(RecordAdmin[Stream]):
    """The detail page and what its script asks for."""

    detail_template = "admin/generation/stream/detail.html"

    def get_urls(self) -> list[URLPattern]:
        views: dict[str, RangeView] = {
            "deltas": require_GET(self._deltas),
            "frames": require_GET(self._frames),
            "fixture": require_GET(self._fixture),
            "tokens": require_GET(self._tokens),
            "review": require_POST(self._review),
        }
        return [
            path(
                f"<int:stream_id>/{name}/",
                self.admin_site.admin_view(never_cache(self._of_stream(view))),
                name=f"generation_stream_{name}",
            )
            for name, view in views.items()
        ] + super().get_urls()

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Stream | None:
        """Fetch a stream with what its page names, in one query."""
        return (
            Stream.objects.select_related("user", "api_key", "conversation", "worker").filter(pk=object_id).first()
            if object_id.isascii() and object_id.isdigit() and len(object_id) < 19
            else None
        )

    def detail(self, request: HttpRequest, record: Stream) -> dict[str, object]:
        content = may_view_content(request.user)
        events, figures = stream_events(record), figure_groups(record)
        list_query = request.GET.get(LIST_QUERY, "")
        beside = neighbours(self, request, record, list_query)
        if content:
            note_content_view(request.user, record)
        return {
            "title": f"Stream {record.pk}",
            "content": content,
            "annotate": request.user.has_perm("generation.annotate_stream"),
            "list_query": list_query,
            "newer": _page(beside.newer, list_query, "after"),
            "older": _page(beside.older, list_query, "before"),
            "figure_groups": figures,
            "headline": [figure for group in figures for figure in group.figures if figure.label in HEADLINE],
            "holds": hold_figures(record),
            "events": events,
            "labels": settings.STREAMSITE_REVIEW_LABELS,
            "reviews": shown_reviews(record, comments=content),
            "page_config": self._page_config(record, events, content=content),
            **(self._content(request, record) if content else {}),
        }

    def _content(self, request: HttpRequest, record: Stream) -> dict[str, object]:
        """What is shown only to those who may see what people and models wrote."""
        # The check is of the whole stream, so all deltas are read; the page's script reads them by range.
        batches = list(record.batches.values_list("first_seq", "deltas"))
        # The text is stored whole at the end; until then the deltas are the text.
        text = joined_text(batches) if record.state == Stream.State.RUNNING else record.text
        return {
            "messages_asked": shown_messages(record.messages),
            "parameters": shown_parameters(record.parameters),
            "stop_string": visible_html(record.stop_string or ""),
            # An upstream may quote the request in it.
            "error": visible_html(record.error, whitespace=False),
            "text": visible_html(text, whitespace=False),
            "text_length": len(text),
            "tool_calls": visible_html(json.dumps(record.tool_calls, ensure_ascii=False, indent=2), whitespace=False)
            if record.tool_calls
            else "",
            "check": joined_check(record, batches),
            "curl": curl_command(record, request.build_absolute_uri("/")),
        }

    def _page_config(self, stream: Stream, events: list[StreamEvent], *, content: bool) -> dict[str, object]:
        return {
            "urls": {
                name: reverse(f"admin:generation_stream_{name}", args=[stream.pk])
                for name in ("deltas", "frames", "fixture", "tokens", "review")
            },
            "content": content,
            "delta_count": stream.delta_count,
            "length_s": stream.total_s or 0.0,
            # As the chat page gets it, for the same renderer.
            "stored": stream.shown_end,
            "marks": [
                {"kind": event.kind, "name": event.name, "at_s": event.at_s}
                for event in events
                if event.at_s is not None
            ],
        }

    def _of_stream(self, view: RangeView) -> Callable[..., HttpResponseBase]:
        """Give a view its stream, if the member of staff may see streams at all."""

        def wrapped(request: HttpRequest, stream_id: int) -> HttpResponseBase:
            stream = Stream.objects.filter(pk=stream_id).first() if stream_id < 2**63 else None
            if stream is None:
                raise Http404(f"There is no stream {stream_id}.")
            if not self.has_view_permission(request, stream):
                raise PermissionDenied
            return view(request, stream)

        return wrapped

    def _deltas(self, request: HttpRequest, stream: Stream) -> HttpResponse:
        text = may_view_content(request.user)
        first = _number(request, "first_seq", 1)
        last = _number(request, "last_seq", first + MAX_DELTAS - 1)
        if text:
            note_content_view(request.user, stream)
        return JsonResponse(deltas_in(stream, max(1, first), last, text=text))

    def _frames(self, request: HttpRequest, stream: Stream) -> HttpResponse:
        _require_content(request, stream)
        return JsonResponse(frames_in(stream, _number(request, "first", 0)))

    def _fixture(self, request: HttpRequest, stream: Stream) -> HttpResponse:
        _require_content(request, stream)
        return HttpResponse("".join(frames_fixture(stream)), content_type="text/plain; charset=utf-8")

    def _tokens(self, request: HttpRequest, stream: Stream) -> HttpResponse:
        _require_content(request, stream)
        return JsonResponse(tokens_in(stream, _number(request, "first", 0)))

    def _review(self, request: HttpRequest, stream: Stream) -> HttpResponse:
        if not request.user.has_perm("generation.annotate_stream"):
            raise PermissionDenied
        running = stream.state == Stream.State.RUNNING
        form = ReviewForm(request.POST, delta_count=None if running else stream.delta_count)
        if not form.is_valid():
            problems: list[Any] = [problem for problems in form.errors.values() for problem in problems]
            return JsonResponse({"error": " ".join(map(str, problems))}, status=400)
        append_review(form, stream=stream, reviewer_id=int(request.user.pk or 0))
        # The list as the page itself would have it: one renderer for reviews, the server's.
        reviews = shown_reviews(stream, comments=may_view_content(request.user))
        html = render_to_string("admin/generation/stream/review_list.html", {"reviews": reviews})
        return JsonResponse({"html": html}, status=201)


def _require_content(request: HttpRequest, stream: Stream) -> None:
    if not may_view_content(request.user):
        raise PermissionDenied
    note_content_view(request.user, stream)


def _number(request: HttpRequest, name: str, default: int) -> int:
    """A number of the query; anything else is the default."""
    value = request.GET.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else default


def _page(beside: Walked[int], list_query: str, cursor: str) -> str:
    """The address of a neighbour's page with the list it belongs to, empty for none.

    Where a search was not over, that of the list, which looks on from there.
    """
    if beside.rows:
        address = reverse("admin:generation_stream_change", args=beside.rows)
        return f"{address}?{urlencode({LIST_QUERY: list_query})}" if list_query else address
    if beside.looked_to is None:
        return ""
    query = QueryDict(list_query, mutable=True)
    for name in ("before", "after"):
        query.pop(name, None)
    query[cursor] = str(beside.looked_to)
    return f"{reverse('admin:generation_stream_changelist')}?{query.urlencode()}"
