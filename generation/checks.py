"""System checks: settings that would be unsafe or cannot work stop the start."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Info, register

from generation.backends import Backend, backends
from generation.exceptions import BackendUnavailableError


@register
def anonymous_use_is_local(**kwargs: Any) -> Sequence[CheckMessage]:
    """Anonymous use outside the local demo would let strangers run the model without limits."""
    if settings.STREAMSITE_ANONYMOUS and not settings.DEBUG:
        return [
            Error(
                "STREAMSITE_ANONYMOUS=1 with STREAMSITE_DEBUG=0: anyone who reaches this server could run the model.",
                hint="Unset STREAMSITE_ANONYMOUS, and give people accounts.",
                id="generation.E001",
            )
        ]
    return []


@register
def tokenizers_stream_exactly(**kwargs: Any) -> Sequence[CheckMessage]:
    """Say how each backend turns ids into text; only where one asked for it, because tokenizers take seconds."""
    if sys.argv[1:2] != ["check"]:
        return []
    return [message for backend in backends for message in tokenizer_messages(backend)]


def tokenizer_messages(backend: Backend) -> Sequence[CheckMessage]:
    """The message about one backend's tokenizer; none for a backend that has none."""
    name = f"GENERATION_BACKENDS[{backend.alias!r}]"
    try:
        tier = backend.tokenizer_tier()
    except BackendUnavailableError as exc:
        if exc.code == "unsupported_tokenizer":
            return [Error(f"{name}: {exc.message}", id="generation.E002")]
        return [checks.Warning(f"{name}: {exc.message}", id="generation.W001")]
    if tier is None:
        return []
    return [Info(f"{name}: the tokenizer streams exactly, by its {tier}.", id="generation.I001")]
