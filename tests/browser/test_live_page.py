"""The live page in Chromium: streams appear, their text grows, Stop ends them, and a restart is survived."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.staff_page import staff_page
from tests.browser.test_access import CONTRAST, UNNAMED
from tests.live_server import LiveServer, free_port, live_server, wait_until
from tests.staff_sessions import staff_sessions

pytestmark = pytest.mark.browser

LIVE = "/admin/generation/live/"
HOSTILE = "<img src=x onerror=alert(1)> "


@pytest.fixture(scope="module")
def sessions(server: LiveServer) -> dict[str, str]:
    return staff_sessions(server)


@pytest.fixture
def live(context: BrowserContext, server: LiveServer, sessions: dict[str, str]) -> Iterator[Page]:
    with staff_page(context, server, sessions["admin"]) as page:
        page.goto(server.base_url + LIVE)
        yield page


class Asking:
    """One question over the API, whose answer is read in the background until it ends or `end` is called."""

    def __init__(self, server: LiveServer, *, model: str, content: str = "Hi") -> None:
        body = {"model": model, "stream": True, "messages": [{"role": "user", "content": content}]}
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        self._response = self._connection.getresponse()
        self.wire_id = str(self._response.headers["X-Request-Id"])
        self.received = b""
        self._thread = threading.Thread(target=self._read)
        self._thread.start()
        (row,) = server.rows("SELECT id FROM generation_stream WHERE wire_id = ?", self.wire_id)
        self.id = int(row["id"])

    def _read(self) -> None:
        with contextlib.suppress(OSError, http.client.HTTPException):
            while piece := self._response.read1():
                self.received += piece

    def wait(self) -> None:
        """Wait for the end of the answer."""
        self._thread.join(15)
        assert not self._thread.is_alive()

    def leave(self) -> None:
        """Leave, if the answer has not ended."""
        if self._connection.sock is not None:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self.wait()
        self._connection.close()


@pytest.fixture
def ask(server: LiveServer) -> Iterator[Callable[..., Asking]]:
    asked: list[Asking] = []

    def ask(**question: str) -> Asking:
        asked.append(Asking(server, **question))
        return asked[-1]

    yield ask
    for each in asked:
        each.leave()


def row_of(page: Page, asking: Asking) -> Locator:
    return page.locator(f"tr[data-stream='{asking.id}']")


def test_stream_appears_grows_and_is_stopped_with_the_keyboard(
    live: Page, server: LiveServer, ask: Callable[..., Asking]
) -> None:
    expect(live.get_by_role("status").first).to_have_text("Connected")
    asking = ask(model="scripted-slow")
    row = row_of(live, asking)
    expect(row).to_contain_text("tick tick tick")
    expect(row).to_contain_text("streaming")
    deltas = row.locator("td.number").nth(1)
    before = int(deltas.text_content() or "0")
    live.wait_for_function(
        "([id, n]) => Number(document.querySelectorAll(`tr[data-stream='${id}'] td.number`)[1].textContent) > n",
        arg=[asking.id, before + 20],
    )
    assert row.get_by_role("link", name=str(asking.id)).get_attribute("href") == (
        f"/admin/generation/stream/{asking.id}/change/"
    )
    # The button keeps the focus although its row is written twice a second.
    stop = live.get_by_role("button", name=f"Stop stream {asking.id}")
    stop.focus()
    expect(live.locator("#connection")).to_have_attribute("data-state", "open")
    expect(stop).to_be_focused()
    live.keyboard.press("Enter")
    expect(row).to_have_count(0)
    asking.wait()
    assert b"stopped_by_staff" in asking.received
    stored = server.stream(asking.wire_id)
    assert (stored["stop_reason"], stored["ended_by"]) == ("client_stop", "server")
    expect(live.locator("ul.ends")).to_contain_text("client stop")


def test_figures_of_the_last_minutes_are_shown(live: Page, ask: Callable[..., Asking]) -> None:
    ask(model="greeter").wait()
    ttft = live.locator("[data-part=ttft] td")
    expect(ttft.first).to_contain_text("ms")
    expect(ttft.last).not_to_have_text("0")
    expect(live.locator("[data-part=processes]")).to_have_text("1 process")
    expect(live.locator("ul.ends")).to_contain_text("eos")


def test_focus_stays_on_a_cause_when_it_overtakes_another(live: Page, ask: Callable[..., Asking]) -> None:
    for model in ("greeter", "greeter", "scripted-failing"):
        ask(model=model).wait()
    cause = live.get_by_role("link", name="engine error", exact=True)
    cause.focus()
    first = live.locator("[data-part='ends'] a").first
    times = live.locator("[data-part='ends'] li").filter(has=cause).locator(".number")
    while first.text_content() != "engine error":
        before = times.text_content() or ""
        ask(model="scripted-failing").wait()
        expect(times).not_to_have_text(before)
    expect(cause).to_be_focused()


def test_hostile_text_stays_text(live: Page, ask: Callable[..., Asking]) -> None:
    asking = ask(model="echo-slow", content=HOSTILE * 40)
    expect(row_of(live, asking).locator(".tail")).to_contain_text("<img src=x onerror=alert(1)>")
    assert live.locator("table.running img").count() == 0


def test_viewer_sees_neither_text_nor_stop_without_the_permissions(
    context: BrowserContext, server: LiveServer, sessions: dict[str, str], ask: Callable[..., Asking]
) -> None:
    with staff_page(context, server, sessions["viewer"]) as page:
        page.goto(server.base_url + LIVE)
        row = row_of(page, ask(model="scripted-slow"))
        expect(row).to_contain_text("streaming")
        expect(row).not_to_contain_text("tick")
        expect(page.get_by_role("button", name="Stop")).to_have_count(0)


def test_page_is_live_again_when_the_viewer_comes_back(
    live: Page, server: LiveServer, ask: Callable[..., Asking]
) -> None:
    connection = live.locator("#connection")
    expect(connection).to_have_attribute("data-state", "open")
    live.goto(server.base_url + "/admin/generation/trends/")
    live.evaluate("setTimeout(() => history.back(), 0)")
    expect(live).to_have_url(server.base_url + LIVE)
    expect(connection).to_have_attribute("data-state", "open")
    # The admin forbids caching, so Chromium loads the page again; others keep it and send these events.
    live.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    asking = ask(model="scripted-slow")
    live.wait_for_timeout(700)  # longer than it takes a state to come
    expect(row_of(live, asking)).to_have_count(0)
    live.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    expect(row_of(live, asking)).to_contain_text("tick")


def test_page_comes_back_when_the_server_was_restarted(context: BrowserContext, tmp_path: Path) -> None:
    port = free_port()
    with contextlib.ExitStack() as stack:
        with live_server(tmp_path, port=port, STREAMSITE_SECRET_KEY="one" * 20) as server:
            session = staff_sessions(server)["admin"]
            page = stack.enter_context(staff_page(context, server, session))
            page.goto(server.base_url + LIVE)
            connection = page.locator("#connection")
            expect(connection).to_have_attribute("data-state", "open")
        expect(connection).to_contain_text("Trying again")
        expect(page.locator("#content-main")).to_have_class("live stale")
        with live_server(tmp_path, port=port, STREAMSITE_SECRET_KEY="one" * 20):
            expect(connection).to_have_attribute("data-state", "open", timeout=30_000)
            expect(page.locator("#content-main")).to_have_class("live")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_readable_by_everyone(live: Page, ask: Callable[..., Asking], scheme: str) -> None:
    live.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    live.set_viewport_size({"width": 360, "height": 740})
    expect(row_of(live, ask(model="scripted-slow"))).to_contain_text("tick")
    assert live.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert live.evaluate(UNNAMED) == []
    live.locator("#header").evaluate("header => header.remove()")  # the stock admin's, in large letters
    assert live.evaluate(CONTRAST) == []


def test_wait_is_over_when_nothing_runs(live: Page, server: LiveServer) -> None:
    wait_until(lambda: server.get("/readyz")[1]["streams"] == 0, what="the streams of other tests to end")
    expect(live.get_by_text("No stream runs.")).to_be_visible()
