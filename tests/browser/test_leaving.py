"""Stop, and the ways to leave a page: each ends the generation within one step, and the record says why."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.browser.chat_page import ChatPage, conversation_id, record_of

pytestmark = pytest.mark.browser


def forbid_caching(chat: ChatPage) -> None:
    """Keep the page out of Chromium's back/forward cache, as a crowded memory does."""

    def serve(route: Route) -> None:
        response = route.fetch()
        route.fulfill(response=response, headers={**response.headers, "cache-control": "no-store"})

    chat.page.route(lambda url: url == chat.server.base_url + "/", serve)
    chat.page.reload()


def assert_stopped_within_one_step(record: dict[str, Any]) -> None:
    """The 40-second answer ended at once: no more than the piece that was under way was made for nobody."""
    assert record["state"] == "stopped"
    assert record["wasted_tokens"] in (0, 1)
    assert record["abort_latency_s"] < 1
    assert record["total_s"] < 20


class TestStop:
    @pytest.mark.parametrize("how", ["button", "escape", "keyboard"])
    def test_generation_ends_when_the_reader_stops(self, chat: ChatPage, how: str) -> None:
        chat.ask_slow()
        if how == "button":
            chat.stop_button.click()
        elif how == "escape":
            chat.page.keyboard.press("Escape")
        else:
            chat.stop_button.focus()
            chat.page.keyboard.press("Enter")
        shown = chat.answer_once_ended("Stopped")
        expect(chat.send_button).to_be_visible()
        record = chat.record()
        assert record["stop_reason"] == "client_stop"
        assert record["ended_by"] == "user"
        assert_stopped_within_one_step(record)
        assert record["text"].startswith(shown)

    def test_record_says_what_was_seen_when_the_reader_stops(self, chat: ChatPage) -> None:
        chat.ask_slow()
        chat.stop_button.click()
        shown = chat.answer_once_ended("Stopped")
        assert chat.record()["seen_chars"] == len(shown)

    def test_no_text_is_added_when_it_was_stopped(self, chat: ChatPage) -> None:
        chat.ask_slow()
        chat.page.keyboard.press("Escape")
        shown = chat.answer_once_ended("Stopped")
        chat.record()
        expect(chat.answer_text).to_have_text(shown)

    def test_conversation_goes_on_when_an_answer_was_stopped(self, chat: ChatPage) -> None:
        chat.ask_slow()
        chat.page.keyboard.press("Escape")
        chat.answer_once_ended("Stopped")
        chat.ask("And now?", model="greeter")
        assert chat.answer_once_ended("Complete") == "Hello, world!"
        expect(chat.page.locator(".badge")).to_have_text(["Stopped", "Complete"])
        chat.page.reload()
        expect(chat.page.locator(".badge")).to_have_text(["Stopped", "Complete"])


class TestLeaving:
    @pytest.mark.parametrize("asks_page_first", [True, False], ids=["closed by hand", "killed"])
    def test_generation_ends_when_the_tab_is_closed(self, chat: ChatPage, asks_page_first: bool) -> None:
        chat.ask_slow()
        conversation = conversation_id(chat.page.url)
        # Another tab keeps the browser's other connections alive.
        chat.page.context.new_page()
        chat.page.close(run_before_unload=asks_page_first)
        record = record_of(chat.server, conversation)
        assert record["stop_reason"] == "client_disconnect"
        assert record["ended_by"] == "client"
        assert_stopped_within_one_step(record)

    def test_generation_ends_when_a_link_is_followed(self, chat: ChatPage) -> None:
        chat.ask_slow()
        conversation = conversation_id(chat.page.url)
        chat.page.get_by_role("link", name="New conversation").first.click()
        expect(chat.page.locator("#welcome")).to_be_visible()
        record = record_of(chat.server, conversation)
        assert record["stop_reason"] == "client_disconnect"
        assert_stopped_within_one_step(record)

    @pytest.mark.parametrize("cached", [True, False], ids=["kept by the browser", "loaded again"])
    def test_answer_is_shown_as_stopped_when_the_reader_comes_back(self, chat: ChatPage, cached: bool) -> None:
        if not cached:
            forbid_caching(chat)
        chat.page.evaluate("addEventListener('pageshow', (event) => { window.restored = event.persisted; })")
        chat.ask_slow()
        url = chat.page.url
        chat.page.get_by_role("link", name="New conversation").first.click()
        expect(chat.page.locator("#welcome")).to_be_visible()
        record = record_of(chat.server, conversation_id(url))
        assert record["stop_reason"] == "client_disconnect"
        assert_stopped_within_one_step(record)
        chat.page.evaluate("setTimeout(() => history.back(), 0)")
        expect(chat.page).to_have_url(url)
        shown = chat.answer_once_ended("Stopped")
        assert chat.page.evaluate("window.restored ?? false") is cached
        assert "tick tick tick" in shown
        assert record["text"].startswith(shown)
        chat.ask("And now?", model="greeter")
        assert chat.answer_once_ended("Complete") == "Hello, world!"

    def test_answer_is_shown_as_stopped_when_the_page_is_reloaded(self, chat: ChatPage) -> None:
        chat.ask_slow()
        chat.page.reload()
        shown = chat.answer_once_ended("Stopped")
        record = chat.record()
        assert record["stop_reason"] == "client_disconnect"
        assert_stopped_within_one_step(record)
        assert record["text"].startswith(shown)

    def test_nothing_ends_when_the_tab_is_only_hidden(self, chat: ChatPage) -> None:
        chat.ask_slow()
        other = chat.page.context.new_page()
        other.bring_to_front()
        before = len(chat.answer_text.text_content() or "")
        chat.page.bring_to_front()
        chat.page.wait_for_function(
            "(n) => document.querySelector('.message-assistant .text').textContent.length > n", arg=before + 20
        )
        expect(chat.badge).to_have_text("Answering")
        chat.stop_button.click()
