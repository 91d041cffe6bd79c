"""Two processes' hubs on one layer, with real streams of a scripted backend in this one."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from channels.layers import get_channel_layer

from generation.broadcast import Hub, Report
from generation.broadcast.hub import ALL, WATCHING
from generation.streaming import live

OTHER = Report(process="other", running=1, queued=1, started=1, tokens_per_s=1.0, ttft={}, gaps={}, ends={}, streams=())


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    hub = Hub(report_life_s=0.5)
    hub.start()
    await until(lambda: ALL in get_channel_layer().groups)
    yield hub
    await hub.close()
    await get_channel_layer().flush()


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  (the layer tells nobody)
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def other_process() -> AsyncIterator[str]:
    """A channel that gets what another process would."""
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(ALL, channel)
    await layer.group_add(WATCHING, channel)
    yield channel
    await layer.group_discard(ALL, channel)
    await layer.group_discard(WATCHING, channel)


async def next_of(channel: str, kind: str) -> dict[str, Any]:
    async with asyncio.timeout(10):
        while True:
            message: dict[str, Any] = await get_channel_layer().receive(channel)
            if message["type"] == kind:
                return message


def page(hub: Hub) -> dict[str, Any]:
    state: dict[str, Any] = json.loads(hub.text(content=True))
    return state


async def test_others_are_told_that_somebody_watches(hub: Hub) -> None:
    async with other_process() as channel:
        with hub.viewing():
            assert await next_of(channel, "live.watch") == {"type": "live.watch", "process": hub.process}


async def test_nothing_is_told_while_nobody_watches(hub: Hub) -> None:
    async with other_process() as channel:
        await hub.news()
        await hub.news()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.6):
                await get_channel_layer().receive(channel)


async def test_report_is_told_while_another_process_watches(hub: Hub) -> None:
    async with other_process() as channel:
        await get_channel_layer().group_send(ALL, {"type": "live.watch", "process": "other"})
        message = await next_of(channel, "live.report")
        assert Report.from_json(message["report"]).process == message["process"] == hub.process


async def test_reports_of_others_are_added_while_they_come(hub: Hub) -> None:
    with hub.viewing():
        report = {"type": "live.report", "process": "other", "report": OTHER.to_json()}
        await get_channel_layer().group_send(WATCHING, report)
        await until(lambda: page(hub)["processes"] == 2)
        assert (page(hub)["running"], page(hub)["queued"]) == (1, 1)
        await until(lambda: page(hub)["processes"] == 1)


@pytest.mark.parametrize(
    "message",
    [
        {"type": "live.report", "process": "other", "report": "{"},
        {"type": "live.report", "process": "other", "report": '{"strange": 1}'},
        {"type": "live.stop"},
        {"type": "live.stop", "stream_id": "x"},
        {"type": "live.unknown", "process": "other"},
    ],
)
async def test_strange_messages_are_passed_over(hub: Hub, message: dict[str, Any]) -> None:
    with hub.viewing():
        await get_channel_layer().group_send(ALL, message)
        report = {"type": "live.report", "process": "other", "report": OTHER.to_json()}
        await get_channel_layer().group_send(WATCHING, report)
        await until(lambda: page(hub)["processes"] == 2)


async def test_stream_of_another_process_is_asked_for_and_an_own_one_is_stopped(hub: Hub) -> None:
    async with other_process() as channel:
        assert await hub.stop(4711) is False
        assert await next_of(channel, "live.stop") == {"type": "live.stop", "stream_id": 4711}


async def test_nobody_is_told_of_ends_when_the_hub_is_closed() -> None:
    hub = Hub()
    hub.start()
    await hub.close()
    await hub.close()
    assert live.on_end is None
