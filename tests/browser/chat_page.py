"""The chat page as a person sees it: what can be done on it, and what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.live_server import LiveServer, wait_until


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatPage:
    """One open page and the server behind it."""

    page: Page
    server: LiveServer

    def open(self, path: str) -> None:
        self.page.goto(self.server.base_url + path)

    @property
    def prompt(self) -> Locator:
        return self.page.get_by_label("Message", exact=True)

    @property
    def send_button(self) -> Locator:
        return self.page.get_by_role("button", name="Send")

    @property
    def stop_button(self) -> Locator:
        return self.page.get_by_role("button", name="Stop")

    @property
    def answer(self) -> Locator:
        """The last answer."""
        return self.page.locator(".message-assistant").last

    @property
    def answer_text(self) -> Locator:
        return self.answer.locator(".text")

    @property
    def badge(self) -> Locator:
        return self.answer.locator(".badge")

    def choose_model(self, model: str) -> None:
        self.page.get_by_label("Model", exact=True).select_option(model)

    def ask(self, content: str, *, model: str | None = None) -> None:
        if model is not None:
            self.choose_model(model)
        self.prompt.fill(content)
        self.prompt.press("Enter")

    def ask_slow(self) -> None:
        """Ask for an answer that takes 40 s, and wait until its text grows."""
        self.ask("Count.", model="scripted-slow")
        expect(self.answer_text).to_contain_text("tick tick tick")

    def answer_once_ended(self, badge: str) -> str:
        expect(self.badge).to_have_text(badge)
        return self.answer_text.text_content() or ""

    def record(self) -> dict[str, Any]:
        """The row of the newest stream of this browser, once it has ended."""
        return record_of(self.server, conversation_id(self.page.url))


def conversation_id(url: str) -> str:
    """The conversation that an address names, as its row has it."""
    return url.rstrip("/").rsplit("/", 1)[-1].replace("-", "")


def record_of(server: LiveServer, conversation: str) -> dict[str, Any]:
    """The row of a conversation's newest stream, once it has ended."""
    sql = "SELECT * FROM generation_stream WHERE conversation_id = ? ORDER BY id DESC LIMIT 1"
    rows: list[dict[str, Any]] = []

    def ended() -> bool:
        rows[:] = server.rows(sql, conversation)
        return bool(rows) and rows[0]["state"] != "running"

    wait_until(ended, what="the stream to end")
    return rows[0]
