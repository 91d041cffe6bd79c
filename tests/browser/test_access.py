"""The page for everyone: keyboard only, 360 pixels wide, dark and light, without motion, read aloud."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.chat_page import ChatPage

pytestmark = pytest.mark.browser

#: Text that is on the page in some state, each with the contrast that WCAG AA asks of it.
CONTRAST = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return Array.from(canvas.getImageData(0, 0, 1, 1).data);
  };
  const luminance = (color) => {
    const [r, g, b] = color.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = rgba(getComputedStyle(e).backgroundColor);
      if (color[3] === 255) return color;
    }
    return rgba("white");
  };
  const poor = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = Array.from(element.childNodes).some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (element.closest("[disabled]")) continue;
    const [a, b] = [luminance(rgba(getComputedStyle(element).color)), luminance(behind(element))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${element.className || element.localName}: ${ratio.toFixed(2)}`);
  }
  return poor;
}
"""

UNNAMED = """
() => Array.from(document.querySelectorAll("button, a[href], input, select, textarea, summary, [role]"))
  .filter((e) => e.checkVisibility())
  .filter((e) => !(e.textContent.trim() || e.ariaLabel || e.getAttribute("aria-labelledby") || e.labels?.length))
  .map((e) => e.outerHTML.slice(0, 80))
"""


def horizontal_overflow(chat: ChatPage) -> int:
    return int(chat.page.evaluate("document.documentElement.scrollWidth - innerWidth"))


class TestNarrowScreen:
    def test_nothing_overflows_when_the_screen_is_360_pixels_wide(self, chat: ChatPage) -> None:
        chat.page.set_viewport_size({"width": 360, "height": 740})
        assert horizontal_overflow(chat) == 0
        chat.ask("w" * 300, model="echo")
        chat.answer_once_ended("Complete")
        chat.answer.get_by_text("Details").click()
        expect(chat.answer.locator(".frames")).to_be_visible()
        assert horizontal_overflow(chat) == 0
        chat.page.get_by_role("button", name="Settings").click()
        assert horizontal_overflow(chat) == 0
        expect(chat.send_button).to_be_in_viewport(ratio=1)

    def test_conversations_open_as_a_sheet_when_the_screen_is_narrow(self, chat: ChatPage) -> None:
        chat.page.set_viewport_size({"width": 360, "height": 740})
        sheet = chat.page.get_by_role("navigation", name="Conversations")
        toggle = chat.page.get_by_role("button", name="Conversations")
        expect(sheet).to_be_hidden()
        toggle.click()
        expect(sheet).to_be_visible()
        expect(toggle).to_have_attribute("aria-expanded", "true")
        chat.page.keyboard.press("Escape")
        expect(sheet).to_be_hidden()
        expect(toggle).to_be_focused()


class TestKeyboard:
    def test_everything_is_reached_when_only_the_keyboard_is_used(self, chat: ChatPage) -> None:
        expect(chat.prompt).to_be_focused()
        chat.page.keyboard.type("Hi")
        chat.page.keyboard.press("Enter")
        chat.answer_once_ended("Complete")
        expect(chat.prompt).to_be_focused()
        reached = set()
        for _ in range(40):
            chat.page.keyboard.press("Shift+Tab")
            reached.add(chat.page.evaluate("document.activeElement.textContent.trim() || document.activeElement.id"))
        assert {"Copy", "Regenerate", "Details", "New conversation", "Skip to the message box"} <= reached

    def test_settings_open_when_only_the_keyboard_is_used(self, chat: ChatPage) -> None:
        chat.page.keyboard.press("Tab")
        expect(chat.page.get_by_label("Model", exact=True)).to_be_focused()
        chat.page.keyboard.press("Tab")
        chat.page.keyboard.press("Enter")
        expect(chat.page.get_by_label("System prompt")).to_be_visible()

    def test_focus_is_seen_when_an_element_has_it(self, chat: ChatPage) -> None:
        chat.page.keyboard.press("Tab")
        chat.page.keyboard.press("Tab")
        outline = chat.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"

    def test_focus_returns_to_the_box_when_the_send_button_turns_off(self, chat: ChatPage) -> None:
        chat.prompt.fill("Hi")
        chat.send_button.focus()
        chat.page.keyboard.press("Enter")
        chat.answer_once_ended("Complete")
        expect(chat.prompt).to_be_focused()


class TestReadAloud:
    def test_roles_are_right_when_the_page_is_read_aloud(self, chat: ChatPage) -> None:
        log = chat.page.get_by_role("log")
        expect(log).to_have_attribute("aria-live", "off")
        expect(log).to_have_attribute("aria-busy", "false")
        assert chat.page.locator("html").get_attribute("lang") == "en"
        expect(chat.page.get_by_role("heading", level=1)).to_have_count(1)
        expect(chat.page.get_by_role("main")).to_have_count(1)

    def test_start_and_end_are_announced_when_an_answer_comes(self, chat: ChatPage) -> None:
        status = chat.page.locator("#status")
        chat.ask_slow()
        expect(status).to_have_text("Waiting for the answer.")
        expect(chat.page.get_by_role("log")).to_have_attribute("aria-busy", "true")
        chat.page.keyboard.press("Escape")
        expect(status).to_have_text("Stopped. You stopped this answer.")
        expect(chat.page.get_by_role("log")).to_have_attribute("aria-busy", "false")

    def test_every_control_has_a_name_when_everything_is_open(self, chat: ChatPage) -> None:
        chat.ask("Hi")
        chat.answer_once_ended("Complete")
        chat.page.get_by_role("button", name="Settings").click()
        chat.answer.get_by_text("Details").click()
        assert chat.page.evaluate(UNNAMED) == []

    def test_ids_are_unique_when_messages_were_added(self, chat: ChatPage) -> None:
        chat.ask("Hi")
        chat.answer_once_ended("Complete")
        ids = chat.page.evaluate("Array.from(document.querySelectorAll('[id]'), (e) => e.id)")
        assert sorted(ids) == sorted(set(ids))

    def test_direction_is_each_paragraphs_own_when_scripts_mix(self, chat: ChatPage) -> None:
        chat.ask("English\nالشاي جاهز", model="echo")
        chat.answer_once_ended("Complete")
        edges = chat.answer_text.evaluate(
            """(element) => {
              const node = element.firstChild;
              const edge = (index) => {
                const range = document.createRange();
                range.setStart(node, index);
                range.setEnd(node, index + 1);
                return range.getBoundingClientRect();
              };
              const box = element.getBoundingClientRect();
              return [edge(0).left - box.left, box.right - edge(8).right];
            }"""
        )
        assert edges == [pytest.approx(0, abs=2), pytest.approx(0, abs=2)]


class TestLook:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_contrast_is_enough_when_the_scheme_is(self, chat: ChatPage, scheme: str) -> None:
        chat.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert chat.page.evaluate(CONTRAST) == []
        for model, badge in [("greeter", "Complete"), ("scripted-failing", "Error")]:
            chat.ask("Hi", model=model)
            chat.answer_once_ended(badge)
        chat.page.get_by_role("button", name="Settings").click()
        chat.answer.get_by_text("Details").click()
        assert chat.page.evaluate(CONTRAST) == []

    def test_background_follows_when_the_scheme_is_dark(self, chat: ChatPage) -> None:
        background = "getComputedStyle(document.body).backgroundColor"
        chat.page.emulate_media(color_scheme="light")
        light = chat.page.evaluate(background)
        chat.page.emulate_media(color_scheme="dark")
        assert chat.page.evaluate(background) != light

    def test_nothing_moves_when_the_reader_asks_for_less_motion(self, chat: ChatPage) -> None:
        running = "document.getAnimations().length"
        chat.ask_slow()
        assert chat.page.evaluate(running) > 0
        chat.page.emulate_media(reduced_motion="reduce")
        assert chat.page.evaluate(running) == 0
        chat.page.keyboard.press("Escape")

    def test_prompt_is_usable_when_the_answer_is_long(self, chat: ChatPage) -> None:
        chat.page.set_viewport_size({"width": 900, "height": 600})
        chat.ask_slow()
        expect(chat.answer_text).to_have_text(re.compile("(tick ){100}"))
        expect(chat.prompt).to_be_in_viewport(ratio=1)
        chat.page.keyboard.press("Escape")
