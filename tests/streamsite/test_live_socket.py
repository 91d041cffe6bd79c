"""The live page's websocket through real sockets: who gets in, what arrives how often, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.live_server import LiveServer, ServerName, live_server, wait_until
from tests.nginx_server import nginx
from tests.sse_client import RawResponse, chat, send
from tests.staff_sessions import staff_sessions

pytestmark = pytest.mark.servers

REDIS = os.environ.get("STREAMSITE_TEST_REDIS", "redis://127.0.0.1:6379/0")
SERVERS: list[ServerName] = ["uvicorn", "daphne"]


@pytest.fixture(scope="session")
def sessions(server: LiveServer) -> dict[str, str]:
    return staff_sessions(server)


@contextlib.asynccontextmanager
async def watching(server: LiveServer, session: str, *, origin: str | None = None) -> AsyncIterator[ClientConnection]:
    """An open live page of this session."""
    async with connect(
        f"ws://127.0.0.1:{server.port}/admin/generation/live/socket",
        origin=origin or server.base_url,
        additional_headers={"Cookie": f"sessionid={session}"},
    ) as socket:
        yield socket


async def state_when(socket: ClientConnection, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first state that fulfils a condition."""
    last: dict[str, Any] = {}
    async with asyncio.timeout(15):
        while not last or not condition(last):
            last = json.loads(await socket.recv())
    return last


def of(state: dict[str, Any], row: dict[str, Any]) -> dict[str, Any] | None:
    return next((stream for stream in state["streams"] if stream["id"] == row["id"]), None)


def row_of(server: LiveServer, response: RawResponse) -> dict[str, Any]:
    wire_id = response.headers["x-request-id"]
    return server.rows("SELECT id, model FROM generation_stream WHERE wire_id = ?", wire_id)[0]


async def stop(server: LiveServer, session: str, stream_id: int) -> int:
    headers = {
        "Cookie": f"sessionid={session}; csrftoken={'x' * 32}",
        "X-CSRFToken": "x" * 32,
        "Referer": f"{server.base_url}/admin/generation/live/",
    }
    path = f"/admin/generation/live/stop/{stream_id}/"
    async with await send(server.base_url, "POST", path, body=b"", headers=headers) as response:
        return response.status


class TestWhoGetsIn:
    @pytest.mark.parametrize("role", ["nobody", "reader"])
    async def test_handshake_is_refused_without_the_rights(
        self, server: LiveServer, sessions: dict[str, str], role: str
    ) -> None:
        with pytest.raises(InvalidStatus, match="403"):
            async with watching(server, sessions[role]):
                pass

    @pytest.mark.parametrize("session", ["", "no-such-session"])
    async def test_handshake_is_refused_without_a_session(self, server: LiveServer, session: str) -> None:
        with pytest.raises(InvalidStatus, match="403"):
            async with watching(server, session):
                pass

    @pytest.mark.parametrize(
        "origin",
        ["http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1:1", "http://127.0.0.1", "null"],
        ids=["host", "scheme", "port", "no port", "null"],
    )
    async def test_handshake_is_refused_when_any_part_of_the_origin_differs(
        self, server: LiveServer, sessions: dict[str, str], origin: str
    ) -> None:
        with pytest.raises(InvalidStatus, match="403"):
            async with watching(server, sessions["admin"], origin=origin.replace("{port}", str(server.port))):
                pass

    async def test_another_websocket_is_refused(self, server: LiveServer) -> None:
        with pytest.raises(InvalidStatus, match="403"):
            async with connect(f"ws://127.0.0.1:{server.port}/admin/", origin=server.base_url):
                pass


class TestWhatArrives:
    async def test_states_come_through_nginx(
        self, server: LiveServer, sessions: dict[str, str], tmp_path: Path
    ) -> None:
        with nginx(tmp_path, server.port) as base_url:
            url = base_url.replace("http", "ws") + "/admin/generation/live/socket"
            headers = {"Cookie": f"sessionid={sessions['viewer']}"}
            # nginx hands on the host without its port, as people have it in production.
            async with connect(url, origin="http://127.0.0.1", additional_headers=headers) as socket:
                assert json.loads(await socket.recv())["processes"] == 1

    async def test_a_running_stream_shows_with_the_end_of_its_text(
        self, server: LiveServer, sessions: dict[str, str]
    ) -> None:
        async with watching(server, sessions["admin"]) as socket:
            assert set(json.loads(await socket.recv())) >= {"running", "queued", "ttft", "gaps", "ends", "streams"}
            async with await chat(server.base_url, model="scripted-slow") as response:
                row = await asyncio.to_thread(row_of, server, response)
                state = await state_when(socket, lambda state: (of(state, row) or {}).get("deltas", 0) > 10)
                line = of(state, row)
                assert line is not None
                assert (line["model"], line["source"], line["state"]) == ("scripted-slow", "api", "streaming")
                assert line["tail"].endswith("tick tick tick ")
                assert state["running"] >= 1
                assert state["tokens_per_s"] > 0
                assert state["ttft"]["n"] >= 1
                assert 0 < state["gaps"]["p50_s"] < 0.5  # earlier tests' streams are counted as well
                response.abort()
            state = await state_when(socket, lambda state: of(state, row) is None)
            assert state["ends"]["client_disconnect"] >= 1

    async def test_text_is_left_out_when_the_viewer_may_not_see_it(
        self, server: LiveServer, sessions: dict[str, str]
    ) -> None:
        async with (
            await chat(server.base_url, model="scripted-slow") as response,
            watching(server, sessions["viewer"]) as socket,
        ):
            row = await asyncio.to_thread(row_of, server, response)
            state = await state_when(socket, lambda state: (of(state, row) or {}).get("deltas", 0) > 3)
            assert "tick" not in json.dumps(state["streams"])
            response.abort()

    async def test_at_most_two_states_a_second_arrive(self, server: LiveServer, sessions: dict[str, str]) -> None:
        async with (
            await chat(server.base_url, model="scripted-slow") as response,
            watching(server, sessions["admin"]) as socket,
        ):
            arrived = []
            for _ in range(5):
                await socket.recv()
                arrived.append(time.monotonic())
            # Four intervals of half a second; the margin is the clock's.
            assert arrived[-1] - arrived[0] > 1.9
            response.abort()

    async def test_viewing_of_text_is_logged_once_an_hour(self, server: LiveServer, sessions: dict[str, str]) -> None:
        for role in ("viewer", "admin", "admin"):
            async with watching(server, sessions[role]):
                pass
        entries = server.rows(
            "SELECT username, action_flag FROM django_admin_log JOIN auth_user ON user_id = auth_user.id"
            " WHERE change_message LIKE 'Watched%'"
        )
        assert entries == [{"username": "admin", "action_flag": 4}]

    async def test_socket_is_closed_when_the_page_talks(self, server: LiveServer, sessions: dict[str, str]) -> None:
        async with watching(server, sessions["admin"]) as socket:
            await socket.send("hello")
            with pytest.raises(ConnectionClosed) as closed:
                await state_when(socket, lambda state: False)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4400


class TestStop:
    async def test_stream_ends_with_an_error_for_its_reader(self, server: LiveServer, sessions: dict[str, str]) -> None:
        async with await chat(server.base_url, model="scripted-slow") as response:
            frames = response.frames()
            for _ in range(4):
                await anext(frames)
            row = await asyncio.to_thread(row_of, server, response)
            assert await stop(server, sessions["viewer"], row["id"]) == 403
            assert await stop(server, sessions["admin"], row["id"]) == 200
            *_, error, done = [frame async for frame in frames]
        assert json.loads(error.removeprefix("data: "))["error"]["code"] == "stopped_by_staff"
        assert done == "data: [DONE]"
        stored = await asyncio.to_thread(server.stream, response.headers["x-request-id"])
        assert (stored["state"], stored["stop_reason"], stored["ended_by"]) == ("stopped", "client_stop", "server")
        assert stored["error"] == "A member of staff stopped this answer."
        (entry,) = server.rows("SELECT * FROM django_admin_log WHERE object_id = ?", str(row["id"]))
        assert entry["change_message"] == "Stopped while it ran."
        assert await stop(server, sessions["admin"], row["id"]) == 404


@pytest.mark.parametrize("name", SERVERS)
async def test_page_is_told_to_come_back_when_the_server_ends(tmp_path: Path, name: ServerName) -> None:
    with live_server(tmp_path, server=name) as server:
        sessions = await asyncio.to_thread(staff_sessions, server)
        async with watching(server, sessions["admin"]) as socket:
            await socket.recv()
            told_at = time.monotonic()
            server.process.terminate()
            with pytest.raises(ConnectionClosed) as closed:
                await state_when(socket, lambda state: False)
            await asyncio.to_thread(server.process.wait, 10)
            assert time.monotonic() - told_at < 7
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4503
    assert "Traceback" not in server.log


@pytest.fixture
def two_processes(tmp_path: Path) -> Iterator[tuple[LiveServer, LiveServer]]:
    """Two servers of one database, joined by Redis: one of each kind."""
    with contextlib.ExitStack() as stack:
        yield tuple(
            stack.enter_context(live_server(tmp_path, server=name, REDIS_URL=REDIS, STREAMSITE_SECRET_KEY="one" * 20))
            for name in SERVERS
        )  # type: ignore[misc]


async def test_streams_of_both_processes_show_and_stop_when_redis_joins_them(
    two_processes: tuple[LiveServer, LiveServer],
) -> None:
    here, there = two_processes
    sessions = await asyncio.to_thread(staff_sessions, here)
    async with (
        watching(here, sessions["admin"]) as socket,
        await chat(here.base_url, model="scripted-slow") as one,
        await chat(there.base_url, model="scripted-slow") as other,
    ):
        rows = [await asyncio.to_thread(row_of, here, response) for response in (one, other)]
        state = await state_when(socket, lambda state: all((of(state, row) or {}).get("deltas", 0) > 3 for row in rows))
        assert (state["processes"], state["running"]) == (2, 2)
        assert all("tick" in of(state, row)["tail"] for row in rows)  # type: ignore[index]
        assert await stop(here, sessions["admin"], rows[1]["id"]) == 202
        state = await state_when(socket, lambda state: of(state, rows[1]) is None)
        assert of(state, rows[0]) is not None
        assert state["ends"] == {"client_stop": 1}
        stored = await asyncio.to_thread(here.stream, other.headers["x-request-id"])
        assert (stored["stop_reason"], stored["ended_by"]) == ("client_stop", "server")
        # A process that goes is forgotten.
        await asyncio.to_thread(there.terminate)
        assert "Traceback" not in there.log
        await state_when(socket, lambda state: state["processes"] == 1 and of(state, rows[0]) is not None)
        one.abort()


async def test_own_streams_show_without_redis_until_the_rights_are_gone(tmp_path: Path) -> None:
    settings = "tests.streamsite.impatient_settings"
    with live_server(tmp_path, settings=settings, REDIS_URL="redis://127.0.0.1:9/0") as server:
        sessions = await asyncio.to_thread(staff_sessions, server)
        async with (
            watching(server, sessions["admin"]) as socket,
            watching(server, sessions["viewer"]) as other,
            await chat(server.base_url, model="scripted-slow") as response,
        ):
            row = await asyncio.to_thread(row_of, server, response)
            await state_when(socket, lambda state: (of(state, row) or {}).get("deltas", 0) > 3)
            assert await stop(server, sessions["admin"], row["id"]) == 200
            await state_when(socket, lambda state: of(state, row) is None)
            server.execute("DELETE FROM django_session WHERE session_key = ?", sessions["viewer"])
            with pytest.raises(ConnectionClosed) as closed:
                await state_when(other, lambda state: False)
            await state_when(socket, lambda state: True)
        await asyncio.to_thread(wait_until, lambda: "The channel layer" in server.log, what="the warning")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4403
