"""Short ways to ask a backend and to read its stream."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from generation.backends.base import DeltaStream
from generation.output import Delta
from generation.request import ChatMessage, GenerationRequest, SamplingParams

WAIT_S = 60


def ask(text: str = "Tea?", *, asked_for: frozenset[str] = frozenset(), **sampling: Any) -> GenerationRequest:
    return GenerationRequest(
        model="default",
        messages=(ChatMessage(role="user", content=text),),
        sampling=SamplingParams(**sampling),
        asked_for=asked_for,
    )


async def read(stream: DeltaStream) -> list[Delta]:
    """All deltas; checks what every stream promises about them."""
    async with asyncio.timeout(WAIT_S):
        deltas = [delta async for delta in stream]
    assert stream.outcome is not None
    assert all(delta.text for delta in deltas)
    starts = [delta.first_token for delta in deltas]
    assert starts == [0, *(delta.end_token for delta in deltas)][: len(starts)]
    return deltas


def text(deltas: list[Delta]) -> str:
    return "".join(delta.text for delta in deltas)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a state that another thread brings about."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        await asyncio.sleep(0.005)
