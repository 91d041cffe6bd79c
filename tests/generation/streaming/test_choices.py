"""Several answers to one request: opened together, read fairly, ended together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from generation.backends import backends
from generation.exceptions import EngineError, InvalidRequestError, RateLimitError, ServerShutdownError
from generation.models import Stream
from generation.output import StopReason, Usage
from generation.recording import get_writer
from generation.request import ChatMessage, GenerationRequest, SamplingParams
from generation.streaming import Choices, EventStream, Generation, Origin, begin, begin_all, collect, live
from generation.streaming.choices import joined_usage

pytestmark = pytest.mark.django_db(transaction=True)

SCRIPTED = "generation.backends.scripted.ScriptedBackend"
BACKENDS = {
    "default": {
        "BACKEND": SCRIPTED,
        "OPTIONS": {"model": "turns", "texts": ["AAAAAAAA", "BBBBBBBBBBBBBBBB"], "prompt_tokens": 9},
    },
    "slow": {"BACKEND": SCRIPTED, "OPTIONS": {"model": "slow", "pieces": ["tick "], "repeat": 5000, "delay_s": 0.02}},
    "late": {"BACKEND": SCRIPTED, "OPTIONS": {"model": "late", "pieces": ["late"], "first_delay_s": 60}},
    "failing": {"BACKEND": SCRIPTED, "OPTIONS": {"model": "failing", "pieces": ["one "] * 9, "fail_at": 5}},
    "fast": {"BACKEND": SCRIPTED, "OPTIONS": {"model": "fast", "pieces": ["x"], "repeat": 300}},
}


@pytest.fixture(autouse=True)
async def _nothing_left_behind(settings: Any) -> AsyncIterator[None]:
    settings.GENERATION_BACKENDS = BACKENDS
    yield
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(live) == 0
    assert [backend.active for backend in backends] == [0] * len(BACKENDS)
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


def asked(model: str = "default", n: int = 2, **sampling: Any) -> GenerationRequest:
    return GenerationRequest(
        model=model, messages=(ChatMessage(role="user", content="hi"),), n=n, sampling=SamplingParams(**sampling)
    )


async def begun(*requests: GenerationRequest) -> list[Generation]:
    return await begin_all(requests, Origin(source="api"), received_at=time.monotonic())


async def rows() -> list[Stream]:
    assert await asyncio.to_thread(get_writer().flush)
    return [stream async for stream in Stream.objects.order_by("wire_id", "choice")]


class TestOpening:
    async def test_each_answer_has_a_row_of_the_same_id_and_the_next_seed(self) -> None:
        generations = await begun(asked(n=3, seed=2**63 - 2))
        for generation in generations:
            generation.close()
        streams = await rows()
        assert [stream.choice for stream in streams] == [0, 1, 2]
        assert {stream.wire_id for stream in streams} == {generations[0].wire_id}
        assert [stream.parameters for stream in streams] == [
            {"n": 3, "seed": 2**63 - 2},
            {"n": 3, "seed": 2**63 - 1},
            {"n": 3, "seed": -(2**63)},
        ]

    async def test_none_is_opened_when_there_is_no_place_for_all(self, settings: Any) -> None:
        settings.STREAMSITE_MAX_STREAMS = 3
        first = await begun(asked(n=2))
        with pytest.raises(RateLimitError):
            await begun(asked(n=2))
        assert await Stream.objects.acount() == 2
        for generation in [*first, *await begun(asked(n=1))]:
            generation.close()

    async def test_none_is_opened_when_the_backend_refuses(self) -> None:
        with pytest.raises(InvalidRequestError):
            await begun(replace(asked(n=2), asked_for=frozenset({"temperature"})))
        assert await Stream.objects.acount() == 0

    async def test_one_at_a_time_is_all_that_a_page_or_corpus_asks_for(self) -> None:
        with pytest.raises(InvalidRequestError) as caught:
            await begin(asked(n=2), Origin(source="replay"), received_at=time.monotonic())
        assert caught.value.param == "n"


class TestReading:
    @pytest.mark.parametrize("pause_turns", [0, 5], ids=["fast reader", "slow reader, all are ready each time"])
    async def test_each_comes_in_its_turn_when_all_are_fast(self, pause_turns: int) -> None:
        choices = Choices(await begun(asked("fast", n=3)))
        order = []
        while (event := await anext_event(choices)) is not None:
            order.append(event.generation.choice)
            for _ in range(pause_turns):
                await asyncio.sleep(0)
        assert [order.count(choice) for choice in range(3)] == [301, 301, 301]
        # None is ever more than a few deltas ahead of another.
        counts = [0, 0, 0]
        for choice in order[:-9]:
            counts[choice] += 1
            assert max(counts) - min(counts) <= 3

    async def test_silence_is_told_when_none_has_anything(self) -> None:
        choices = Choices(await begun(asked("late")))
        assert await choices.next_event(0.01) is None
        choices.close()

    async def test_answers_are_collected_each_by_itself(self) -> None:
        generations = await begun(asked())
        answers = await collect(*generations)
        assert [answer.text for answer in answers] == ["AAAAAAAA", "BBBBBBBBBBBBBBBB"]
        assert [stream.text for stream in await rows()] == ["AAAAAAAA", "BBBBBBBBBBBBBBBB"]
        assert Choices(generations).usage == Usage(prompt_tokens=9, completion_tokens=6)


async def anext_event(choices: Choices) -> Any:
    try:
        return await choices.next_event()
    except StopAsyncIteration:
        return None


class TestFrames:
    async def test_role_and_finish_come_once_each_and_usage_once_for_all(self) -> None:
        generations = await begun(asked())
        frames = [frame.decode() async for frame in EventStream(generations, include_usage=True, keep_alive_s=60)]
        for choice in ("0", "1"):
            own = [frame for frame in frames if f'"index":{choice},' in frame]
            assert '"role":"assistant"' in own[0]
            assert '"finish_reason":"stop"' in own[-1]
            assert sum("finish_reason" in frame and '"finish_reason":null' not in frame for frame in own) == 1
        assert '"usage":{"prompt_tokens":9,"completion_tokens":6,"total_tokens":15}' in frames[-2]
        assert frames[-1] == "data: [DONE]\n\n"
        assert sum('"usage":{' in frame for frame in frames) == 1

    async def test_failure_of_one_ends_all_with_one_error_frame(self) -> None:
        # The second answer fails at once, the first has much to say.
        slow, failing = await begun(asked("slow", n=1)), await begun(asked("failing", n=1))
        frames = [
            frame.decode() async for frame in EventStream([*slow, *failing], include_usage=False, keep_alive_s=60)
        ]
        assert '"code":"engine_error"' in frames[-2]
        assert frames[-1] == "data: [DONE]\n\n"
        assert not any('"finish_reason":"' in frame for frame in frames)
        streams = {stream.model: stream for stream in await rows()}
        assert [stream.stop_reason for stream in streams.values()] == ["engine_error"] * 2
        assert streams["slow"].error.startswith("Another answer to the same request failed: The script fails here")
        assert streams["slow"].error_body == streams["failing"].error_body

    async def test_stop_of_one_is_its_finish_and_the_others_go_on(self) -> None:
        generations = await begun(asked("slow", max_tokens=20))
        events = EventStream(generations, include_usage=False, keep_alive_s=60)
        frames = [await anext(events) for _ in range(4)]
        generations[0].stop(StopReason.CLIENT_STOP)
        frames += [frame async for frame in events]
        ends = [frame for frame in frames if b'"finish_reason":"' in frame]
        assert [b'"index":0' in end for end in ends] == [True, False]
        assert [stream.stop_reason for stream in await rows()] == ["client_stop", "length"]


class TestEnding:
    async def test_all_end_when_the_reader_goes(self) -> None:
        events = EventStream(await begun(asked("slow", n=3)), include_usage=False, keep_alive_s=60)
        for _ in range(5):
            await anext(events)
        events.close()
        assert [stream.stop_reason for stream in await rows()] == ["client_disconnect"] * 3

    async def test_all_end_when_the_reader_is_cancelled(self) -> None:
        events = EventStream(await begun(asked("late", n=2)), include_usage=False, keep_alive_s=60)
        await anext(events), await anext(events)
        reader = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.01)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert [stream.stop_reason for stream in await rows()] == ["client_disconnect"] * 2

    async def test_all_end_when_the_server_shuts_down(self) -> None:
        generations = await begun(asked("slow", n=2))
        reader = asyncio.ensure_future(collect(*generations))
        await asyncio.sleep(0.05)
        try:
            assert await live.drain(5)
            with pytest.raises(ServerShutdownError):
                await reader
        finally:
            live.draining = False
        assert [stream.stop_reason for stream in await rows()] == ["server_shutdown"] * 2

    async def test_all_end_when_time_is_up(self, settings: Any) -> None:
        settings.STREAMSITE_MAX_STREAM_S = 0.1
        events = EventStream(await begun(asked("slow", n=2)), include_usage=False, keep_alive_s=60)
        frames = [frame async for frame in events]
        assert b'"code":"timeout"' in frames[-2]
        assert [stream.stop_reason for stream in await rows()] == ["timeout"] * 2

    async def test_collecting_ends_all_when_one_fails(self) -> None:
        generations = [*await begun(asked("slow", n=1)), *await begun(asked("failing", n=1))]
        with pytest.raises(EngineError):
            await collect(*generations)
        assert [stream.stop_reason for stream in await rows()] == ["engine_error"] * 2


@pytest.mark.parametrize(
    ("usages", "joined"),
    [
        pytest.param([], None, id="none"),
        pytest.param([(True, Usage(prompt_tokens=1, completion_tokens=2)), (False, None)], None, id="one unknown"),
        pytest.param(
            [
                (True, Usage(prompt_tokens=5, completion_tokens=2, cached_tokens=4)),
                (False, Usage(prompt_tokens=5, completion_tokens=3, cached_tokens=5)),
                (True, Usage(prompt_tokens=7, completion_tokens=1, cached_tokens=0)),
            ],
            Usage(prompt_tokens=12, completion_tokens=6, cached_tokens=4),
            id="two prompts",
        ),
        pytest.param(
            [
                (True, Usage(prompt_tokens=5, completion_tokens=2, cached_tokens=4)),
                (True, Usage(prompt_tokens=5, completion_tokens=2)),
            ],
            Usage(prompt_tokens=10, completion_tokens=4),
            id="cached tokens of one unknown",
        ),
    ],
)
def test_usage_counts_each_prompt_once_and_guesses_nothing(usages, joined) -> None:
    assert joined_usage(usages) == joined
