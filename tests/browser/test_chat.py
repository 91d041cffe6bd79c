"""Asking and reading: the answer grows as text, ends with a badge, and stays where its URL says."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage

pytestmark = pytest.mark.browser

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script><b>b</b> & [a](javascript:alert(1))'


class TestAsking:
    def test_answer_is_whole_when_enter_sends(self, chat: ChatPage) -> None:
        chat.ask("Hi")
        assert chat.answer_once_ended("Complete") == "Hello, world!"
        expect(chat.prompt).to_have_value("")
        assert chat.record()["stop_reason"] == "eos"

    def test_text_grows_when_the_model_is_slow(self, chat: ChatPage) -> None:
        chat.ask_slow()
        before = len(chat.answer_text.text_content() or "")
        expect(chat.answer_text).to_have_text(re.compile(f"^.{{{before + 20},}}$"))
        expect(chat.badge).to_have_text("Answering")
        chat.stop_button.click()

    def test_line_breaks_when_shift_enter_is_pressed(self, chat: ChatPage) -> None:
        chat.prompt.press_sequentially("one")
        chat.prompt.press("Shift+Enter")
        chat.prompt.press_sequentially("two")
        expect(chat.prompt).to_have_value("one\ntwo")
        expect(chat.answer).to_have_count(0)

    @pytest.mark.parametrize("init", [{"isComposing": True}, {"keyCode": 229}], ids=["composing", "safari"])
    def test_nothing_is_sent_when_enter_ends_a_composition(self, chat: ChatPage, init: dict[str, object]) -> None:
        chat.prompt.fill("にほんご")
        chat.prompt.dispatch_event("keydown", {"key": "Enter", **init})
        expect(chat.prompt).to_have_value("にほんご")
        expect(chat.answer).to_have_count(0)

    def test_button_is_off_when_there_is_nothing_to_send(self, chat: ChatPage) -> None:
        expect(chat.send_button).to_be_disabled()
        chat.prompt.fill("  \n ")
        expect(chat.send_button).to_be_disabled()
        chat.prompt.press("Enter")
        expect(chat.answer).to_have_count(0)

    def test_example_is_asked_when_it_is_clicked(self, chat: ChatPage) -> None:
        prompt = chat.page.locator("[data-prompt]").nth(1).get_attribute("data-prompt") or ""
        assert "नमस्ते" in prompt
        chat.page.locator("[data-prompt]").nth(1).click()
        chat.answer_once_ended("Complete")
        expect(chat.prompt).to_be_focused()
        expect(chat.page.locator(".message-user .text")).to_have_text(prompt)

    def test_draft_can_be_written_when_an_answer_grows(self, chat: ChatPage) -> None:
        chat.ask_slow()
        chat.prompt.fill("Next question")
        chat.prompt.press("Enter")
        expect(chat.page.locator(".message-user")).to_have_count(1)
        chat.stop_button.click()
        expect(chat.prompt).to_have_value("Next question")

    def test_settings_reach_the_model_when_they_are_set(self, chat: ChatPage) -> None:
        chat.page.get_by_role("button", name="Settings").click()
        chat.page.get_by_label("Max tokens").fill("3")
        chat.ask("Hi")
        assert chat.answer_once_ended("Length limit") == "Hello, world"
        chat.page.get_by_label("Max tokens").fill("")
        chat.page.get_by_label("Stop strings").fill("wor")
        chat.ask("Hi")
        assert chat.answer_once_ended("Complete") == "Hello, "
        assert chat.record()["stop_string"] == "wor"

    def test_settings_are_kept_when_they_were_not_reset(self, chat: ChatPage) -> None:
        settings = chat.page.get_by_role("button", name="Settings")
        settings.click()
        chat.page.get_by_label("Max tokens").fill("3")
        chat.page.reload()
        settings.click()
        expect(chat.page.get_by_label("Max tokens")).to_have_value("3")
        chat.page.get_by_role("button", name="Reset").click()
        expect(chat.page.get_by_label("Max tokens")).to_have_value("")
        chat.page.reload()
        settings.click()
        expect(chat.page.get_by_label("Max tokens")).to_have_value("")

    def test_panel_shows_the_field_when_a_setting_is_wrong(self, chat: ChatPage) -> None:
        chat.page.get_by_role("button", name="Settings").click()
        chat.page.get_by_label("Temperature").fill("9")
        chat.page.get_by_role("button", name="Settings").click()
        chat.ask("Hi")
        expect(chat.page.get_by_label("Temperature")).to_be_visible()
        expect(chat.prompt).to_have_value("Hi")
        expect(chat.answer).to_have_count(0)

    def test_licence_and_origin_are_shown_when_a_model_is_chosen(self, chat: ChatPage) -> None:
        card = chat.page.locator(".model-card:visible")
        expect(card).to_contain_text("Licence: MIT")
        expect(card.get_by_role("link")).to_have_attribute("href", "https://example.com/greeter")
        chat.choose_model("demo-scripts")
        expect(card).to_contain_text("written for Streamsite")
        chat.page.reload()
        expect(card).to_contain_text("written for Streamsite")


class TestLoading:
    def test_notice_goes_when_the_model_is_loaded(self, chat: ChatPage) -> None:
        loaded = chat.server.folder / "model-is-loaded"
        loaded.unlink()
        try:
            chat.page.reload()
            notice = chat.page.get_by_text("Model loading: reading the weights")
            expect(notice).to_be_visible()
        finally:
            loaded.touch()
        expect(notice).to_be_hidden()


class TestReading:
    def test_text_stays_text_when_it_looks_like_markup(self, chat: ChatPage) -> None:
        chat.ask(HOSTILE, model="echo")
        assert chat.answer_once_ended("Complete") == HOSTILE
        chat.page.reload()
        assert chat.answer_once_ended("Complete") == HOSTILE
        expect(chat.page.locator(".text *, .history-list a *, #title *")).to_have_count(0)
        expect(chat.page.locator("#title")).to_have_text(f"{HOSTILE[:59]}…")

    def test_no_character_is_shown_in_part_when_bytes_come_in_pieces(self, chat: ChatPage) -> None:
        chat.page.evaluate(
            """() => {
              const segmenter = new Intl.Segmenter(undefined, { granularity: "grapheme" });
              window.screens = [];
              new MutationObserver(() => {
                const text = document.querySelector(".message-assistant .text")?.textContent ?? "";
                if (text !== window.screens.at(-1)) window.screens.push(text);
              }).observe(document.body, { subtree: true, childList: true, characterData: true });
              window.cutClusters = () => {
                const whole = window.screens.at(-1);
                const starts = new Set(Array.from(segmenter.segment(whole), ({ index }) => index));
                return window.screens.filter((text) => text.length < whole.length && !starts.has(text.length));
              };
            }"""
        )
        chat.ask("All of them", model="demo-scripts")
        text = chat.answer_once_ended("Complete")
        assert "\ufffd" not in text
        assert chat.page.evaluate("window.screens.length") > 20
        assert chat.page.evaluate("window.cutClusters()") == []
        assert chat.record()["text"] == text

    def test_figures_are_shown_when_an_answer_is_whole(self, chat: ChatPage) -> None:
        chat.ask("Hi")
        chat.answer_once_ended("Complete")
        figures = chat.answer.locator(".figures")
        expect(figures).to_have_text(re.compile(r"TTFT\s*\d+ ms.*tokens/s.*4 tokens.*Total\s*\d+ ms", re.DOTALL))

    def test_drawer_shows_frames_and_record_when_it_is_opened(self, chat: ChatPage) -> None:
        chat.ask("नमस्ते 🙂", model="echo")
        chat.answer_once_ended("Complete")
        chat.answer.get_by_text("Details").click()
        frames = chat.answer.locator(".frames")
        expect(frames).to_contain_text('"role":"assistant"')
        expect(frames).to_contain_text('"finish_reason":"stop"')
        expect(frames).to_contain_text("data: [DONE]")
        expect(chat.answer).to_contain_text("bytes of an incomplete character")
        expect(chat.answer).to_contain_text("TTFT, by the server")

    def test_drawer_tells_what_was_held_back_when_characters_came_in_pieces(self, chat: ChatPage) -> None:
        chat.ask("चाय", model="echo")
        chat.answer_once_ended("Complete")
        chat.answer.get_by_text("Details").click()
        # Three characters of three bytes in pieces of three bytes: nothing waits. One byte more in front: all do.
        expect(chat.answer.get_by_text("Nothing: every token could be shown at once.")).to_be_visible()
        chat.ask("aचाय", model="echo")
        expect(chat.badge).to_have_text("Complete")
        chat.answer.get_by_text("Details").click()
        expect(chat.answer.locator(".holds li")).to_have_text(
            re.compile(r"^3 times: bytes of an incomplete character \(6 bytes, .* in all, .* at most\)$")
        )

    def test_text_is_copied_when_the_copy_button_is_pressed(self, chat: ChatPage) -> None:
        chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        chat.ask("Hi")
        chat.answer_once_ended("Complete")
        chat.answer.get_by_role("button", name="Copy").click()
        expect(chat.answer.get_by_role("button", name="Copied")).to_be_visible()
        assert chat.page.evaluate("navigator.clipboard.readText()") == "Hello, world!"

    def test_pill_leads_back_when_the_reader_scrolled_up(self, chat: ChatPage) -> None:
        chat.page.set_viewport_size({"width": 360, "height": 480})
        chat.ask_slow()
        scroller = chat.page.locator("#scroller")
        expect(chat.answer_text).to_have_text(re.compile("(tick ){150}"))
        chat.page.mouse.move(180, 200)
        chat.page.mouse.wheel(0, -300)
        pill = chat.page.get_by_role("button", name="New text")
        expect(pill).to_be_visible()
        top = scroller.evaluate("(e) => e.scrollTop")
        before = len(chat.answer_text.text_content() or "")
        expect(chat.answer_text).to_have_text(re.compile(f"^.{{{before + 100},}}$"))
        assert scroller.evaluate("(e) => e.scrollTop") == top
        pill.click()
        expect(pill).to_be_hidden()
        assert scroller.evaluate("(e) => e.scrollHeight - e.scrollTop - e.clientHeight") < 48
        chat.stop_button.click()


class TestKeeping:
    def test_conversation_is_kept_when_the_page_is_reloaded(self, chat: ChatPage) -> None:
        chat.ask("Hi")
        chat.answer_once_ended("Complete")
        assert re.search(r"/c/[0-9a-f-]{36}/$", chat.page.url)
        chat.page.reload()
        expect(chat.page.locator(".message-user .text")).to_have_text("Hi")
        assert chat.answer_once_ended("Complete") == "Hello, world!"
        expect(chat.answer.locator(".figures")).to_contain_text("4 tokens")
        expect(chat.page.locator('.history-list a[aria-current="page"]')).to_have_text("Hi")

    def test_conversation_goes_on_when_asked_again_after_a_reload(self, chat: ChatPage) -> None:
        chat.ask("First")
        chat.answer_once_ended("Complete")
        chat.page.reload()
        chat.ask("Second", model="echo")
        expect(chat.page.locator(".message")).to_have_count(4)
        assert chat.answer_once_ended("Complete") == "Second"
        assert '"First"' in chat.record()["messages"]

    def test_answer_is_replaced_when_it_is_regenerated(self, chat: ChatPage) -> None:
        chat.ask("Hi", model="echo")
        chat.answer_once_ended("Complete")
        chat.choose_model("greeter")
        chat.answer.get_by_role("button", name="Regenerate").click()
        expect(chat.answer_text).to_have_text("Hello, world!")
        chat.answer_once_ended("Complete")
        chat.page.reload()
        expect(chat.page.locator(".message")).to_have_count(2)
        assert chat.answer_once_ended("Complete") == "Hello, world!"

    def test_draft_is_kept_when_the_page_is_reloaded(self, chat: ChatPage) -> None:
        chat.prompt.fill("Half a thought")
        chat.page.reload()
        expect(chat.prompt).to_have_value("Half a thought")
        expect(chat.send_button).to_be_enabled()

    def test_conversation_is_nobody_elses_when_another_browser_opens_it(self, chat: ChatPage) -> None:
        chat.ask("Hi")
        chat.answer_once_ended("Complete")
        stranger = chat.page.context.browser.new_context()  # type: ignore[union-attr]
        assert stranger.request.get(chat.page.url).status == 404
        stranger.close()


class TestFailing:
    def test_partial_text_and_retry_stay_when_the_model_fails(self, chat: ChatPage) -> None:
        chat.ask("Hi", model="scripted-failing")
        assert chat.answer_once_ended("Error") == "one two "
        failure = chat.answer.locator(".failure")
        expect(failure).to_contain_text("engine_error")
        expect(failure).to_contain_text(f"request {chat.record()['wire_id']}")
        chat.choose_model("greeter")
        chat.answer.get_by_role("button", name="Retry").click()
        expect(chat.answer_text).to_have_text("Hello, world!")
        expect(chat.page.locator(".message")).to_have_count(2)

    def test_error_is_still_there_when_the_page_is_reloaded(self, chat: ChatPage) -> None:
        chat.ask("Hi", model="scripted-failing")
        chat.answer_once_ended("Error")
        wire_id = chat.record()["wire_id"]
        chat.page.reload()
        assert chat.answer_once_ended("Error") == "one two "
        expect(chat.answer.locator(".failure")).to_contain_text(f"engine_error · request {wire_id}")

    def test_draft_comes_back_when_the_server_refuses(self, chat: ChatPage) -> None:
        chat.page.get_by_role("button", name="Settings").click()
        chat.page.get_by_label("Temperature").fill("0.5")
        chat.ask("A long and careful question")
        chat.answer_once_ended("Error")
        expect(chat.answer.locator(".failure")).to_contain_text("temperature")
        expect(chat.prompt).to_have_value("A long and careful question")
        chat.page.get_by_label("Temperature").fill("")
        chat.prompt.press("Enter")
        assert chat.answer_once_ended("Complete") == "Hello, world!"
        expect(chat.page.locator(".message")).to_have_count(2)

    def test_draft_comes_back_when_the_network_is_gone(self, chat: ChatPage) -> None:
        chat.page.context.set_offline(True)
        chat.ask("Is anybody there?")
        chat.answer_once_ended("Error")
        expect(chat.answer.locator(".failure")).to_contain_text("network")
        expect(chat.prompt).to_have_value("Is anybody there?")
        chat.page.context.set_offline(False)
        chat.answer.get_by_role("button", name="Retry").click()
        assert chat.answer_once_ended("Complete") == "Hello, world!"
        expect(chat.prompt).to_have_value("")
