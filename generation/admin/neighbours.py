"""The streams before and after one in the list that staff came from, found without reading that list's page.

In: the list's query string, as the admin's links carry it. Out: two ids, or None at an end of the list; or, where a
search would have had to look for too long, how far it looked.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import SuspiciousOperation
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict

from generation.admin.stream_change_list import StreamChangeList
from generation.models import Stream
from generation.stream_search import Walked, walk

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin


#: Beyond this, a search looks no further for a neighbour.
NEIGHBOUR_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """The next newer and the next older stream of the list: one row, or none."""

    newer: Walked[int]
    older: Walked[int]


class _FilteredStreams(StreamChangeList):
    """The list's filters and search without its rows."""

    def get_results(self, request: HttpRequest) -> None:
        self.result_list, self.result_count = [], 0


def neighbours(admin: ModelAdmin[Stream], request: HttpRequest, stream: Stream, list_query: str) -> Neighbours:
    """Look both ways from a stream; a query string that the list would refuse means the whole list."""
    try:
        streams = _listed(admin, request, list_query) if list_query else admin.get_queryset(request)
    except (IncorrectLookupParameters, SuspiciousOperation):
        streams = admin.get_queryset(request)
    ids = streams.order_by().values_list("pk", flat=True)
    return Neighbours(
        newer=walk(ids.filter(pk__gt=stream.pk), 1, newest_first=False, budget_s=NEIGHBOUR_S),
        older=walk(ids.filter(pk__lt=stream.pk), 1, budget_s=NEIGHBOUR_S),
    )


def _listed(admin: ModelAdmin[Stream], request: HttpRequest, list_query: str) -> QuerySet[Stream]:
    list_request = copy.copy(request)
    list_request.GET = QueryDict(list_query)
    arguments: dict[str, Any] = {
        "request": list_request,
        "model": admin.model,
        "list_display": admin.list_display,
        "list_display_links": admin.list_display_links,
        "list_filter": admin.get_list_filter(request),
        "date_hierarchy": admin.date_hierarchy,
        "search_fields": admin.get_search_fields(request),
        "list_select_related": False,
        "list_per_page": admin.list_per_page,
        "list_max_show_all": admin.list_max_show_all,
        "list_editable": (),
        "model_admin": admin,
        "sortable_by": (),
        "search_help_text": None,
    }
    streams: QuerySet[Stream] = _FilteredStreams(**arguments).queryset
    return streams
