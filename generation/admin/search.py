"""Search of the lists: what staff have in hand is an id out of a log, a person's name, or words of the text.

No column is scanned, and none is cut short: `stream_search` finds the streams.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet

from generation.models import Stream
from generation.stream_search import StreamsFound

#: A number this long is no id of any database.
_ID_DIGITS = 19


def streams_matching(term: str, *, words: bool = False) -> StreamsFound:
    """Streams with this id, wire id, client or conversation id, or of a user whose name begins like this.

    With ``words`` also those whose text has all words of the term; only for who may see the text.
    """
    named = Q(wire_id=term)
    if term.isascii() and term.isdigit() and len(term) < _ID_DIGITS:
        named |= Q(pk=int(term))
    if (identifier := _uuid(term)) is not None:
        named |= Q(client_stream_id=identifier) | Q(conversation_id=identifier)
    # Resolved to ids beforehand: each is a seek, and a join would keep the database from using its indexes.
    return StreamsFound(
        ids=list(Stream.objects.filter(named).order_by().values_list("pk", flat=True)),
        users=list(_users(term)),
        words=term if words else "",
    )


def conversations_matching(term: str) -> Q:
    """Conversations with this id, or of a user whose name begins like this."""
    identifier = _uuid(term)
    return Q(user_id__in=_users(term)) if identifier is None else Q(pk=identifier)


def _users(term: str) -> QuerySet[Any, int]:
    users = get_user_model()
    named = users._default_manager.filter(**{f"{users.USERNAME_FIELD}__istartswith": term})
    return named.values_list("pk", flat=True)


def _uuid(term: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(term)
    except ValueError:
        return None
