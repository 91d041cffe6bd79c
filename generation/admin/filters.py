"""Filters of the stream list; each is answered from an index or a fixed set, never by reading the whole table.

`started_filter` is the one of the time.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.contrib.admin import ModelAdmin, SimpleListFilter
from django.contrib.auth import get_user_model
from django.db import connections
from django.db.models import BooleanField, Exists, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.sql import Query
from django.http import HttpRequest

from generation.admin.durations import seconds
from generation.admin.visible import visible_line
from generation.models import ApiKey, Stream
from generation.models.stream import HOLD_CAUSES, LONG_GAP, SLOW_TTFT
from generation.stream_search import StreamsLabelled
from generation.text import Verdict

#: More users or keys than this are found by the search, not in a menu.
OFFERED = 50


class _ValueFilter(SimpleListFilter):
    """Streams that have the chosen value in the column ``parameter_name``."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Stream]) -> QuerySet[Stream]:
        return queryset.filter(**{str(self.parameter_name): self.value()}) if self.value() is not None else queryset


class ModelFilter(_ValueFilter):
    """Models that have streams."""

    title = parameter_name = "model"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(name, name) for name in recorded("model")]


class BackendFilter(_ValueFilter):
    """Backends that have streams."""

    title = parameter_name = "backend"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(name, name) for name in recorded("backend")]


class SourceFilter(_ValueFilter):
    """Where the request came from."""

    title = parameter_name = "source"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(source, source) for source in ("api", "page", "command", "replay")]


class ProofFilter(_ValueFilter):
    """How the joined deltas compare with the whole decode of the recorded ids."""

    title = parameter_name = "proof"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(verdict.value, verdict.value.replace("_", " ")) for verdict in Verdict]


class _SecondsFilter(SimpleListFilter):
    """Streams whose ``column`` is as long as the chosen time, all of which are in the index with ``indexed``."""

    column: ClassVar[str]
    indexed: ClassVar[Q]

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(value, f"{seconds(float(value))} or more") for value in ("1", "2", "5", "10", "30")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Stream]) -> QuerySet[Stream]:
        if self.value() is None:
            return queryset
        if self.value() not in dict(self.lookup_choices):
            return queryset.none()
        return queryset.filter(literally(self.indexed), **{f"{self.column}__gte": float(str(self.value()))})


class SlowFilter(_SecondsFilter):
    """Streams whose reader waited long for the first words."""

    title = "TTFT (visible)"
    parameter_name = "ttft"
    column = "ttft_visible_s"
    indexed = SLOW_TTFT


class GapFilter(_SecondsFilter):
    """Streams that stood still for long."""

    title = "largest gap"
    parameter_name = "gap"
    column = "icl_max_s"
    indexed = LONG_GAP


class HeldFilter(SimpleListFilter):
    """Streams in which text was held back for a cause."""

    title = "held back"
    parameter_name = "held"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(cause, cause) for cause in HOLD_CAUSES]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Stream]) -> QuerySet[Stream]:
        if self.value() not in HOLD_CAUSES:
            return queryset if self.value() is None else queryset.none()
        return queryset.filter(literally(Q(holds__has_key=self.value())))


class LabelFilter(SimpleListFilter):
    """Streams that got a label, now or when it could still be given."""

    title = "label"
    parameter_name = "label"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        return [(label, visible_line(label)) for label in settings.STREAMSITE_REVIEW_LABELS]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Stream]) -> QuerySet[Stream]:
        if self.value() is None:
            return queryset
        return queryset.filter(StreamsLabelled(str(self.value())))


class UserFilter(SimpleListFilter):
    """People who have streams, the first ones by name."""

    title = parameter_name = "user"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        users = get_user_model()
        asked = users._default_manager.filter(Exists(Stream.objects.filter(user=OuterRef("pk"))))
        names = asked.order_by(users.USERNAME_FIELD).values_list("pk", users.USERNAME_FIELD)
        return [(str(pk), visible_line(name)) for pk, name in names[:OFFERED]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Stream]) -> QuerySet[Stream]:
        return _of(queryset, "user", self.value())


class KeyFilter(SimpleListFilter):
    """API keys, the newest ones."""

    title = "API key"
    parameter_name = "key"

    def lookups(self, request: HttpRequest, model_admin: ModelAdmin[Any]) -> list[tuple[str, str]]:
        keys = ApiKey.objects.order_by("-pk").values_list("pk", "name", "prefix")
        return [(str(pk), f"{visible_line(name)} ({prefix})") for pk, name, prefix in keys[:OFFERED]]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Stream]) -> QuerySet[Stream]:
        return _of(queryset, "api_key", self.value())


def literally(condition: Q) -> RawSQL:
    """The condition with its values written into the SQL, as they are in that of an index.

    SQLite uses an index with a condition only for a query that holds the same one, and a bound value is none. Only for
    values that come from this module.
    """
    connection = connections[Stream.objects.db]
    where = Query(Stream, alias_cols=False).build_where(condition)
    sql, values = where.as_sql(Query(Stream).get_compiler(connection=connection), connection)
    editor = connection.schema_editor()
    return RawSQL(sql % tuple(editor.quote_value(value) for value in values), [], output_field=BooleanField())


def recorded(column: str, limit: int = 100) -> list[str]:
    """The values that occur in a column of streams, in order: one seek each of the index that begins with it.

    DISTINCT would read the whole index. Asking for the smallest name above the last one, again and again, costs as
    many seeks as there are names; the backends in the settings would miss those of earlier times.
    """
    connection = connections[Stream.objects.db]
    table, column = (connection.ops.quote_name(name) for name in (Stream._meta.db_table, column))
    sql = f"""
        WITH RECURSIVE names(name) AS (
            SELECT MIN({column}) FROM {table}
            UNION ALL
            SELECT (SELECT MIN({column}) FROM {table} WHERE {column} > names.name) FROM names WHERE name IS NOT NULL
        ) SELECT name FROM names WHERE name IS NOT NULL LIMIT {int(limit)}
    """
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return [name for (name,) in cursor.fetchall()]


def _of(streams: QuerySet[Stream], relation: str, value: str | None) -> QuerySet[Stream]:
    """The streams of one row of another table; none when the value is no id."""
    if value is None:
        return streams
    known = value.isascii() and value.isdigit() and len(value) < 19
    return streams.filter(**{f"{relation}_id": int(value)}) if known else streams.none()
