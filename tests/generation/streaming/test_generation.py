"""How a generation ends, whoever ends it, and what its row says then."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from generation.backends import backends
from generation.exceptions import (
    EngineError,
    GenerationTimeoutError,
    InvalidRequestError,
    ModelNotFoundError,
    RateLimitError,
    ServerShutdownError,
)
from generation.models import Stream
from generation.output import StopReason
from generation.recording import get_writer
from generation.request import ChatMessage, GenerationRequest, SamplingParams
from generation.streaming import Generation, Origin, begin, collect, live
from generation.streaming import generation as generation_module
from generation.streaming import opening as opening_module
from tests.live_server import wait_until

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _nothing_left_behind() -> AsyncIterator[None]:
    yield
    backends.close_all()
    # Cancelled reads need a few turns of the loop to leave.
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(live) == 0
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


async def begun(model: str = "default", *, origin: Origin | None = None, **sampling: Any) -> Generation:
    request = GenerationRequest(
        model=model, messages=(ChatMessage(role="user", content="hi"),), sampling=SamplingParams(**sampling)
    )
    return await begin(request, origin or Origin(source="api"), received_at=time.monotonic())


async def row(generation: Generation) -> Stream:
    assert await asyncio.to_thread(get_writer().flush)
    return await Stream.objects.aget(pk=generation.stream_id)


async def test_row_is_running_before_the_first_delta() -> None:
    generation = await begun()
    stream = await row(generation)
    assert (stream.state, stream.stop_reason, stream.model, stream.backend) == ("running", None, "scripted", "default")
    generation.close()


async def test_deltas_join_to_the_stored_text_when_read_to_the_end() -> None:
    generation = await begun()
    texts = [delta.text async for delta in generation]
    assert texts == ["Hello", ", ", "world", "!"]
    stream = await row(generation)
    assert (stream.state, stream.stop_reason, stream.finish_reason, stream.text) == (
        "done",
        "eos",
        "stop",
        "Hello, world!",
    )
    assert (stream.prompt_tokens, stream.completion_tokens, stream.delta_count) == (9, 4, 4)


async def test_start_and_end_are_the_times_of_the_request_and_of_the_last_delta_when_opening_took_long() -> None:
    request = GenerationRequest(model="default", messages=(ChatMessage(role="user", content="hi"),))
    asked_at = datetime.now(UTC) - timedelta(seconds=5)
    generation = await begin(request, Origin(source="api"), received_at=time.monotonic() - 5)
    assert [delta async for delta in generation]
    ended_at = datetime.now(UTC)
    stream = await row(generation)
    assert abs(stream.started_at - asked_at) < timedelta(seconds=1)
    assert stream.ended_at is not None
    assert stream.ended_at - ended_at < timedelta(milliseconds=100)


async def test_stop_string_ends_the_stream_and_is_named() -> None:
    generation = await begun(stop=("wor",))
    assert "".join([delta.text async for delta in generation]) == "Hello, "
    stream = await row(generation)
    assert (stream.stop_reason, stream.stop_string, stream.finish_reason) == ("stop_string", "wor", "stop")


async def test_length_ends_the_stream() -> None:
    generation = await begun(max_tokens=2)
    (answer,) = await collect(generation)
    assert (answer.text, answer.finish_reason) == ("Hello, ", "length")
    assert (await row(generation)).stop_reason == "length"


async def test_nothing_follows_the_end() -> None:
    generation = await begun()
    await collect(generation)
    with pytest.raises(StopAsyncIteration):
        await anext(generation)


class TestStop:
    async def test_ends_within_one_step_and_says_who(self) -> None:
        generation = await begun("scripted-slow")
        await anext(generation)
        made = backends["slow"].pieces_made
        generation.stop(StopReason.CLIENT_STOP)
        with pytest.raises(StopAsyncIteration):
            await anext(generation)
        assert backends["slow"].pieces_made <= made + 1
        stream = await row(generation)
        assert (stream.state, stream.stop_reason, stream.ended_by) == ("stopped", "client_stop", "user")
        assert stream.finish_reason == "stop"

    async def test_says_that_the_reader_left_when_the_page_said_so_first(self) -> None:
        generation = await begun("scripted-slow")
        await anext(generation)
        generation.stop(StopReason.CLIENT_DISCONNECT)
        with pytest.raises(StopAsyncIteration):
            await anext(generation)
        stream = await row(generation)
        assert (stream.state, stream.stop_reason, stream.finish_reason) == ("stopped", "client_disconnect", None)

    async def test_wakes_a_reader_that_waits(self) -> None:
        generation = await begun("scripted-late")
        reader = asyncio.ensure_future(generation.next_delta())
        await asyncio.sleep(0)
        generation.stop(StopReason.CLIENT_STOP)
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(reader, 10)

    async def test_tells_the_backend_at_once_when_the_reader_is_busy_elsewhere(self) -> None:
        generation = await begun("scripted-slow")
        await anext(generation)
        assert backends["slow"].active == 1
        generation.stop(StopReason.CLIENT_STOP)
        assert backends["slow"].active == 0
        generation.close()

    async def test_first_reason_is_recorded_when_the_reader_leaves_afterwards(self) -> None:
        generation = await begun("scripted-slow")
        await anext(generation)
        generation.stop(StopReason.CLIENT_STOP)
        generation.close()
        assert (await row(generation)).stop_reason == "client_stop"

    async def test_closes_the_record_when_the_reader_is_stuck(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(generation_module, "LAST_READ_TIMEOUT_S", 0.05)
        generation = await begun("scripted-slow")
        await anext(generation)
        generation.stop(StopReason.TIMEOUT)
        await asyncio.to_thread(wait_until, lambda: len(live) == 0, what="the place to be free")
        stream = await row(generation)
        assert (stream.state, stream.stop_reason, stream.text) == ("failed", "timeout", "tick ")

    async def test_is_an_error_for_the_reader_when_time_is_up(self, settings: Any) -> None:
        settings.STREAMSITE_MAX_STREAM_S = 0.1
        generation = await begun("scripted-slow")
        with pytest.raises(GenerationTimeoutError, match=r"0\.1 s"):
            await collect(generation)
        stream = await row(generation)
        assert (stream.state, stream.stop_reason, stream.finish_reason) == ("failed", "timeout", None)

    async def test_happens_by_itself_when_the_reader_does_not_come_back(self, settings: Any) -> None:
        settings.STREAMSITE_SLOW_READER_S = 0.1
        generation = await begun("scripted-slow")
        await anext(generation)
        await asyncio.to_thread(wait_until, lambda: backends["slow"].active == 0, what="the backend to stop")
        with pytest.raises(GenerationTimeoutError, match=r"Nobody read the answer for 0\.1 s"):
            await anext(generation)
        stream = await row(generation)
        assert (stream.state, stream.stop_reason, stream.text) == ("failed", "timeout", "tick ")

    async def test_does_not_happen_when_the_reader_waits_for_the_model(self, settings: Any) -> None:
        settings.STREAMSITE_SLOW_READER_S = 0.01
        generation = await begun("scripted-late")
        assert await anext(generation)
        generation.close()

    async def test_does_not_happen_when_the_reader_waits_for_another_model_beside_it(self, settings: Any) -> None:
        settings.STREAMSITE_SLOW_READER_S = 0.2
        waiting, late = await begun("scripted-silent"), await begun("scripted-late")
        waiting.begin()
        assert await anext(late)  # comes after a second
        assert await anext(waiting)  # and this one after two, read late but in time
        waiting.close()
        late.close()


class TestClose:
    async def test_records_a_disconnect_and_stops_within_one_step(self) -> None:
        generation = await begun("scripted-slow")
        await anext(generation)
        made = backends["slow"].pieces_made
        generation.close()
        generation.close()
        await asyncio.sleep(0.1)
        assert backends["slow"].pieces_made <= made + 1
        stream = await row(generation)
        assert (stream.state, stream.stop_reason, stream.ended_by) == ("stopped", "client_disconnect", "client")
        assert stream.wasted_tokens is not None
        assert stream.wasted_tokens <= 1
        assert stream.abort_latency_s is not None

    async def test_is_safe_from_another_thread(self) -> None:
        generation = await begun("scripted-slow")
        await anext(generation)
        await asyncio.to_thread(generation.close)
        await asyncio.sleep(0)
        assert (await row(generation)).stop_reason == "client_disconnect"

    async def test_happens_by_itself_when_the_reader_is_cancelled(self) -> None:
        generation = await begun("scripted-late")
        reader = asyncio.ensure_future(anext(generation))
        await asyncio.sleep(0.01)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert (await row(generation)).stop_reason == "client_disconnect"

    async def test_happens_by_itself_when_nobody_ever_reads(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(generation_module, "UNREAD_TIMEOUT_S", 0.05)
        generation = await begun()
        await asyncio.sleep(0.1)
        assert (await row(generation)).stop_reason == "client_disconnect"
        assert backends["default"].pieces_made == 0


async def test_failure_of_the_backend_is_recorded_and_raised() -> None:
    generation = await begun("scripted-failing")
    with pytest.raises(EngineError):
        await collect(generation)
    stream = await row(generation)
    assert (stream.state, stream.stop_reason, stream.ended_by, stream.text) == (
        "failed", "engine_error", "server", "one two ",
    )  # fmt: skip
    assert "fails here" in stream.error
    assert stream.error_body == {
        "error": {"message": stream.error, "type": "server_error", "param": None, "code": "engine_error"}
    }


async def test_any_other_exception_becomes_an_engine_error_without_its_words(settings: Any) -> None:
    settings.GENERATION_BACKENDS = {
        "default": {
            "BACKEND": "generation.backends.scripted.ScriptedBackend",
            "OPTIONS": {"model": "broken", "pieces": ["a"], "fail_at": 0, "error": "ZeroDivisionError"},
        }
    }
    generation = await begun()
    with pytest.raises(EngineError) as caught:
        await collect(generation)
    assert caught.value.message == "The model failed while it was answering."
    stream = await row(generation)
    assert stream.error == "ZeroDivisionError in the backend"
    assert stream.error_body["error"]["message"] == "The model failed while it was answering."


class TestBegin:
    async def test_refuses_an_unknown_model_without_a_row(self) -> None:
        with pytest.raises(ModelNotFoundError):
            await begun("nothing")
        assert await Stream.objects.acount() == 0

    async def test_refuses_what_the_backend_does_not_carry_out_without_a_row(self) -> None:
        request = GenerationRequest(
            model="default", messages=(ChatMessage(role="user", content="hi"),), asked_for=frozenset({"n"})
        )
        with pytest.raises(InvalidRequestError) as caught:
            await begin(request, Origin(source="api"), received_at=time.monotonic())
        assert caught.value.param == "n"
        assert await Stream.objects.acount() == 0

    async def test_refuses_more_streams_than_there_are_places(self, settings: Any) -> None:
        settings.STREAMSITE_MAX_STREAMS = 1
        first = await begun()
        with pytest.raises(RateLimitError):
            await begun()
        first.close()
        await asyncio.sleep(0)
        (await begun()).close()

    async def test_refuses_more_streams_than_there_are_places_when_all_come_at_once(self, settings: Any) -> None:
        settings.STREAMSITE_MAX_STREAMS = 2
        burst = await asyncio.gather(*[begun() for _ in range(5)], return_exceptions=True)
        generations = [one for one in burst if isinstance(one, Generation)]
        for generation in generations:
            generation.close()
        assert len(generations) == 2
        assert [type(one) for one in burst if one not in generations] == [RateLimitError] * 3
        assert await Stream.objects.acount() == 2

    async def test_gives_its_place_back_when_it_fails(self, settings: Any) -> None:
        settings.STREAMSITE_MAX_STREAMS = 1
        with pytest.raises(ModelNotFoundError):
            await begun("nothing")
        (await begun()).close()

    async def test_writes_nothing_when_what_it_belongs_to_cannot_be_made(self) -> None:
        def attach(origin: Origin) -> Origin:
            raise InvalidRequestError("no")

        request = GenerationRequest(model="default", messages=(ChatMessage(role="user", content="hi"),))
        with pytest.raises(InvalidRequestError):
            await begin(request, Origin(source="page"), received_at=time.monotonic(), attach=attach)
        assert await Stream.objects.acount() == 0

    async def test_closes_the_row_when_the_caller_is_cancelled_while_it_is_written(self) -> None:
        started = asyncio.Event()
        loop = asyncio.get_running_loop()

        def attach(origin: Origin) -> Origin:
            loop.call_soon_threadsafe(started.set)
            time.sleep(0.05)  # a slow database: the cancellation comes in the middle
            return origin

        request = GenerationRequest(model="default", messages=(ChatMessage(role="user", content="hi"),))
        opening = asyncio.ensure_future(
            begin(request, Origin(source="page"), received_at=time.monotonic(), attach=attach)
        )
        await started.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await asyncio.gather(*opening_module._abandoned)
        await asyncio.sleep(0)  # the callback that closes the row
        assert await asyncio.to_thread(get_writer().flush)
        assert [stream.stop_reason async for stream in Stream.objects.all()] == ["client_disconnect"]

    async def test_holds_no_connection_while_streaming(self) -> None:
        await Stream.objects.acount()  # a view has looked who asks
        generation = await begun("scripted-slow", origin=Origin(source="page", session_key="mine"))
        await anext(generation)
        assert await sync_to_async(lambda: connection.connection)() is None
        generation.close()


class TestLive:
    async def test_stops_only_the_stream_of_its_owner(self) -> None:
        stream_id = uuid.uuid4()
        generation = await begun(
            "scripted-slow", origin=Origin(source="page", session_key="mine", client_stream_id=stream_id)
        )
        await anext(generation)
        assert not live.stop(stream_id, Origin(source="page", session_key="other"), StopReason.CLIENT_STOP)
        assert not live.stop(stream_id, Origin(source="page", user_id=1, session_key="mine"), StopReason.CLIENT_STOP)
        await anext(generation)
        assert live.stop(stream_id, Origin(source="page", session_key="mine"), StopReason.CLIENT_STOP)
        with pytest.raises(StopAsyncIteration):
            await anext(generation)

    async def test_stop_that_comes_before_its_stream_is_kept_for_it(self) -> None:
        stream_id = uuid.uuid4()
        origin = Origin(source="page", session_key="mine", client_stream_id=stream_id)
        assert not live.stop(stream_id, origin, StopReason.CLIENT_STOP)
        generation = await begun("scripted-slow", origin=origin)
        with pytest.raises(StopAsyncIteration):
            await anext(generation)
        assert backends["slow"].pieces_made <= 1

    async def test_drain_ends_every_stream_and_refuses_new_ones(self) -> None:
        readers = [asyncio.ensure_future(collect(await begun("scripted-slow"))) for _ in range(3)]
        await asyncio.sleep(0.05)
        try:
            assert await live.drain(5)
            for reader in readers:
                with pytest.raises(ServerShutdownError):
                    await reader
            with pytest.raises(ServerShutdownError):
                await begun()
        finally:
            live.draining = False
        assert await asyncio.to_thread(get_writer().flush)
        reasons = [stream.stop_reason async for stream in Stream.objects.all()]
        assert reasons == ["server_shutdown"] * 3
