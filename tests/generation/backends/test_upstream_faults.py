"""A whole site in front of a whole site, with a proxy between them that spoils the streams: every end has its name.

Both are real servers with databases of their own; what the client gets, what the front records, and what is left over
are looked at from outside.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.fault_proxy import Fault, FaultProxy, Position
from tests.live_server import LiveServer, free_port, live_server, wait_until
from tests.sse_client import chat, send

pytestmark = pytest.mark.servers

#: What silence may last for the alias that is asked for where silence is the fault.
HASTY_S = 1.5
TEXT_BEFORE = {Position.FIRST: "", Position.MIDDLE: "Hello, ", Position.LAST: "Hello, world!"}
ENDS = {
    Fault.HANG: ("upstream_error", "upstream_timeout"),
    Fault.RESET: ("upstream_error", "upstream_broken"),
    Fault.END: ("upstream_truncated", "upstream_truncated"),
    Fault.MALFORMED_JSON: ("upstream_error", "upstream_malformed"),
    Fault.BAD_UTF8: ("upstream_error", "upstream_malformed"),
    Fault.GIANT_LINE: ("upstream_error", "upstream_too_large"),
    Fault.ERROR: ("upstream_error", "upstream_error"),
    Fault.DRIP: ("upstream_error", "upstream_timeout"),
}
SILENT = (Fault.HANG, Fault.DRIP)
HEAD_ENDS = {
    Fault.REDIRECT: ("upstream_error", "upstream_redirect"),
    Fault.COMPRESSED: ("upstream_error", "upstream_compressed"),
}


@pytest.fixture(scope="module")
def behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with live_server(tmp_path_factory.mktemp("behind"), STREAMSITE_KEEP_ALIVE_S="0.2") as server:
        yield server


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LiveServer, int]]:
    """A site whose upstream is a port on which a test may put a proxy."""
    port = free_port()
    with live_server(
        tmp_path_factory.mktemp("front"),
        settings="tests.upstream_settings",
        TEST_UPSTREAM_URL=f"http://127.0.0.1:{port}/v1",
        TEST_UPSTREAM_MODELS="scripted scripted-slow",
    ) as server:
        yield server, port


@pytest_asyncio.fixture
async def proxy(front: tuple[LiveServer, int], behind: LiveServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(front[1], behind.port) as started:
        yield started


async def told(server: LiveServer, **fields: Any) -> list[dict[str, Any]]:
    """All chunks of an answer, the error included; `[DONE]` must follow."""
    async with await chat(server.base_url, **fields) as response:
        assert response.status == 200
        return await response.chunks()


async def ended(server: LiveServer, wire_id: str) -> dict[str, Any]:
    """The row of an ended stream; the proxy, which lives on this loop, works on meanwhile."""
    return await asyncio.to_thread(server.stream, wire_id)


async def refused(server: LiveServer, **fields: Any) -> tuple[int, str | None, str | None]:
    """Status, code and field of an answer that never began."""
    async with await chat(server.base_url, **fields) as response:
        error = json.loads(await response.body())["error"]
        return response.status, error["code"], error["param"]


def running(server: LiveServer) -> list[dict[str, Any]]:
    return server.rows("SELECT id FROM generation_stream WHERE state = 'running'")


def newest(server: LiveServer) -> str:
    """The id of the latest stream."""
    return str(server.rows("SELECT wire_id FROM generation_stream ORDER BY id DESC LIMIT 1")[0]["wire_id"])


def model_for(fault: Fault) -> str:
    return "hasty" if fault in SILENT else "default"


def text_of(chunks: list[dict[str, Any]]) -> str:
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if chunk.get("choices"))


async def test_answer_is_that_of_the_upstream_when_nothing_is_spoilt(
    front: tuple[LiveServer, int], proxy: FaultProxy, behind: LiveServer
) -> None:
    chunks = await told(front[0], stream_options={"include_usage": True})
    assert text_of(chunks) == "Hello, world!"
    assert chunks[-1]["usage"]["completion_tokens"] == 4
    row = await ended(front[0], chunks[0]["id"])
    assert (row["stop_reason"], row["state"], row["backend"]) == ("eos", "done", "default")
    assert (row["prompt_tokens"], row["completion_tokens"], row["token_ids"]) == (9, 4, None)
    assert 0 < row["ttft_model_s"] <= row["ttft_visible_s"]
    # The same answer in both records.
    assert (await ended(behind, row["upstream_id"]))["text"] == row["text"]


@pytest.mark.parametrize("position", Position)
@pytest.mark.parametrize("fault", ENDS)
async def test_end_is_named_and_told_and_recorded_when(
    fault: Fault, position: Position, front: tuple[LiveServer, int], proxy: FaultProxy
) -> None:
    proxy.fault, proxy.position = fault, position
    stop_reason, code = ENDS[fault]
    *chunks, last = await told(front[0], model=model_for(fault))
    assert text_of(chunks) == TEXT_BEFORE[position]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * len(chunks)
    assert (last["error"]["code"], last["error"]["type"]) == (code, "server_error")
    row = await ended(front[0], chunks[0]["id"])
    assert (row["state"], row["stop_reason"], row["ended_by"]) == ("failed", stop_reason, "upstream")
    assert (row["text"], row["error"]) == (TEXT_BEFORE[position], last["error"]["message"])
    assert (row["finish_reason"], row["completion_tokens"]) == (None, None)
    if fault in SILENT:
        assert HASTY_S * 0.9 < row["total_s"] < HASTY_S * 3


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("fault", HEAD_ENDS)
async def test_status_tells_it_when_the_answers_head_is_spoilt(
    fault: Fault, stream: bool, front: tuple[LiveServer, int], proxy: FaultProxy
) -> None:
    proxy.fault = fault
    assert await refused(front[0], stream=stream) == (502, HEAD_ENDS[fault][1], None)
    row = await ended(front[0], newest(front[0]))
    assert (row["stop_reason"], row["text"]) == (HEAD_ENDS[fault][0], "")


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_status_tells_it_when_nobody_listens(stream: bool, front: tuple[LiveServer, int]) -> None:
    assert await refused(front[0], stream=stream) == (502, "upstream_unreachable", None)
    assert (await ended(front[0], newest(front[0])))["stop_reason"] == "upstream_error"


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_field_is_named_when_the_upstream_refuses_it(
    stream: bool, n: int, front: tuple[LiveServer, int], proxy: FaultProxy
) -> None:
    status, _, param = await refused(front[0], stream=stream, n=n, temperature=0.5)
    assert (status, param) == (400, "temperature")
    await asyncio.to_thread(wait_until, lambda: not running(front[0]), what="all of the request's streams to end")


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.END, Fault.ERROR, Fault.REDIRECT])
async def test_status_tells_it_when_the_answer_was_asked_for_whole(
    fault: Fault, front: tuple[LiveServer, int], proxy: FaultProxy
) -> None:
    proxy.fault, proxy.position = fault, Position.MIDDLE
    async with await chat(front[0].base_url, model=model_for(fault), stream=False) as response:
        assert response.status == 502
        assert b'"error"' in await response.body()


async def test_upstreams_generation_ends_when_the_client_leaves(
    front: tuple[LiveServer, int], proxy: FaultProxy, behind: LiveServer
) -> None:
    async with await chat(front[0].base_url, model="scripted-slow") as response:
        frames = response.frames()
        for _ in range(4):
            first = await anext(frames)
        response.abort()
        await frames.aclose()
    assert first
    ours = await ended(front[0], newest(front[0]))
    assert (ours["stop_reason"], ours["completion_tokens"]) == ("client_disconnect", None)
    theirs = await ended(behind, ours["upstream_id"])
    assert theirs["stop_reason"] == "client_disconnect"
    assert theirs["abort_latency_s"] < 0.5
    # Two processes and a proxy away, generation went on for a moment only (it makes 50 pieces a second).
    assert len(theirs["text"]) - len(ours["text"]) < 20 * len("tick ")


async def test_site_serves_and_says_so_when_its_upstream_is_back(
    front: tuple[LiveServer, int], proxy: FaultProxy
) -> None:
    await asyncio.to_thread(wait_until, lambda: front[0].get("/readyz")[0] == 200, what="the front to be ready again")
    async with await send(front[0].base_url, "GET", "/v1/models") as response:
        assert b'"scripted-slow"' in await response.body()


async def test_nothing_is_left_over_when_many_streams_have_failed(
    front: tuple[LiveServer, int], proxy: FaultProxy
) -> None:
    await told(front[0])
    before = descriptors(front[0])
    for fault in ENDS:
        for position in [Position.MIDDLE] if fault in SILENT else Position:
            proxy.fault, proxy.position = fault, position
            await told(front[0], model=model_for(fault))
    for proxy.fault in HEAD_ENDS:
        await refused(front[0])
    # Those that idle for 2 s at most, and the database's.
    await asyncio.to_thread(wait_until, lambda: descriptors(front[0]) <= before + 2, what="sockets to be closed")
    assert front[0].get("/readyz")[1]["streams"] == 0


def descriptors(server: LiveServer) -> int:
    return len(os.listdir(Path("/proc") / str(server.process.pid) / "fd"))
