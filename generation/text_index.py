"""The index of the words in streams' texts, and the condition that asks it; `stream_search` is the search.

SQLite: an FTS5 table, kept current by triggers in the transaction that stores a stream's end, so that nothing that
changes or deletes a text can forget it. PostgreSQL: a GIN index, which the database keeps. Either costs a stream once,
at its end, in the writer's thread. Streams begin without a text; rows that are inserted with one come from the ORM or
from `seeding`, and are indexed by `index_inserted` and `index_since`: a trigger of inserts would make SQLite open the
index for each stream that begins, which takes half as long as its row. After `bulk_create`, which tells nobody, call
`index_since`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import DEFAULT_DB_ALIAS, connections

if TYPE_CHECKING:
    from django.db.backends.base.schema import BaseDatabaseSchemaEditor

# A table with its own copy of the texts: one that reads them from the streams answers the removal of a text that it
# never had with "database disk image is malformed", which would keep the stream's end from being stored.
# Marks are part of words: without them every vowel sign would cut a Devanagari word. A text beyond the first 100,000
# characters is not searched on PostgreSQL, which refuses a row whose words take more than 1 MiB.
_FTS_TABLE = """
    CREATE VIRTUAL TABLE generation_stream_words USING fts5(
        text, tokenize="unicode61 categories 'L* M* N* Co'"
    )
"""
_ADD = "INSERT INTO generation_stream_words(rowid, text) SELECT new.id, new.text WHERE new.text <> '';"
_REMOVE = "DELETE FROM generation_stream_words WHERE rowid = old.id;"
_TRIGGERS = (
    f"""CREATE TRIGGER IF NOT EXISTS stream_words_changed AFTER UPDATE OF text ON generation_stream
        WHEN old.text <> new.text BEGIN {_REMOVE} {_ADD} END""",
    f"""CREATE TRIGGER IF NOT EXISTS stream_words_removed AFTER DELETE ON generation_stream
        WHEN old.text <> '' BEGIN {_REMOVE} END""",
)
_INDEX = "INSERT INTO generation_stream_words(rowid, text) SELECT id, text FROM generation_stream WHERE text <> ''"
_WORDS = "to_tsvector('simple', left({text}, 100000))"
_GIN_INDEX = f"CREATE INDEX generation_stream_words ON generation_stream USING gin ({_WORDS.format(text='text')})"


def words_condition(words: str, vendor: str, *, text: str = "text") -> tuple[str, str] | None:
    """SQL that is true of texts with all these words, and its one value; None when there are none to look for.

    On SQLite a condition on the table ``generation_stream_words``, else on the column ``text``.
    """
    if vendor == "sqlite":
        asked = _fts_query(words)
        return ("generation_stream_words MATCH %s", asked) if asked else None
    return (f"{_WORDS.format(text=text)} @@ plainto_tsquery('simple', %s)", words) if words else None


def create_index(apps: object, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Make the index and fill it with what is stored. For a migration."""
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute(_FTS_TABLE)
        schema_editor.execute(_INDEX)
        for trigger in _TRIGGERS:
            schema_editor.execute(trigger)
    else:
        schema_editor.execute(_GIN_INDEX)


def drop_index(apps: object, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Undo `create_index`."""
    if schema_editor.connection.vendor == "sqlite":
        for name in ("changed", "removed"):
            schema_editor.execute(f"DROP TRIGGER IF EXISTS stream_words_{name}")
        schema_editor.execute("DROP TABLE generation_stream_words")
    else:
        schema_editor.execute("DROP INDEX generation_stream_words")


def index_inserted(*, instance: Any, created: bool, using: str, **_: Any) -> None:
    """Index the text of a stream that the ORM has just inserted, where the database does not. Receives a signal."""
    if created and instance.text:
        _index("id = %s", instance.pk, using)


def index_since(last_id: int) -> None:
    """The same of all streams after this one, which SQL has inserted."""
    _index("id > %s", last_id, DEFAULT_DB_ALIAS)


def _index(condition: str, value: int, using: str) -> None:
    if connections[using].vendor == "sqlite":
        with connections[using].cursor() as cursor:
            cursor.execute(f"{_INDEX} AND {condition}", [value])


def keep_triggers(*, using: str, **_: Any) -> None:
    """Make the triggers again after each `migrate`: Django changes tables of SQLite by making them anew, without."""
    migrated = connections[using]
    if migrated.vendor == "sqlite" and "generation_stream_words" in migrated.introspection.table_names():
        with migrated.cursor() as cursor:
            for trigger in _TRIGGERS:
                cursor.execute(trigger)


def _fts_query(words: str) -> str:
    """Each word as a string of FTS5's language, so that none of its operators is meant; all must occur."""
    return " ".join('"{}"'.format(word.replace('"', '""')) for word in words.split())
