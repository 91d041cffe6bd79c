"""Who may use the API, and how much of it."""

from generation.access.api_keys import authenticate, create_key, revoke_keys
from generation.access.limits import check_tokens, claim_places, count_request

__all__ = [
    "authenticate",
    "check_tokens",
    "claim_places",
    "count_request",
    "create_key",
    "revoke_keys",
]
