"""Limits, as every process sees them; runs on PostgreSQL too (test_on_postgresql.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection, transaction
from pytest_django import DjangoAssertNumQueries

from generation.access import check_tokens, claim_places, count_request
from generation.exceptions import RateLimitError
from generation.models import ApiKey, Stream
from generation.streaming import Origin

NOON = datetime(2026, 3, 1, 12, 0, 20, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _limits(settings: Any) -> None:
    settings.STREAMSITE_USER_MAX_STREAMS = 3
    settings.STREAMSITE_KEY_MAX_STREAMS = 3
    settings.STREAMSITE_KEY_REQUESTS_PER_MINUTE = 3
    settings.STREAMSITE_KEY_TOKENS_PER_DAY = 100


def allowed(key: ApiKey, times: int, now: datetime) -> int:
    """How many of so many requests are let in."""
    count = 0
    for _ in range(times):
        try:
            count_request(key, now=now)
        except RateLimitError:
            continue
        count += 1
    return count


@pytest.mark.django_db
class TestRequests:
    def test_the_minutes_last_one_is_the_limits(self, key: ApiKey) -> None:
        assert allowed(key, 5, NOON) == 3

    def test_refusal_tells_when_the_next_minute_begins(self, key: ApiKey) -> None:
        allowed(key, 3, NOON)
        with pytest.raises(RateLimitError) as refused:
            count_request(key, now=NOON)
        assert (refused.value.retry_after_s, refused.value.code) == (40, "rate_limit_exceeded")
        assert refused.value.message == "This API key is at its limit of requests a minute: 3."

    def test_next_minute_begins_anew(self, key: ApiKey) -> None:
        assert allowed(key, 5, NOON) == 3
        assert allowed(key, 5, NOON + timedelta(seconds=40)) == 3

    @pytest.mark.parametrize(("own", "expected"), [(1, 1), (4, 4), (0, 9)], ids=["fewer", "more", "none"])
    def test_a_keys_own_limit_is_before_the_settings(self, key: ApiKey, own: int, expected: int) -> None:
        key.requests_per_minute = own
        assert allowed(key, 9, NOON) == expected

    def test_each_key_counts_for_itself(self, key: ApiKey, ada: User) -> None:
        other = ApiKey.objects.create(user=ada, name="other", prefix="other")
        assert (allowed(key, 5, NOON), allowed(other, 5, NOON)) == (3, 3)

    @pytest.mark.parametrize("own", [None, 0], ids=["counted", "without limit"])
    def test_last_use_is_noted(self, key: ApiKey, own: int | None) -> None:
        key.requests_per_minute = own
        count_request(key, now=NOON)
        assert ApiKey.objects.get().last_used_at == NOON

    def test_last_use_is_written_once_a_minute_when_nothing_is_counted(
        self, key: ApiKey, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        ApiKey.objects.update(requests_per_minute=0)
        for seconds, writes in ((0, 1), (30, 0), (59, 0), (61, 1), (90, 0)):
            key.refresh_from_db()
            # Not even one that changes nothing: on SQLite it would wait for whoever writes.
            with django_assert_num_queries(writes):
                count_request(key, now=NOON + timedelta(seconds=seconds))
        assert ApiKey.objects.get().last_used_at == NOON + timedelta(seconds=61)


@pytest.mark.django_db
class TestTokens:
    def test_the_day_is_used_up_by_prompts_and_answers(self, key: ApiKey, open_row: Callable[..., Stream]) -> None:
        for prompt_tokens, completion_tokens in [(40, 59), (None, None), (0, None)]:
            open_row(
                api_key=key, state="done", started_at=NOON,
                prompt_tokens=prompt_tokens, completion_tokens=completion_tokens,
            )  # fmt: skip
        check_tokens(key, now=NOON)
        open_row(api_key=key, state="done", started_at=NOON, prompt_tokens=1, completion_tokens=0)
        with pytest.raises(RateLimitError) as refused:
            check_tokens(key, now=NOON)
        assert refused.value.retry_after_s == 11 * 3600 + 59 * 60 + 40
        assert "100 tokens a day; 100 are used" in refused.value.message

    def test_yesterday_and_other_keys_do_not_count(
        self, key: ApiKey, ada: User, open_row: Callable[..., Stream]
    ) -> None:
        other = ApiKey.objects.create(user=ada, name="other", prefix="other")
        open_row(api_key=key, state="done", started_at=NOON - timedelta(hours=12, seconds=21), completion_tokens=1000)
        open_row(api_key=other, state="done", started_at=NOON, completion_tokens=1000)
        open_row(user=ada, state="done", started_at=NOON, completion_tokens=1000)
        check_tokens(key, now=NOON)

    def test_nothing_is_refused_when_the_key_has_no_limit(self, key: ApiKey, open_row: Callable[..., Stream]) -> None:
        open_row(api_key=key, state="done", started_at=NOON, completion_tokens=1000)
        key.tokens_per_day = 0
        check_tokens(key, now=NOON)


def claim(caller: Origin, count: int) -> None:
    with transaction.atomic():
        claim_places(caller, count)


@pytest.mark.django_db(transaction=True)
class TestPlaces:
    def test_a_key_has_so_many_and_its_user_others(
        self, key: ApiKey, ada: User, open_row: Callable[..., Stream]
    ) -> None:
        with_key = Origin(source="api", user_id=ada.pk, api_key_id=key.pk)
        on_page = Origin(source="page", user_id=ada.pk)
        for _ in range(3):
            claim(with_key, 1)
            open_row(user=ada, api_key=key)
        with pytest.raises(RateLimitError) as refused:
            claim(with_key, 1)
        assert refused.value.message == "At most 3 streams may be open at once; 3 are. Wait for one to end."
        assert refused.value.retry_after_s == 1
        claim(on_page, 3)

    def test_each_choice_needs_one(self, key: ApiKey, ada: User, open_row: Callable[..., Stream]) -> None:
        open_row(user=ada, api_key=key)
        origin = Origin(source="api", user_id=ada.pk, api_key_id=key.pk)
        claim(origin, 2)
        with pytest.raises(RateLimitError, match="1 are, and 3 more were asked for"):
            claim(origin, 3)

    @pytest.mark.parametrize("who", ["user", "session"])
    def test_the_pages_callers_have_so_many_each(self, who: str, ada: User, open_row: Callable[..., Stream]) -> None:
        mine, others = {
            "user": ({"user_id": ada.pk}, {"user_id": User.objects.create(username="bob").pk}),
            "session": ({"session_key": "a" * 32}, {"session_key": "b" * 32}),
        }[who]
        for _ in range(3):
            open_row(**mine)
        open_row(state="done", **mine)
        with pytest.raises(RateLimitError):
            claim(Origin(source="page", **mine), 1)  # type: ignore[arg-type]
        claim(Origin(source="page", **others), 1)  # type: ignore[arg-type]

    @pytest.mark.parametrize(("own", "expected"), [(1, 1), (0, 8), (None, 3)], ids=["own", "none", "the settings'"])
    def test_a_keys_own_limit_is_before_the_settings(
        self, key: ApiKey, ada: User, own: int | None, expected: int
    ) -> None:
        ApiKey.objects.filter(pk=key.pk).update(max_streams=own)
        assert self.opened_at_once({"user_id": ada.pk, "api_key_id": key.pk}) == expected

    @pytest.mark.parametrize("who", ["key", "user", "session"])
    def test_no_more_are_opened_when_many_come_at_once(self, who: str, key: ApiKey, ada: User) -> None:
        session = SessionStore()
        session.create()
        caller = {
            "key": {"user_id": ada.pk, "api_key_id": key.pk},
            "user": {"user_id": ada.pk},
            "session": {"session_key": session.session_key},
        }[who]
        assert self.opened_at_once(caller) == 3

    def opened_at_once(self, caller: dict[str, Any]) -> int:
        """How many of eight that start together, each in a thread and connection of its own, get a row."""
        together = threading.Barrier(8)

        def attempt(number: int) -> bool:
            try:
                together.wait(10)
                with transaction.atomic():
                    claim_places(Origin(source="api", **caller), 1)
                    Stream.objects.create(
                        wire_id=f"chatcmpl-{number}", source="api", model="m", backend="b", started_at=NOON, **caller
                    )
            except RateLimitError:
                return False
            finally:
                connection.close()
            return True

        with ThreadPoolExecutor(8) as threads:
            return sum(threads.map(attempt, range(8)))
