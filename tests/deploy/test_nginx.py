"""Streams through a real nginx, with the site of deploy/ and with nginx's defaults, on real servers behind it."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live_server import LiveServer, live_server
from tests.nginx_server import SiteName, nginx
from tests.sse_client import RawResponse, chat, send

pytestmark = pytest.mark.servers

#: A third of the silence of the model `scripted-long-silent`; the servers send a keep-alive comment every 0.2 s.
READ_TIMEOUT = "1s"
GZIP = "gzip on; gzip_types *; gzip_proxied any; gzip_min_length 1; gzip_http_version 1.0;"
SITES: list[SiteName] = ["deploy", "plain"]


@dataclass(frozen=True, kw_only=True)
class Site:
    name: SiteName
    base_url: str
    server: LiveServer


@pytest.fixture(scope="module", params=SITES)
def site(
    request: pytest.FixtureRequest, server: LiveServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("nginx")
    with nginx(folder, server.port, site=request.param, read_timeout=READ_TIMEOUT) as base_url:
        yield Site(name=request.param, base_url=base_url, server=server)


def moments(arrived: list[float]) -> int:
    """At how many moments the frames came; what a busy machine delivers together counts as one."""
    return 1 + sum(later - earlier > 0.005 for earlier, later in itertools.pairwise(arrived))


async def check_paced(response: RawResponse) -> None:
    """20 deltas, one every 50 ms: a buffer would hand them on in one lump, or in a few."""
    async with response:
        chunks = await response.chunks()
    assert response.status == 200
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert [chunk["choices"][0]["delta"].get("content") for chunk in chunks] == ["", *["tick "] * 20, None]
    deltas = response.arrived[1:21]
    assert deltas[-1] - deltas[0] > 0.5
    assert moments(deltas) >= 10


async def test_deltas_arrive_one_by_one(site: Site) -> None:
    await check_paced(await chat(site.base_url, model="scripted-paced", max_tokens=20))


async def test_generation_ends_when_the_client_leaves(site: Site) -> None:
    async with await chat(site.base_url, model="scripted-paced") as response:
        async with contextlib.aclosing(response.frames()) as frames:
            for _ in range(4):
                await anext(frames)
        response.abort()
        row = await asyncio.to_thread(site.server.stream, response.headers["x-request-id"], timeout_s=5)
    assert (row["state"], row["stop_reason"], row["ended_by"]) == ("stopped", "client_disconnect", "client")
    assert 3 <= row["delta_count"] < 50


async def test_silent_prefill_outlives_the_read_time_out(site: Site) -> None:
    async with await chat(site.base_url, model="scripted-long-silent") as response:
        frames = [frame async for frame in response.frames()]
    assert frames.count(": keep-alive") >= 5
    assert json.loads(frames[-3].removeprefix("data: "))["choices"][0]["delta"] == {"content": "at last"}
    assert frames[-1] == "data: [DONE]"


async def test_read_time_out_ends_what_has_no_keep_alives(site: Site) -> None:
    # The counterpart of the test above: the time-out is in force.
    async with await chat(site.base_url, model="scripted-long-silent", stream=False) as response:
        body = await response.body()
    if site.name == "plain":
        assert response.status == 504
        return
    assert (response.status, response.headers["retry-after"]) == (504, "5")
    assert json.loads(body)["error"]["code"] == "backend_unavailable"


async def test_error_keeps_its_status_and_body(site: Site) -> None:
    async with await chat(site.base_url, model="none") as response:
        assert (response.status, response.headers["content-type"]) == (404, "application/json")
        assert json.loads(await response.body())["error"]["code"] == "model_not_found"


async def test_clients_do_not_choose_their_address(site: Site) -> None:
    if site.name == "plain" or site.server.server == "daphne":
        return  # they hand on what the client claims, or do not look at it
    for claimed, status in (("127.0.0.1", 200), ("8.8.8.8", 200)):
        async with await send(site.base_url, "GET", "/metrics", headers={"X-Forwarded-For": claimed}) as response:
            assert response.status == status
    async with await send(site.server.base_url, "GET", "/metrics", headers={"X-Forwarded-For": "8.8.8.8"}) as direct:
        assert direct.status == 403


async def test_oversized_body_is_told_in_the_apis_words(site: Site) -> None:
    async with await send(site.base_url, "POST", "/v1/chat/completions", body=b" " * 3_000_000) as response:
        assert response.status == 413
        if site.name == "deploy":
            error = json.loads(await response.body())["error"]
            assert set(error) == {"message", "type", "param", "code"}
            assert error["code"] == "request_too_large"


async def test_stream_is_no_whole_one_when_its_process_is_killed(tmp_path: Path) -> None:
    with live_server(tmp_path) as server, nginx(tmp_path / "nginx", server.port) as base_url:
        async with await chat(base_url, model="scripted-paced") as response:
            async with contextlib.aclosing(response.frames()) as frames:
                for _ in range(4):
                    await anext(frames)
            await asyncio.to_thread(server.terminate, signal.SIGKILL)
            async with asyncio.timeout(10):
                rest = await response.reader.read()
        assert b"[DONE]" not in rest
        assert not rest.endswith(b"0\r\n\r\n"), "the transfer coding says that this was all"
        async with await chat(base_url) as response:
            assert (response.status, response.headers["retry-after"]) == (502, "5")
            assert json.loads(await response.body())["error"]["code"] == "backend_unavailable"


@pytest.fixture(scope="module")
def compressing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """gzip on in nginx for every type, GZipMiddleware on in Django, and production's access rules."""
    folder = tmp_path_factory.mktemp("gzip")
    settings = "tests.deploy.gzip_settings"
    with (
        live_server(folder, settings=settings, STREAMSITE_DEBUG="0", STREAMSITE_KEEP_ALIVE_S="0.2") as server,
        nginx(folder / "nginx", server.port, site="plain", http=GZIP) as base_url,
    ):
        yield Site(name="plain", base_url=base_url, server=server)


class TestCompression:
    def headers(self, site: Site) -> dict[str, str]:
        return {"Accept-Encoding": "gzip", "Authorization": f"Bearer {site.server.api_key}"}

    async def test_streams_are_left_as_they_are(self, compressing: Site) -> None:
        body = {
            "model": "scripted-paced",
            "messages": [{"role": "user", "content": "hi"}],
            "max_tokens": 20,
            "stream": True,
        }
        response = await send(
            compressing.base_url, "POST", "/v1/chat/completions", body=body, headers=self.headers(compressing)
        )
        assert response.headers["content-encoding"] == "identity"
        await check_paced(response)

    async def test_whole_answers_are_compressed_once(self, compressing: Site) -> None:
        body = {"model": "default", "messages": [{"role": "user", "content": "hi"}]}
        async with await send(
            compressing.base_url, "POST", "/v1/chat/completions", body=body, headers=self.headers(compressing)
        ) as response:
            assert response.headers["content-encoding"] == "gzip"
            answer = json.loads(gzip.decompress(await response.body()))
        assert answer["choices"][0]["message"]["content"] == "Hello, world!"
