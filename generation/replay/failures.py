"""What can go wrong in a command that streams, told in words and with the exit status that a shell expects."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import CommandError
from django.db import DatabaseError

from generation.exceptions import GenerationError
from generation.replay.interrupt import EXIT_STATUS
from generation.replay.terminal import harmless


@contextmanager
def told_in_words() -> Iterator[None]:
    """Turn the failures of a command's body into `CommandError`; Ctrl-C and a closed pipe end it without a word."""
    try:
        yield
    except GenerationError as exc:
        raise CommandError(harmless(exc.message)) from exc
    except ImproperlyConfigured as exc:
        raise CommandError(str(exc)) from exc
    except DatabaseError as exc:
        reason = str(exc).strip().rstrip(".")
        raise CommandError(
            f"The database cannot be used: {reason}.\n`manage.py migrate` makes missing tables; DATABASE_URL names "
            "another database."
        ) from exc
    except KeyboardInterrupt:
        sys.exit(EXIT_STATUS)
    except BrokenPipeError:
        # Such as `| head`. Python flushes standard output once more at exit and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(128 + signal.SIGPIPE)
