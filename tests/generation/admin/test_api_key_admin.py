from __future__ import annotations

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from generation.access import create_key
from generation.models import ApiKey

LIST = reverse("admin:generation_apikey_changelist")
LIMITS = {"max_streams": "2", "requests_per_minute": "", "tokens_per_day": "0"}


@pytest.fixture
def keys(db: None) -> list[tuple[ApiKey, str]]:
    ada = User.objects.create(username="ada")
    return [create_key(ada, name) for name in ("one <b>", "two")]


def page_of(key: ApiKey) -> str:
    return reverse("admin:generation_apikey_change", args=[key.pk])


def test_no_page_shows_a_secret_or_its_hash(admin_client: Client, keys: list[tuple[ApiKey, str]]) -> None:
    key, whole = keys[0]
    for address in (LIST, page_of(key), reverse("admin:generation_apikey_history", args=[key.pk])):
        html = admin_client.get(address).content.decode()
        assert whole.split(".")[1] not in html
        assert key.secret_sha256 not in html
        assert "one &lt;b&gt;" in html
        assert "<b>" not in html


def test_list_shows_whose_they_are_and_their_dates(admin_client: Client, keys: list[tuple[ApiKey, str]]) -> None:
    html = admin_client.get(LIST).content.decode()
    for column in ("shown_name", "prefix", "user", "created_at", "last_used_at", "revoked_at"):
        assert f"column-{column}" in html
    assert keys[1][0].prefix in html


def test_selected_keys_are_revoked_and_others_stay(admin_client: Client, keys: list[tuple[ApiKey, str]]) -> None:
    one, two = keys[0][0], keys[1][0]
    response = admin_client.post(LIST, {"action": "revoke", "_selected_action": [one.pk]}, follow=True)
    assert f"Revoked one &lt;b&gt; ({one.prefix})." in response.content.decode()
    one.refresh_from_db()
    two.refresh_from_db()
    assert (one.revoked_at is None, two.revoked_at is None) == (False, True)
    assert "Revoked." in admin_client.get(reverse("admin:generation_apikey_history", args=[one.pk])).content.decode()
    again = admin_client.post(LIST, {"action": "revoke", "_selected_action": [one.pk]}, follow=True)
    assert "These keys had been revoked before." in again.content.decode()


def test_only_limits_change_when_the_form_is_posted(admin_client: Client, keys: list[tuple[ApiKey, str]]) -> None:
    key = keys[0][0]
    sent = {**LIMITS, "name": "other", "prefix": "sk-other", "secret_sha256": "0" * 64, "revoked_at_0": "2026-01-01"}
    assert admin_client.post(page_of(key), sent).status_code == 302
    changed = ApiKey.objects.get(pk=key.pk)
    assert (changed.max_streams, changed.requests_per_minute, changed.tokens_per_day) == (2, None, 0)
    assert (changed.name, changed.prefix, changed.secret_sha256, changed.revoked_at) == (
        "one <b>", key.prefix, key.secret_sha256, None,
    )  # fmt: skip


def test_keys_are_only_seen_when_staff_may_only_view(
    staff_client: Callable[..., Client], keys: list[tuple[ApiKey, str]]
) -> None:
    client = staff_client("view_apikey")
    key = keys[0][0]
    assert b"revoke" not in client.get(LIST).content.lower().replace(b"revoked", b"")
    client.post(LIST, {"action": "revoke", "_selected_action": [key.pk]})
    assert client.post(page_of(key), LIMITS).status_code == 403
    assert ApiKey.objects.get(pk=key.pk).max_streams is ApiKey.objects.get(pk=key.pk).revoked_at is None


def test_keys_are_neither_made_nor_deleted_here(admin_client: Client, keys: list[tuple[ApiKey, str]]) -> None:
    assert admin_client.get(reverse("admin:generation_apikey_add")).status_code == 403
    assert admin_client.post(reverse("admin:generation_apikey_delete", args=[keys[0][0].pk])).status_code == 403
