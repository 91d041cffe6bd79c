"""How much one caller may do: streams at once, requests a minute, tokens a day.

Counted in the database, so that every process and machine sees the same: requests in a column of the key, tokens and
open streams in the record itself. 0 means no limit; a key's own null means the setting's. Synchronous throughout.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.db.models import Case, F, QuerySet, Sum, When
from django.db.models.functions import Coalesce

from generation.exceptions import RateLimitError
from generation.models import ApiKey, Stream
from generation.write_turn import write_turn

#: Without a count to keep, the last use is written this often.
LAST_USE_EVERY = timedelta(minutes=1)


def count_request(key: ApiKey, *, now: datetime) -> None:
    """Count a request of a key in its minute of the clock, and note the use. Raises RateLimitError.

    One statement, so that two processes never both take the last request of a minute.
    """
    limit = _limit(key.requests_per_minute, settings.STREAMSITE_KEY_REQUESTS_PER_MINUTE)
    row = ApiKey.objects.filter(pk=key.pk)
    if not limit:
        # On SQLite a statement that changes no row takes the write lock too.
        if key.last_used_at is None or key.last_used_at < now - LAST_USE_EVERY:
            with write_turn():
                row.update(last_used_at=now)
        return
    minute = now.replace(second=0, microsecond=0)
    with write_turn():
        counted = row.exclude(minute_at=minute, minute_requests__gte=limit).update(
            minute_at=minute,
            minute_requests=Case(When(minute_at=minute, then=F("minute_requests") + 1), default=1),
            last_used_at=now,
        )
    if not counted:
        raise RateLimitError(
            f"This API key is at its limit of requests a minute: {limit:,}.",
            retry_after_s=60 - now.second,
        )


def check_tokens(key: ApiKey, *, now: datetime) -> None:
    """Raise RateLimitError when the day's tokens (UTC; prompts and answers of ended streams) are used up."""
    limit = _limit(key.tokens_per_day, settings.STREAMSITE_KEY_TOKENS_PER_DAY)
    if not limit:
        return
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    used: int = Stream.objects.filter(api_key=key, started_at__gte=today).aggregate(
        used=Coalesce(Sum(Coalesce(F("prompt_tokens"), 0) + Coalesce(F("completion_tokens"), 0)), 0)
    )["used"]
    if used >= limit:
        tomorrow = today + timedelta(days=1)
        raise RateLimitError(
            f"This API key may use {limit:,} tokens a day; {used:,} are used, and the next day begins at 00:00 UTC.",
            retry_after_s=max(1, int((tomorrow - now).total_seconds())),
        )


class Caller(Protocol):
    """Whose streams are counted: a key's, else a user's of the page, else an anonymous session's."""

    @property
    def api_key_id(self) -> int | None: ...

    @property
    def user_id(self) -> int | None: ...

    @property
    def session_key(self) -> str: ...


def _has_limits(caller: Caller) -> bool:
    """Whether there is anyone to count for; commands and the local demo's API have nobody."""
    return caller.api_key_id is not None or caller.user_id is not None or caller.session_key != ""


def claim_places(caller: Caller, count: int) -> None:
    """Raise RateLimitError when a caller has too many streams open for ``count`` more.

    In the transaction that writes their rows: of two processes, the second sees the first one's.
    """
    if not _has_limits(caller):
        return
    limit = _stream_limit(caller)
    if not limit:
        return
    running = _running(caller)
    if running + count > limit:
        asked = "" if count == 1 else f", and {count} more were asked for"
        raise RateLimitError(f"At most {limit} streams may be open at once; {running} are{asked}. Wait for one to end.")


def _running(caller: Caller) -> int:
    """Open streams of a caller. Those of a user's keys do not count towards the user's page."""
    owner = {name: getattr(caller, name) for name in ("user_id", "api_key_id", "session_key")}
    return Stream.objects.filter(stop_reason__isnull=True, **owner).count()


def _stream_limit(caller: Caller) -> int:
    """The caller's limit; until the transaction ends no other one gets past this line for the caller.

    SQLite's write transactions exclude each other anyway.
    """
    if caller.api_key_id is not None:
        own = _locked(ApiKey.objects.filter(pk=caller.api_key_id)).values_list("max_streams", flat=True).first()
        return _limit(own, settings.STREAMSITE_KEY_MAX_STREAMS)
    if caller.user_id is not None:
        _locked(get_user_model()._default_manager.filter(pk=caller.user_id)).values_list("pk").first()
    else:
        _locked(Session.objects.filter(pk=caller.session_key)).values_list("pk").first()
    return settings.STREAMSITE_USER_MAX_STREAMS


def _locked(rows: QuerySet[Any]) -> QuerySet[Any]:
    """``no_key``: rows that refer to this one can be written meanwhile."""
    return rows.select_for_update(no_key=True)


def _limit(own: int | None, default: int) -> int:
    return default if own is None else own
