"""A real server and a real Chromium for the page's tests, with the back/forward cache on as people have it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.chat_page import ChatPage
from tests.browser.stream_page import StreamPage, write_records
from tests.live_server import LiveServer, live_server
from tests.toolchain import ensure_chromium


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    folder = tmp_path_factory.mktemp("browser")
    (folder / "model-is-loaded").touch()
    with live_server(folder, settings="tests.browser.settings") as running:
        yield running


@pytest.fixture(scope="session")
def base_url(server: LiveServer) -> str:
    """What paths are relative to. Also stands in for the plugin's own, which pytest 9.2 warns of."""
    return server.base_url


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    return {
        **browser_type_launch_args,
        "executable_path": ensure_chromium(),
        # Playwright turns the cache off, and with it the case where a page that was left goes on streaming.
        "ignore_default_args": ["--disable-back-forward-cache"],
    }


@pytest.fixture
def chat(page: Page, server: LiveServer) -> Iterator[ChatPage]:
    """The page, opened on an empty conversation; the test fails if the page raised or broke its security policy."""
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if "Security Policy" in message.text else None)
    chat = ChatPage(page=page, server=server)
    chat.open("/")
    yield chat
    assert faults == []


@pytest.fixture(scope="session")
def records(server: LiveServer) -> dict[str, Any]:
    """Streams and staff in the server's database."""
    ids: dict[str, Any] = write_records(server, "write")
    return ids


@pytest.fixture
def stream_page(page: Page, server: LiveServer, records: dict[str, Any]) -> Iterator[StreamPage]:
    """The stream page's browser, logged in as a superuser; raised errors and broken security policies fail the test."""
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if "Security Policy" in message.text else None)
    stream_page = StreamPage(page=page, server=server, ids=records)
    stream_page.log_in()
    yield stream_page
    assert faults == []
