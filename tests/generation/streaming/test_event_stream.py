"""The last frames of an event stream when nobody should take them for an end."""

from __future__ import annotations

import time

import pytest

from generation.output import StopReason
from generation.request import ChatMessage, GenerationRequest
from generation.streaming import EventStream, Origin, begin

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("reason", "ends"),
    [(StopReason.CLIENT_STOP, ['"finish_reason":"stop"', "[DONE]"]), (StopReason.CLIENT_DISCONNECT, [])],
    ids=["the reader pressed Stop", "the page said that it was left"],
)
async def test_stream_ends_as_complete_only_when_its_reader_is_there(reason: StopReason, ends: list[str]) -> None:
    request = GenerationRequest(model="scripted-slow", messages=(ChatMessage(role="user", content="hi"),))
    generation = await begin(request, Origin(source="page"), received_at=time.monotonic())
    frames = EventStream([generation], include_usage=False, keep_alive_s=15)
    await anext(frames)
    await anext(frames)
    generation.stop(reason)
    last = [frame.decode() async for frame in frames]
    assert len(last) == len(ends)
    assert all(part in frame for part, frame in zip(ends, last, strict=True))
