"""Sixty payloads in every field that shows text, in a real Chromium: no script runs, and no request leaves the site.

Each page carries all of them at once. The policy would block what got into the markup, so its complaints fail too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Request, expect

from tests.browser.chat_page import ChatPage
from tests.browser.records import ALL, PAYLOADS
from tests.browser.stream_page import StreamPage, write_records
from tests.live_server import LiveServer

pytestmark = pytest.mark.browser

#: What a payload calls is counted, and so is whatever handler, element or address it got into the page.
WATCH = """
window.ran = 0;
for (const name of ["alert", "confirm", "prompt", "print"]) window[name] = () => { window.ran += 1; };
"""
PLANTED = """
() => Array.from(document.querySelectorAll("*"))
  .filter((e) => e.getAttributeNames().some((name) => name.startsWith("on")) || e.matches(
    "iframe, object, embed, base, meta[http-equiv], marquee, isindex, math, image, video, audio, " +
    "body script:not([src]):not([type='application/json']), [src*='evil'], [href*='evil' i]:not([href^='?']), " +
    "[href^='javascript' i], [action*='evil'], [srcset], [style*='evil']"))
  .map((e) => e.outerHTML.slice(0, 120))
"""


@dataclass(kw_only=True)
class Watched:
    """A page that is watched for anything a payload could do."""

    page: Page
    server: LiveServer
    outside: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def visit(self, path: str) -> None:
        self.page.goto(self.server.base_url + path, wait_until="networkidle")

    def assert_harmless(self) -> None:
        """Nothing ran, nothing was planted, nothing left, nothing had to be blocked."""
        assert self.page.evaluate("window.ran") == 0
        assert self.page.evaluate(PLANTED) == []
        assert self.outside == []
        assert self.complaints == []


@pytest.fixture(scope="session")
def hostile(server: LiveServer, records: dict[str, Any]) -> dict[str, Any]:
    rows: dict[str, Any] = write_records(server, "write_hostile")
    return rows


@pytest.fixture
def watched(page: Page, server: LiveServer, records: dict[str, Any], hostile: dict[str, Any]) -> Watched:
    watched = Watched(page=page, server=server)

    def note(request: Request) -> None:
        if not request.url.startswith((server.base_url, "data:", "blob:")):
            watched.outside.append(request.url)

    page.add_init_script(WATCH)
    page.on("request", note)
    page.on("dialog", lambda dialog: watched.complaints.append(f"dialog: {dialog.message}"))
    page.on("pageerror", lambda error: watched.complaints.append(str(error)))
    page.on("console", lambda line: watched.complaints.append(line.text) if "Security Policy" in line.text else None)
    StreamPage(page=page, server=server, ids=records).log_in()
    return watched


def test_there_are_sixty_payloads() -> None:
    assert len(PAYLOADS) == len(set(PAYLOADS)) == 60


def test_the_watch_notices_when_a_payload_gets_into_the_markup(watched: Watched, hostile: dict[str, Any]) -> None:
    watched.visit("/admin/")
    watched.page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", PAYLOADS[8])
    watched.page.wait_for_load_state("networkidle")
    assert watched.page.evaluate(PLANTED) == ['<img src="http://evil.example/beacon.gif">']
    assert "violates the following Content Security Policy" in watched.complaints[0]


def test_nothing_runs_when_a_streams_page_shows_every_payload(watched: Watched, hostile: dict[str, Any]) -> None:
    watched.visit(f"/admin/generation/stream/{hostile['everything']}/change/")
    expect(watched.page.locator("#delta-rows tr")).to_have_count(60)
    for tab in ["Text", "Frames", "Characters", "Tokens", "Request", "Events", "Rendered"]:
        watched.page.get_by_role("tab", name=tab).click()
        watched.page.wait_for_load_state("networkidle")
        watched.assert_harmless()
    expect(watched.page.locator("#answer .text")).to_have_text(ALL, use_inner_text=True)
    watched.page.get_by_role("button", name="Play", exact=True).click()
    expect(watched.page.locator("#answer .badge")).to_have_text("Complete", timeout=15_000)
    watched.page.get_by_label("Comment").fill(ALL[:4000])
    watched.page.get_by_role("button", name="Add review").click()
    expect(watched.page.locator("#review-list tbody tr")).to_have_count(61)
    watched.assert_harmless()


@pytest.mark.parametrize("number", [0, 12, 20, 45, 57])
def test_nothing_runs_when_short_fields_of_a_stream_hold_a_payload(
    number: int, watched: Watched, hostile: dict[str, Any]
) -> None:
    watched.visit(f"/admin/generation/stream/{hostile['rows'][number]}/change/")
    expect(watched.page.locator("dl.facts").nth(1)).to_contain_text(PAYLOADS[number][:64])
    watched.assert_harmless()


@pytest.mark.parametrize(
    "path",
    [
        "/admin/generation/stream/",
        "/admin/generation/conversation/",
        "/admin/generation/review/",
        "/admin/",
        *(f"/admin/generation/review/?label={quote(PAYLOADS[number])}" for number in (0, 12)),
        *(f"/admin/generation/stream/?model={quote(PAYLOADS[number])}" for number in (6, 45)),
        *(f"/admin/generation/stream/?q={quote(PAYLOADS[number])}" for number in (12, 20)),
    ],
    ids=lambda path: path.removeprefix("/admin/")[:40],
)
def test_nothing_runs_when_a_list_shows_payloads(path: str, watched: Watched) -> None:
    watched.visit(path)
    watched.assert_harmless()


def test_nothing_runs_when_a_conversations_record_shows_payloads(watched: Watched, hostile: dict[str, Any]) -> None:
    watched.visit(f"/admin/generation/conversation/{hostile['conversation']}/change/")
    watched.assert_harmless()


def test_nothing_runs_when_the_chat_shows_stored_payloads(watched: Watched, hostile: dict[str, Any]) -> None:
    watched.visit(f"/c/{hostile['conversation']}/")
    expect(watched.page.locator(".message-assistant .text")).to_have_text(ALL, use_inner_text=True)
    watched.page.locator(".message-assistant summary").click()
    watched.page.wait_for_load_state("networkidle")
    watched.assert_harmless()


def test_nothing_runs_when_the_chat_streams_payloads(watched: Watched) -> None:
    watched.visit("/")
    chat = ChatPage(page=watched.page, server=watched.server)
    chat.ask(ALL, model="echo")
    assert PAYLOADS[-1] in chat.answer_once_ended("Complete")
    chat.answer.locator("summary").click()
    watched.assert_harmless()
