"""Writes of the record whose SQL is made once: the ORM takes a millisecond to compile the columns of one stream.

In: rows as mappings of attribute names to Python values. The columns and what they hold come from the models' fields,
and the statements are those that SQLite and PostgreSQL share.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import connection
from django.db.models import (
    BooleanField,
    CharField,
    Field,
    FloatField,
    IntegerField,
    JSONField,
    Model,
)

from generation.fields import json_text

Row = Mapping[str, Any]

#: Fields whose values a database takes as they are. To ask each field of a stream costs as much as the statement.
_PLAIN = (BooleanField, CharField, FloatField, IntegerField)
_RETURNING = {"sqlite": "", "postgresql": "RETURNING id"}
_LOCKING = {"sqlite": "", "postgresql": "FOR UPDATE"}


def insert(model: type[Model], row: Row) -> int:
    """Insert a row, whose other columns get their fields' defaults, and return its key."""
    with connection.cursor() as cursor:
        cursor.execute(_insert_sql(model, 1, _RETURNING[connection.vendor]), _parameters(model, row))
        return int(cursor.lastrowid if connection.vendor == "sqlite" else cursor.fetchone()[0])


def insert_new(model: type[Model], rows: Sequence[Row]) -> None:
    """Insert those rows of which no other has the unique columns, with one statement."""
    if rows:
        parameters = [value for row in rows for value in _parameters(model, row)]
        with connection.cursor() as cursor:
            cursor.execute(_insert_sql(model, len(rows), "ON CONFLICT DO NOTHING"), parameters)


def find_locked(table: type[Model], names: tuple[str, ...], /, **where: Any) -> dict[str, Any] | None:
    """These columns of the only row that is as ``where`` says, or None if there is none.

    For numbers, strings and `JSONField`; what other fields make of their values is not made here. On PostgreSQL the
    row is locked until the transaction ends; on SQLite the transaction has locked all.
    """
    with connection.cursor() as cursor:
        sql = _select_sql(table, names, tuple(where), _LOCKING[connection.vendor])
        cursor.execute(sql, list(_stored(table, where).values()))
        found = cursor.fetchone()
    if found is None:
        return None
    fields = _fields(table)
    return {
        name: json.loads(value) if value is not None and isinstance(fields[name], JSONField) else value
        for name, value in zip(names, found, strict=True)
    }


def update(table: type[Model], values: Row, /, **where: Any) -> int:
    """Set columns of the rows whose columns are as ``where`` says; return how many rows it were."""
    parameters = [*_stored(table, values).values(), *_stored(table, where).values()]
    with connection.cursor() as cursor:
        cursor.execute(_update_sql(table, tuple(values), tuple(where)), parameters)
        return int(cursor.rowcount)


def _parameters(model: type[Model], row: Row) -> list[Any]:
    return list((_defaults(model) | _stored(model, row)).values())


def _stored(model: type[Model], row: Row) -> dict[str, Any]:
    """What the columns of a row hold."""
    converted = _converted(model)
    return {
        name: _converted_value(converted[name], value) if name in converted else value for name, value in row.items()
    }


def _converted_value(field: Field[Any, Any], value: Any) -> Any:
    if value is None:
        return None
    return json_text(value) if isinstance(field, JSONField) else field.get_db_prep_save(value, connection)


@functools.cache
def _fields(model: type[Model]) -> dict[str, Field[Any, Any]]:
    return {field.attname: field for field in model._meta.concrete_fields}


@functools.cache
def _converted(model: type[Model]) -> dict[str, Field[Any, Any]]:
    fields = _fields(model).items()
    return {name: field for name, field in fields if not isinstance(getattr(field, "target_field", field), _PLAIN)}


@functools.cache
def _defaults(model: type[Model]) -> dict[str, Any]:
    fields = [field for field in model._meta.concrete_fields if not field.primary_key]
    return _stored(model, {field.attname: field.get_default() for field in fields})


@functools.cache
def _insert_sql(model: type[Model], rows: int, end: str) -> str:
    columns = [f'"{_fields(model)[name].column}"' for name in _defaults(model)]
    row = f"({', '.join(['%s'] * len(columns))})"
    return f'INSERT INTO "{model._meta.db_table}" ({", ".join(columns)}) VALUES {", ".join([row] * rows)} {end}'


@functools.cache
def _update_sql(model: type[Model], names: tuple[str, ...], where: tuple[str, ...]) -> str:
    fields = _fields(model)
    values = ", ".join(f'"{fields[name].column}" = %s' for name in names)
    return f'UPDATE "{model._meta.db_table}" SET {values} WHERE {_condition(model, where)}'


@functools.cache
def _select_sql(model: type[Model], names: tuple[str, ...], where: tuple[str, ...], locking: str) -> str:
    columns = ", ".join(f'"{_fields(model)[name].column}"' for name in names)
    return f'SELECT {columns} FROM "{model._meta.db_table}" WHERE {_condition(model, where)} {locking}'


def _condition(model: type[Model], where: tuple[str, ...]) -> str:
    return " AND ".join(f'"{_fields(model)[name].column}" = %s' for name in where)
