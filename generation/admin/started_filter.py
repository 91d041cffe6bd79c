"""The time range of the stream list: the past day unless something else is asked for.

In: ``?started=`` one of the spans or ``any``, or ``?started_at__gte=&started_at__lt=`` (ISO, as the trends link). Out:
the streams of that time, found as a range of ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from generation.models import Stream

ANY = "any"
DEFAULT = "24h"
SPANS = {
    "1h": ("Past hour", timedelta(hours=1)),
    "24h": ("Past 24 hours", timedelta(hours=24)),
    "7d": ("Past 7 days", timedelta(days=7)),
    "30d": ("Past 30 days", timedelta(days=30)),
}
_SINCE, _UNTIL = "started_at__gte", "started_at__lt"
#: Who asks for one of these knows which streams are meant, however old.
_NAMING = (SEARCH_VAR, "conversation__id__exact", "worker__id__exact", "user__id__exact", "api_key__id__exact")
#: Ids are given in the order of time, but for streams that began at the same moment in several processes. (Streams that
#: `seed_demo_streams` wrote over days that had some are not; they may be missing from a range.)
SLACK_IDS = 1000


class StartedFilter(SimpleListFilter):
    """Streams of the last hour, day, week or month, counted back from now, of any time, or of a given range."""

    title = "started"
    parameter_name = "started"

    def __init__(
        self, request: HttpRequest, params: dict[str, Any], model: type[Stream], model_admin: ModelAdmin[Any]
    ) -> None:
        super().__init__(request, params, model, model_admin)
        self._since, self._until = (_moment(params.pop(name)) if name in params else None for name in (_SINCE, _UNTIL))
        if self._since or self._until:
            self._span = ""
        else:
            names_streams = any(request.GET.get(name) for name in _NAMING)
            self._span = super().value() or (ANY if names_streams else DEFAULT)

    def expected_parameters(self) -> list[str | None]:
        return [self.parameter_name, _SINCE, _UNTIL]

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [*((value, label) for value, (label, _) in SPANS.items()), (ANY, "Any time")]

    def value(self) -> str | None:
        return self._span

    def choices(self, changelist: ChangeList) -> Iterator[Any]:
        for value, label in self.lookup_choices:
            yield {
                "selected": value == self._span,
                "query_string": changelist.get_query_string({self.parameter_name: value}, [_SINCE, _UNTIL]),
                "display": label,
            }
        if not self._span:
            told = " – ".join(f"{each:%Y-%m-%d %H:%M}" if each else "…" for each in (self._since, self._until))
            yield {"selected": True, "query_string": changelist.get_query_string(), "display": told}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Stream]) -> QuerySet[Stream]:
        if self._span in SPANS:
            return started_between(queryset, timezone.now() - SPANS[self._span][1], None)
        return started_between(queryset, self._since, self._until)


def started_between(streams: QuerySet[Stream], since: datetime | None, until: datetime | None) -> QuerySet[Stream]:
    """The streams that started from ``since`` to just before ``until``; None is no bound.

    The ids of the range bound the walk: newest first by id, a database would else sort the whole range, or look for
    other filters' streams beyond it to the end of the table.
    """
    if since is not None:
        first = _first_since(since)
        streams = streams.none() if first is None else streams.filter(started_at__gte=since, pk__gte=first - SLACK_IDS)
    if until is not None:
        streams = streams.filter(started_at__lt=until)
        first = _first_since(until)
        streams = streams if first is None else streams.filter(pk__lt=first + SLACK_IDS)
    return streams


def _first_since(moment: datetime) -> int | None:
    return Stream.objects.filter(started_at__gte=moment).order_by("started_at").values_list("pk", flat=True).first()


def _moment(values: list[str]) -> datetime:
    try:
        moment = parse_datetime(values[-1])
    except ValueError as exc:
        raise IncorrectLookupParameters(f"{values[-1]!r} is no time") from exc
    if moment is None:
        raise IncorrectLookupParameters(f"{values[-1]!r} is no time; give it as 2026-03-01T12:00:00+00:00")
    return moment if timezone.is_aware(moment) else moment.replace(tzinfo=UTC)
