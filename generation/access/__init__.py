"""Who may use the API, and how much of it."""

from generation.access.api_keys import authenticate, create_key, revoke_keys
from generation.access.limits import check_places, check_tokens, claim_places, count_request, has_limits

__all__ = [
    "authenticate",
    "check_places",
    "check_tokens",
    "claim_places",
    "count_request",
    "create_key",
    "has_limits",
    "revoke_keys",
]
