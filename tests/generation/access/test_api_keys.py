from __future__ import annotations

import hashlib
import re

import pytest
from django.contrib.auth.models import User

from generation.access import authenticate, create_key, revoke_keys
from generation.exceptions import AuthenticationError
from generation.models import ApiKey

pytestmark = pytest.mark.django_db


def test_only_the_hash_of_the_secret_is_stored(ada: User) -> None:
    key, whole = create_key(ada, "report", max_streams=3)
    prefix, secret = whole.split(".")
    assert re.fullmatch(r"sk-[0-9a-f]{12}", prefix)
    # 32 random bytes in base 64.
    assert re.fullmatch(r"[A-Za-z0-9_-]{43}", secret)
    row = ApiKey.objects.values().get(pk=key.pk)
    assert row["prefix"] == prefix
    assert row["secret_sha256"] == hashlib.sha256(secret.encode()).hexdigest()
    assert [name for name, value in row.items() if secret in str(value)] == []
    assert (row["max_streams"], row["requests_per_minute"], row["tokens_per_day"]) == (3, None, None)


def test_a_key_is_found_with_its_user_when_it_is_right(ada: User) -> None:
    key, whole = create_key(ada, "report")
    found = authenticate(whole)
    assert (found.pk, found.user) == (key.pk, ada)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param("", id="empty"),
        pytest.param("none", id="no dot"),
        pytest.param("{prefix}.", id="no secret"),
        pytest.param("{prefix}.{secret}x", id="longer secret"),
        pytest.param("{prefix}.x{secret}", id="other secret"),
        pytest.param("x{prefix}.{secret}", id="other prefix"),
        pytest.param("{prefix}.{digest}", id="the stored hash"),
        pytest.param(" {prefix}.{secret}", id="white space"),
        pytest.param("{prefix}.{secret}\x00", id="NUL"),
        pytest.param("{prefix}.é", id="not ASCII"),
        pytest.param("{prefix}.%s" % ("a" * 100_000), id="huge"),
    ],
)
def test_a_key_is_refused_when_it_is_wrong(ada: User, wrong: str) -> None:
    key, whole = create_key(ada, "report")
    prefix, secret = whole.split(".")
    sent = wrong.format(prefix=prefix, secret=secret, digest=key.secret_sha256)
    with pytest.raises(AuthenticationError) as refused:
        authenticate(sent)
    assert refused.value.code == "invalid_api_key"
    assert secret not in refused.value.message


def test_a_key_is_refused_when_it_is_revoked(ada: User) -> None:
    key, whole = create_key(ada, "report")
    others = create_key(ada, "other")[1]
    assert revoke_keys(ApiKey.objects.filter(pk=key.pk)) == 1
    with pytest.raises(AuthenticationError) as refused:
        authenticate(whole)
    assert refused.value.code == "api_key_revoked"
    assert authenticate(others)
    revoked_at = ApiKey.objects.get(pk=key.pk).revoked_at
    assert revoke_keys(ApiKey.objects.filter(pk=key.pk)) == 0
    assert ApiKey.objects.get(pk=key.pk).revoked_at == revoked_at


def test_a_key_is_refused_when_its_user_is_not_active(ada: User) -> None:
    whole = create_key(ada, "report")[1]
    User.objects.filter(pk=ada.pk).update(is_active=False)
    with pytest.raises(AuthenticationError) as refused:
        authenticate(whole)
    assert refused.value.code == "user_inactive"


def test_revocation_is_not_told_when_only_the_prefix_is_right(ada: User) -> None:
    key, _ = create_key(ada, "report")
    revoke_keys(ApiKey.objects.all())
    with pytest.raises(AuthenticationError) as refused:
        authenticate(f"{key.prefix}.{'a' * 43}")
    assert refused.value.code == "invalid_api_key"
