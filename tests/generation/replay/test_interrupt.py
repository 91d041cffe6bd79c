from __future__ import annotations

import asyncio
import signal

import pytest

from generation.replay.interrupt import on_interrupt


def test_the_wish_to_stop_is_told_when_ctrl_c_is_pressed() -> None:
    async def work() -> str:
        stopped = asyncio.Event()
        with on_interrupt(stopped.set):
            signal.raise_signal(signal.SIGINT)
            await asyncio.wait_for(stopped.wait(), 5)
        return "ended in order"

    assert asyncio.run(work()) == "ended in order"


def test_everything_ends_at_once_when_ctrl_c_is_pressed_again() -> None:
    async def work() -> None:
        stopped = asyncio.Event()
        with on_interrupt(stopped.set):
            signal.raise_signal(signal.SIGINT)
            await asyncio.wait_for(stopped.wait(), 5)
            signal.raise_signal(signal.SIGINT)
            pytest.fail("the second Ctrl-C was swallowed")

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(work())


def test_ctrl_c_is_as_usual_afterwards() -> None:
    async def work() -> None:
        with on_interrupt(lambda: None):
            pass

    asyncio.run(work())
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
