"""Ctrl-C as a wish and not as an accident: the first one ends what runs in order, the second one at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: What a shell expects of a command that Ctrl-C ended: 128 + SIGINT.
EXIT_STATUS = 128 + signal.SIGINT


@contextmanager
def on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop`` on the event loop at the first Ctrl-C; a second one raises KeyboardInterrupt as usual.

    For use in the main thread, inside a running loop.
    """
    loop = asyncio.get_running_loop()

    def first() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        stop()

    loop.add_signal_handler(signal.SIGINT, first)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
