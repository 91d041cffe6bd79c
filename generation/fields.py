"""Columns that keep any Python string on any database, and give it back unchanged.

Model output may hold U+0000, which PostgreSQL refuses in text and jsonb, and an upstream's JSON may hold a lone
surrogate, which UTF-8 cannot encode. Both are stored escaped with U+0010 (whose name is "data link escape"); everything
else is stored as it is, so that ordinary text stays readable and searchable in the database.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.db import models
from pydantic_core import PydanticSerializationError, to_json

from generation.delta_columns import pack, unpack

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper
    from django.db.models.expressions import Expression

_ESCAPE = "\x10"
_UNSTORABLE = re.compile("[\x00\x10\ud800-\udfff]")
_ESCAPED = re.compile("\x10([0-9a-f]{4})")


def escape(text: str) -> str:
    """Replace what a database may refuse, and the escape itself, by U+0010 and four hex digits."""
    return _UNSTORABLE.sub(lambda found: f"{_ESCAPE}{ord(found[0]):04x}", text)


def unescape(text: str) -> str:
    """Undo `escape`; an escape sequence cut short by a database function stays as it is."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text) if _ESCAPE in text else text


def json_text(value: Any) -> str:
    """JSON that every database keeps, as a `LosslessJSONField` stores it; in a seventh of the time of `json.dumps`."""
    text = _storable_json(value)
    return to_json(_map_strings(value, escape)).decode() if text is None else text


def _storable_json(value: Any) -> str | None:
    """JSON text of a value that needs no `escape`, as nearly all; None for others. Every delta passes here."""
    try:
        text = to_json(value).decode()
    except (PydanticSerializationError, UnicodeError):  # a lone surrogate
        return None
    # JSON text always spells a control character as an escape of its own.
    return None if "\\u0000" in text or "\\u0010" in text else text


class LosslessTextField(models.TextField):  # type: ignore[type-arg]  # the plugin infers the column's types
    """A text column for what a model or a client wrote."""

    def get_prep_value(self, value: Any) -> Any:
        value = super().get_prep_value(value)
        return escape(value) if isinstance(value, str) else value

    def from_db_value(self, value: str | None, expression: Expression, connection: BaseDatabaseWrapper) -> str | None:
        return None if value is None else unescape(value)


class LosslessJSONField(models.JSONField):
    """A JSON column whose strings, at any depth, are what a model or a client wrote."""

    def get_prep_value(self, value: Any) -> Any:
        value = super().get_prep_value(value)
        if hasattr(value, "as_sql"):
            return value
        return _map_strings(value, escape) if _storable_json(value) is None else value

    def from_db_value(self, value: str | None, expression: Expression, connection: BaseDatabaseWrapper) -> Any:
        loaded = super().from_db_value(value, expression, connection)
        # JSON text always spells a control character as an escape of its own: most rows need no walk.
        return _map_strings(loaded, unescape) if isinstance(value, str) and "\\u0010" in value else loaded


class DeltasField(LosslessJSONField):
    """A JSON column of deltas: a list of objects in Python, `delta_columns` in the database; takes either."""

    def get_prep_value(self, value: Any) -> Any:
        return super().get_prep_value(pack(value) if isinstance(value, list) else value)

    def from_db_value(self, value: str | None, expression: Expression, connection: BaseDatabaseWrapper) -> Any:
        stored = super().from_db_value(value, expression, connection)
        # Rows from before there were columns are lists.
        return unpack(stored) if isinstance(stored, dict) else stored


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [_map_strings(item, change) for item in value]
    if isinstance(value, dict):
        return {_map_strings(key, change): _map_strings(item, change) for key, item in value.items()}
    return value
