"""Makes ready what a stream needs, so that a command fails before it has begun and measures no model's loading."""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable

from generation.backends import Backend, BackendState, backends
from generation.exceptions import BackendUnavailableError
from generation.models import Stream

#: A backend tells its state when asked, not when it changes.
POLL_S = 0.05


def make_ready(backend: Backend, report: Callable[[str], None]) -> None:
    """See that streams can be recorded, start the backend, and block until it is ready.

    ``report`` gets each new state in words. Raises DatabaseError, or BackendUnavailableError when a model cannot be
    loaded.
    """
    Stream.objects.exists()
    # A model's thread that still computes when the interpreter ends would abort the process.
    atexit.register(backends.close_all)
    backend.start()
    told = ""
    while (health := backend.health).state is not BackendState.READY:
        if health.state is BackendState.FAILED:
            raise BackendUnavailableError(health.message)
        if health.message and health.message != told:
            told = health.message
            report(told)
        time.sleep(POLL_S)
