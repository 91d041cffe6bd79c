"""The list of streams, newest first, at a cost that does not grow with the table.

Pages are cut by id (``?before=`` and ``?after=``), so nothing is counted and a deep page costs what the first does;
one row more than a page tells whether another follows. A search, or several filters at once, stop when their time is
up: the page then says how far it looked, and its link looks on from there. The big columns stay in the database: of
the text come the first characters only.
"""

from __future__ import annotations

from typing import Any

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.db.models import Prefetch, QuerySet
from django.db.models.functions import Left
from django.http import HttpRequest
from django.utils.safestring import SafeString

from generation.admin import stream_table
from generation.fields import LosslessTextField
from generation.models import Review, Stream
from generation.stream_search import Walked, walk

#: How much of a stream's text its line in the list may show.
FIRST_WORDS = 80
#: Beyond this, no further streams are looked at for one page.
SEARCH_S = 0.08

_CURSORS = ("before", "after")
_COLUMNS = (
    "state", "model", "backend", "started_at", "ttft_visible_s", "icl_max_s", "total_s", "completion_tokens", "tpot_s",
    "stop_reason", "ended_by", "proof", "api_key__name",
)  # fmt: skip


class StreamChangeList(ChangeList):
    """Keyset pages; ``newer`` and ``older`` are the links to the next ones, or empty.

    ``looked_to`` is the last stream that a search looked at, where its time was up before the page was full.
    """

    newer: str
    older: str
    newest: str
    looked_to: int | None

    def get_queryset(
        self, request: HttpRequest, exclude_parameters: list[str | None] | None = None
    ) -> QuerySet[Stream]:
        self.cursor = {name: self.params.pop(name) for name in _CURSORS if name in self.params}
        for name in self.cursor:
            # A filter or a search begins at its newest stream again.
            del self.filter_params[name]
        streams: QuerySet[Stream] = super().get_queryset(request, exclude_parameters)
        if "first_words" in self.list_display:
            streams = streams.annotate(first_words=Left("text", FIRST_WORDS, output_field=LosslessTextField()))
        user_name = f"user__{get_user_model().USERNAME_FIELD}"
        labels = Review.objects.exclude(label="").only("stream_id", "label")
        return streams.only(*_COLUMNS, user_name).prefetch_related(Prefetch("reviews", labels, to_attr="labelled"))

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        """Newest first whatever the address says: every other order would sort the whole table."""
        return ["-pk"]

    def get_results(self, request: HttpRequest) -> None:
        before, after = self._bound("before"), self._bound("after")
        size = self.list_per_page
        if after is not None:
            newer = self.queryset.filter(pk__gt=after)
            walked = walk(newer, size + 1, newest_first=False, budget_s=SEARCH_S)
            rows = walked.rows[:size][::-1]
            self._link(newer=_further(walked, size), older=rows[-1].pk if rows else None)
        else:
            streams = self.queryset if before is None else self.queryset.filter(pk__lt=before)
            walked = walk(streams, size + 1, budget_s=SEARCH_S)
            rows = walked.rows[:size]
            self._link(newer=rows[0].pk if rows and before is not None else None, older=_further(walked, size))
        self.looked_to = walked.looked_to
        self.result_list = rows
        # Equal counts keep the stock search form from printing a number that would only be this page's.
        self.result_count = self.full_result_count = len(rows)
        self.show_full_result_count = False
        self.show_admin_actions = bool(rows)
        self.can_show_all = self.multi_page = False
        self.paginator = None

    @property
    def headings(self) -> list[SafeString]:
        """The headings of the table."""
        return stream_table.headings(self.model_admin, map(str, self.list_display))

    @property
    def rows(self) -> list[SafeString]:
        """The rows of the table."""
        columns = map(str, self.list_display)
        return stream_table.rows(self.model_admin, columns, self.result_list, self.preserved_filters)

    def _bound(self, name: str) -> int | None:
        if name not in self.cursor:
            return None
        try:
            return int(self.cursor[name])
        except ValueError as exc:
            raise IncorrectLookupParameters from exc

    def _link(self, *, newer: int | None, older: int | None) -> None:
        self.newest = self.get_query_string() if self.cursor else ""
        self.newer = "" if newer is None else self.get_query_string({"after": newer})
        self.older = "" if older is None else self.get_query_string({"before": older})


def _further(walked: Walked[Stream], size: int) -> int | None:
    """The id beyond which the walk goes on: that of the page's last stream if more were found, or where it stopped."""
    return walked.rows[size - 1].pk if len(walked.rows) > size else walked.looked_to
