"""Streams through real sockets on real servers: what arrives when, and how each one ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.live_server import LiveServer, ServerName, live_server, wait_until
from tests.postgresql.databases import new_database
from tests.request_cases import NEED_A_TOKENIZER, REQUESTS, body_of
from tests.sse_client import RawResponse, chat, send

pytestmark = pytest.mark.servers

SERVERS: list[ServerName] = ["uvicorn", "daphne"]


def wire_id(response: RawResponse) -> str:
    return response.headers["x-request-id"]


class TestStream:
    async def test_frames_come_in_the_fixed_order_with_the_fixed_headers(self, server: LiveServer) -> None:
        async with await chat(server.base_url, stream_options={"include_usage": True}) as response:
            assert response.status == 200
            frames = [frame async for frame in response.frames() if not frame.startswith(":")]
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert response.headers["cache-control"] == "no-store, no-transform"
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["content-encoding"] == "identity"
        assert "content-length" not in response.headers
        assert "etag" not in response.headers
        assert frames[-1] == "data: [DONE]"
        chunks = [json.loads(frame.removeprefix("data: ")) for frame in frames[:-1]]
        assert [chunk["choices"] and chunk["choices"][0]["delta"] for chunk in chunks] == [
            {"role": "assistant", "content": ""},
            {"content": "Hello"},
            {"content": ", "},
            {"content": "world"},
            {"content": "!"},
            {},
            [],
        ]
        assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]] == [None] * 5 + ["stop"]
        assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * 6
        assert chunks[-1]["usage"]["completion_tokens"] == 4
        assert {(chunk["id"], chunk["object"], chunk["model"]) for chunk in chunks} == {
            (wire_id(response), "chat.completion.chunk", "scripted")
        }

    async def test_record_holds_the_same_text_in_its_deltas(self, server: LiveServer) -> None:
        async with await chat(server.base_url) as response:
            await response.chunks()
        row = server.stream(wire_id(response))
        assert (row["state"], row["finish_reason"], row["stop_reason"], row["ended_by"]) == (
            "done", "stop", "eos", "model",
        )  # fmt: skip
        assert row["text"] == "Hello, world!"
        batches = server.rows(
            "SELECT deltas FROM generation_deltabatch WHERE stream_id = ? ORDER BY first_seq", row["id"]
        )
        assert "".join(text for batch in batches for text in json.loads(batch["deltas"])["text"]) == "Hello, world!"
        assert 0 < row["ttft_visible_s"] <= row["total_s"]

    async def test_deltas_arrive_one_by_one_when_the_model_is_slow(self, server: LiveServer) -> None:
        async with await chat(server.base_url, model="scripted-slow", max_tokens=20) as response:
            await response.chunks()
        # 20 pieces at 20 ms each: in one lump they would all arrive within a millisecond.
        assert response.arrived[20] - response.arrived[1] > 0.2

    async def test_whole_answer_is_the_same_text(self, server: LiveServer) -> None:
        async with await chat(server.base_url, stream=False) as response:
            body = json.loads(await response.body())
        assert body["object"] == "chat.completion"
        assert body["choices"][0]["message"] == {"role": "assistant", "content": "Hello, world!"}
        assert body["choices"][0]["finish_reason"] == "stop"

    async def test_failure_after_the_first_byte_is_an_error_frame_and_no_finish(self, server: LiveServer) -> None:
        async with await chat(server.base_url, model="scripted-failing") as response:
            chunks = await response.chunks()
        assert [chunk["choices"][0]["delta"].get("content") for chunk in chunks[:-1]] == ["", "one ", "two "]
        assert set(chunks[-1]) == {"error"}
        assert set(chunks[-1]["error"]) == {"message", "type", "param", "code"}
        assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks[:-1])
        row = server.stream(wire_id(response))
        assert (row["state"], row["stop_reason"], row["text"]) == ("failed", "engine_error", "one two ")

    async def test_silence_is_filled_with_comments(self, server: LiveServer) -> None:
        async with await chat(server.base_url, model="scripted-late", max_tokens=1) as response:
            frames = [frame async for frame in response.frames()]
        assert frames.count(": keep-alive") >= 2
        assert frames.index(": keep-alive") == 1

    # The others are in tests/generation/views/test_completions.py.
    @pytest.mark.parametrize(
        "case", [case for case in REQUESTS if case["id"] not in NEED_A_TOKENIZER], ids=lambda case: case["id"]
    )
    async def test_request_gives_the_listed_status_and_param(self, server: LiveServer, case: dict) -> None:
        async with await send(server.base_url, "POST", "/v1/chat/completions", body=body_of(case)) as response:
            assert response.status == case["status"]
            body = await response.body()
        if case["status"] != 200:
            error = json.loads(body)["error"]
            assert set(error) == {"message", "type", "param", "code"}
            assert error["param"] == case["param"]

    @pytest.mark.parametrize(
        ("method", "path", "content_type", "status"),
        [
            ("GET", "/v1/chat/completions", "application/json", 405),
            ("HEAD", "/v1/chat/completions", "application/json", 405),
            ("POST", "/v1/chat/completions", "text/plain", 415),
            ("GET", "/v1/models/none", "application/json", 404),
            ("GET", "/v1/nothing", "application/json", 404),
        ],
    )
    async def test_wrong_call_gets_the_error_body(
        self, server: LiveServer, method: str, path: str, content_type: str, status: int
    ) -> None:
        headers = {"Content-Type": content_type}
        async with await send(server.base_url, method, path, body=b"{}", headers=headers) as response:
            assert response.status == status
            assert response.headers["content-type"] == "application/json"
            if method != "HEAD":
                assert set(json.loads(await response.body())["error"]) == {"message", "type", "param", "code"}

    async def test_oversized_body_is_refused(self, server: LiveServer) -> None:
        body = {"model": "default", "messages": [{"role": "user", "content": "x" * 3_000_000}]}
        async with await send(server.base_url, "POST", "/v1/chat/completions", body=body) as response:
            assert response.status == 413
            assert json.loads(await response.body())["error"]["code"] == "request_too_large"


class TestReaderGone:
    @contextlib.asynccontextmanager
    async def begun(self, server: LiveServer) -> AsyncIterator[RawResponse]:
        """A slow stream of which three deltas have arrived."""
        async with await chat(server.base_url, model="scripted-slow") as response:
            async with contextlib.aclosing(response.frames()) as frames:
                for _ in range(4):
                    await anext(frames)
            yield response

    def check(self, server: LiveServer, response: RawResponse, left_at: float) -> None:
        row = server.stream(wire_id(response), timeout_s=2)
        assert time.monotonic() - left_at < 1.5
        assert (row["state"], row["stop_reason"], row["ended_by"]) == ("stopped", "client_disconnect", "client")
        assert 3 <= row["completion_tokens"] < 100
        wait_until(
            lambda: server.stream(wire_id(response))["wasted_tokens"] is not None, what="the generation to have stopped"
        )
        assert server.stream(wire_id(response))["wasted_tokens"] <= 1
        assert server.get("/readyz")[1]["streams"] == 0

    async def test_generation_ends_within_one_step_when_the_connection_is_reset(self, server: LiveServer) -> None:
        async with self.begun(server) as response:
            left_at = time.monotonic()
            response.abort()
            await asyncio.to_thread(self.check, server, response, left_at)

    async def test_generation_ends_within_one_step_when_the_connection_is_closed(self, server: LiveServer) -> None:
        async with self.begun(server) as response:
            left_at = time.monotonic()
            response.writer.close()
            await asyncio.to_thread(self.check, server, response, left_at)

    async def test_generation_ends_within_one_step_when_the_client_half_closes(self, server: LiveServer) -> None:
        async with self.begun(server) as response:
            left_at = time.monotonic()
            response.writer.get_extra_info("socket").shutdown(socket.SHUT_WR)
            await asyncio.to_thread(self.check, server, response, left_at)

    async def test_whole_answer_is_cancelled_when_the_client_leaves(self, server: LiveServer) -> None:
        # Other tests leave rows on the same server; the recorded user tells this one.
        mine = uuid.uuid4().hex
        request = asyncio.ensure_future(chat(server.base_url, model="scripted-slow", stream=False, user=mine))

        def reasons() -> list[str | None]:
            sql = "SELECT stop_reason FROM generation_stream WHERE parameters LIKE ?"
            return [row["stop_reason"] for row in server.rows(sql, f"%{mine}%")]

        await asyncio.to_thread(wait_until, lambda: reasons() == [None], what="the stream to run")
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        await asyncio.to_thread(
            wait_until, lambda: reasons() == ["client_disconnect"], timeout_s=3, what="the stream to end"
        )


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_open_streams_get_a_last_frame_when_the_server_is_told_to_end(
    tmp_path: Path, name: ServerName, number: signal.Signals
) -> None:
    with live_server(tmp_path, server=name) as server:
        async with contextlib.AsyncExitStack() as stack:
            responses = [
                await stack.enter_async_context(await chat(server.base_url, model="scripted-slow")) for _ in range(3)
            ]
            await end_while_streaming(server, responses, number)


@pytest.mark.parametrize("name", SERVERS)
async def test_open_streams_get_a_last_frame_when_the_server_on_postgresql_is_told_to_end(
    tmp_path: Path, name: ServerName
) -> None:
    with new_database() as address, live_server(tmp_path, server=name, DATABASE_URL=address) as server:
        async with contextlib.AsyncExitStack() as stack:
            responses = [
                await stack.enter_async_context(await chat(server.base_url, model="scripted-slow")) for _ in range(3)
            ]
            await end_while_streaming(server, responses, signal.SIGTERM)


async def end_while_streaming(server: LiveServer, responses: list[RawResponse], number: signal.Signals) -> None:
    streams = [response.frames() for response in responses]
    for frames in streams:
        await anext(frames)
    told_at = time.monotonic()
    server.process.send_signal(number)
    for frames in streams:
        *_, error, done = [frame async for frame in frames]
        assert json.loads(error.removeprefix("data: "))["error"]["code"] == "server_shutdown"
        assert done == "data: [DONE]"
    assert await asyncio.to_thread(server.process.wait, 10) in {0, -number, 128 + number}
    assert time.monotonic() - told_at < 7
    for response in responses:
        row = server.stream(wire_id(response), timeout_s=0.5)
        assert (row["state"], row["stop_reason"], row["ended_by"]) == ("stopped", "server_shutdown", "server")


@pytest.mark.parametrize("name", SERVERS)
async def test_server_ends_at_once_when_a_request_body_never_comes(tmp_path: Path, name: ServerName) -> None:
    with live_server(tmp_path, server=name) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        with contextlib.closing(writer):
            head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode("ascii"))
            await writer.drain()
            assert (await asyncio.to_thread(server.get, "/healthz"))[0] == 200  # the request before it is being read
            told_at = time.monotonic()
            await asyncio.to_thread(server.terminate)
            assert time.monotonic() - told_at < 10  # and not the 30 s that a body may take


@pytest.mark.parametrize("name", SERVERS)
async def test_no_stream_stays_running_when_the_process_is_killed(tmp_path: Path, name: ServerName) -> None:
    with live_server(tmp_path, server=name) as server:
        seen = []
        async with await chat(server.base_url, model="scripted-slow") as response:
            async with contextlib.aclosing(response.frames()) as frames:
                async for frame in frames:
                    seen.append(json.loads(frame.removeprefix("data: "))["choices"][0]["delta"]["content"])
                    if len(seen) == 40:
                        break
            await asyncio.to_thread(server.terminate, signal.SIGKILL)
    with live_server(tmp_path, server=name) as server:
        row = await asyncio.to_thread(server.stream, wire_id(response), timeout_s=15)
    assert (row["state"], row["stop_reason"], row["ended_by"]) == ("lost", "lost", "server")
    # 20 ms a delta and a checkpoint every 250 ms: at most about 15 of 40 are not stored yet.
    assert "".join(seen).startswith(row["text"]) or row["text"].startswith("".join(seen))
    assert len(row["text"]) >= len("tick ") * 20
