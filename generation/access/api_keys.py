"""API keys ``prefix.secret``: made once, found by their prefix, proven by their secret's SHA-256.

In: what a client sent as its key. Out: the row of the key, or an AuthenticationError that never repeats what was sent.
A fast hash is enough: the secret is 256 random bits, which nobody guesses from a stolen table.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from typing import TYPE_CHECKING

from django.db.models import QuerySet
from django.utils import timezone

from generation.exceptions import AuthenticationError
from generation.models import ApiKey

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

SECRET_BYTES = 32
_KEY = re.compile(r"([A-Za-z0-9_-]{1,32})\.([A-Za-z0-9_-]{1,128})")


def create_key(
    user: AbstractBaseUser,
    name: str,
    *,
    max_streams: int | None = None,
    requests_per_minute: int | None = None,
    tokens_per_day: int | None = None,
) -> tuple[ApiKey, str]:
    """Make a key; its row, and the whole key, which cannot be had again."""
    prefix, secret = f"sk-{secrets.token_hex(6)}", secrets.token_urlsafe(SECRET_BYTES)
    key = ApiKey.objects.create(
        user_id=user.pk,
        name=name,
        prefix=prefix,
        secret_sha256=_digest(secret),
        max_streams=max_streams,
        requests_per_minute=requests_per_minute,
        tokens_per_day=tokens_per_day,
    )
    return key, f"{prefix}.{secret}"


def authenticate(sent: str) -> ApiKey:
    """The key that a client sent, with its user. Raises AuthenticationError.

    Why a key is refused is told only to whoever has its secret.
    """
    form = _KEY.fullmatch(sent)
    key = ApiKey.objects.select_related("user").filter(prefix=form[1]).first() if form else None
    # Compared also where there is no row: the time tells nothing about prefixes.
    proven = hmac.compare_digest(_digest(form[2] if form else ""), key.secret_sha256 if key else "")
    if key is None or not proven:
        raise AuthenticationError(
            "The API key is wrong. It must be one of this server's, as `manage.py create_api_key` prints them."
        )
    if key.revoked_at is not None:
        raise AuthenticationError(f"The API key {key.prefix} was revoked; ask for a new one.", code="api_key_revoked")
    if not key.user.is_active:
        raise AuthenticationError(f"The user of the API key {key.prefix} is not active.", code="user_inactive")
    return key


def revoke_keys(keys: QuerySet[ApiKey]) -> int:
    """Refuse these keys from the next request on; how many were not revoked before."""
    return keys.filter(revoked_at__isnull=True).update(revoked_at=timezone.now())


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()
