"""Where the contract tests look for the API: the kinds of server, each started once a session.

A new kind is a context manager that takes an empty folder and yields an `ApiServer`, entered in `KINDS`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.live_server import LiveServer, ServerName, live_server, wait_until
from tests.nginx_server import nginx

#: Far below every time-out that a test sets, so that a silence is never taken for a death.
KEEP_ALIVE_S = "0.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """What a client is told (``base_url`` ends in ``/v1``), and the server whose records tell what became of it."""

    base_url: str
    api_key: str
    records: LiveServer
    #: What a whole answer gets when its model fails: 500 from the model's own server, 502 from one in front of it.
    failure_status: int = 500


def direct(name: ServerName) -> Callable[[Path], AbstractContextManager[ApiServer]]:
    """A server that clients reach with nothing between."""

    @contextlib.contextmanager
    def start(folder: Path) -> Iterator[ApiServer]:
        with live_server(folder, server=name, STREAMSITE_KEEP_ALIVE_S=KEEP_ALIVE_S) as server:
            yield ApiServer(base_url=f"{server.base_url}/v1", api_key=server.api_key, records=server)

    return start


@contextlib.contextmanager
def behind_another(folder: Path) -> Iterator[ApiServer]:
    """A server whose models are another server's; what the clients meet is the one in front."""
    (folder / "behind").mkdir()
    (folder / "front").mkdir()
    with (
        live_server(folder / "behind", STREAMSITE_KEEP_ALIVE_S=KEEP_ALIVE_S) as behind,
        live_server(
            folder / "front",
            settings="tests.upstream_settings",
            STREAMSITE_KEEP_ALIVE_S=KEEP_ALIVE_S,
            TEST_UPSTREAM_URL=f"{behind.base_url}/v1",
            TEST_UPSTREAM_KEY=behind.api_key,
        ) as front,
    ):
        wait_until(lambda: front.get("/readyz")[0] == 200, timeout_s=30, what="the upstream's models to be known")
        yield ApiServer(base_url=f"{front.base_url}/v1", api_key=front.api_key, failure_status=502, records=front)


@contextlib.contextmanager
def behind_nginx(folder: Path) -> Iterator[ApiServer]:
    """A server as it runs in production, behind the site of deploy/nginx.conf: nobody gets in without a key."""
    with (
        live_server(folder, STREAMSITE_DEBUG="0", STREAMSITE_KEEP_ALIVE_S=KEEP_ALIVE_S) as server,
        nginx(folder / "nginx", server.port) as base_url,
    ):
        yield ApiServer(base_url=f"{base_url}/v1", api_key=server.api_key, records=server)


KINDS: dict[str, Callable[[Path], AbstractContextManager[ApiServer]]] = {
    "uvicorn": direct("uvicorn"),
    "daphne": direct("daphne"),
    "upstream": behind_another,
    "nginx": behind_nginx,
}


@pytest.fixture(scope="session", params=list(KINDS))
def api_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One server of each kind, for all contract tests of a session."""
    with KINDS[request.param](tmp_path_factory.mktemp(f"api-{request.param}")) as started:
        yield started
