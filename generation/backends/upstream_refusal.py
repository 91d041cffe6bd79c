"""An upstream's HTTP error as one of ours: whose fault it is decides the status that the client gets.

What the request asked for wrongly stays the client's (400, with the field where it is named); a key that the upstream
does not take, an unknown path or a redirect is this server's configuration and becomes a 502.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from generation.backends.upstream_chunk import error_text
from generation.backends.upstream_kind import UpstreamKind
from generation.exceptions import GenerationError, InvalidRequestError, RateLimitError, UpstreamError
from generation.output import StopReason

#: Statuses that say something about the request itself.
_OF_THE_REQUEST = frozenset({400, 413, 422})
#: Longest wait that a client is sent away for.
MAX_RETRY_AFTER_S = 3600


def refusal(status: int, headers: Mapping[str, str], content: bytes, kind: UpstreamKind) -> GenerationError:
    """The error for a response that is no stream; its stop reason is ``upstream_error``, whatever its class."""
    error = _refusal(status, headers, _body(content), kind)
    error.stop_reason = StopReason.UPSTREAM_ERROR
    return error


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """What ``Retry-After`` says in seconds; None without one, or when it is a date."""
    value = headers.get("retry-after", "")
    return float(value) if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", value) else None


def _refusal(status: int, headers: Mapping[str, str], body: Mapping[str, Any], kind: UpstreamKind) -> GenerationError:
    said = f": {error_text(body)}" if body else "."
    if status in _OF_THE_REQUEST:
        return InvalidRequestError(f"The upstream refuses the request{said}", param=_param(body, kind))
    if status == 429:
        wait_s = retry_after_s(headers) or 1
        return RateLimitError(
            "The upstream takes no more requests now; ask again later.",
            retry_after_s=min(max(1, round(wait_s)), MAX_RETRY_AFTER_S),
        )
    # The words of the next ones may hold parts of the key, or of the address.
    if status in {401, 403}:
        message = f"The upstream does not accept this server's key (it answered {status}); the settings must be mended."
        return UpstreamError(message, code="upstream_unauthorized")
    if status == 404:
        message = "The upstream has no such model or path (it answered 404); the settings must be mended."
        return UpstreamError(message, code="upstream_not_found")
    if 300 <= status < 400:
        message = f"The upstream redirects elsewhere ({status}), which is not followed; the settings must be mended."
        return UpstreamError(message, code="upstream_redirect")
    return UpstreamError(f"The upstream answered {status}{said}")


def _body(content: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _param(body: Mapping[str, Any], kind: UpstreamKind) -> str | None:
    """The field that the upstream names, by our name for it: OpenAI's ``param``, or FastAPI's ``loc``."""
    error = body.get("error")
    param = error.get("param") if isinstance(error, Mapping) else body.get("param")
    detail = body.get("detail")
    if param is None and isinstance(detail, list) and detail and isinstance(detail[0], Mapping):
        location = detail[0].get("loc")
        param = location[1] if isinstance(location, list) and len(location) > 1 else None
    if not isinstance(param, str):
        return None
    ours = {theirs: name for name, theirs in kind.renames.items()}
    return ours.get(param, param)[:100]
