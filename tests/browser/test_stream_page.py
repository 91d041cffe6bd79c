"""The admin's page of one stream in a real Chromium: timeline, table, player, tabs, reviews, keys."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chat_page import ChatPage
from tests.browser.stream_page import StreamPage
from tests.browser.test_access import CONTRAST, UNNAMED

pytestmark = pytest.mark.browser

WHOLE = "The café serves 👩\u200d🔬 tea.\nEnd"


def contrast(*colours: str) -> float:
    """The contrast of two colours as CSS computes them, "rgb(0, 0, 0)"."""
    darker, lighter = sorted(map(luminance, colours))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    values = (int(value) / 255 for value in re.findall(r"\d+", colour)[:3])
    red, green, blue = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


class TestTimeline:
    def test_the_picture_is_told_in_words_when_it_cannot_be_seen(self, stream_page: StreamPage) -> None:
        stream_page.open()
        expect(stream_page.caption).to_have_text(
            re.compile(
                r"^11 deltas, the last after 1\.\d\d s\. Gaps: median \d+\.?\d* ms, 95th percentile \d+ ms, "
                r"longest \d+ ms before delta \d+\. Held back: 1 by utf8, 1 by context, 1 by stop\.$"
            )
        )
        expect(stream_page.page.locator("#plot canvas")).to_be_visible()

    def test_the_table_shows_what_was_brushed_when_the_timeline_is_dragged_over(self, stream_page: StreamPage) -> None:
        stream_page.open()
        assert stream_page.seqs() == list(range(1, 12))
        plot = stream_page.page.locator("#plot .u-over")
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        assert box is not None
        y = box["y"] + box["height"] / 2
        stream_page.page.mouse.move(box["x"] + box["width"] * 0.3, y)
        stream_page.page.mouse.down()
        stream_page.page.mouse.move(box["x"] + box["width"] * 0.6, y, steps=5)
        stream_page.page.mouse.up()
        expect(stream_page.page.locator("#range-words")).to_contain_text("Selected: deltas")
        brushed = stream_page.seqs()
        assert 2 <= len(brushed) < 8
        assert brushed == list(range(brushed[0], brushed[-1] + 1))
        expect(stream_page.page.locator("#range-first")).to_have_value(str(brushed[0]))
        expect(stream_page.page.locator("#review-about")).to_have_text(f"deltas {brushed[0]}–{brushed[-1]}")
        stream_page.page.get_by_role("button", name="Zoom in").click()
        stream_page.page.get_by_role("button", name="Whole stream").click()
        assert stream_page.seqs() == list(range(1, 12))

    def test_deltas_are_walked_and_selected_when_only_the_keyboard_is_used(self, stream_page: StreamPage) -> None:
        stream_page.open()
        stream_page.page.locator("#plot").focus()
        stream_page.page.keyboard.press("ArrowRight")
        expect(stream_page.status).to_have_text(re.compile(r"^Delta 1 at \d+ ms\.$"))
        for _ in range(3):
            stream_page.page.keyboard.press("ArrowRight")
        expect(stream_page.status).to_have_text(re.compile(r"^Delta 4 at .*, gap .* ms, held by utf8 80\.0 ms\.$"))
        stream_page.page.keyboard.press("Shift+ArrowRight")
        stream_page.page.keyboard.press("Shift+ArrowRight")
        expect(stream_page.status).to_have_text("Selected deltas 4–6.")
        assert stream_page.seqs() == [4, 5, 6]
        stream_page.page.keyboard.press("Escape")
        assert stream_page.seqs() == list(range(1, 12))

    def test_a_range_is_selected_when_its_numbers_are_typed(self, stream_page: StreamPage) -> None:
        stream_page.open()
        stream_page.page.get_by_label("Deltas", exact=True).first.fill("9")
        stream_page.page.get_by_label("to", exact=True).fill("7")
        stream_page.page.get_by_role("button", name="Select", exact=True).click()
        assert stream_page.seqs() == [7, 8, 9]

    def test_rows_are_marked_and_stay_when_selected_in_the_table(self, stream_page: StreamPage) -> None:
        stream_page.open()
        stream_page.show_tab("Text")
        stream_page.page.locator('[data-seq="2"]').click()
        stream_page.page.locator('[data-seq="4"]').click(modifiers=["Shift"])
        assert stream_page.seqs() == list(range(1, 12))
        expect(stream_page.page.locator("#delta-rows tr.selected")).to_have_count(3)
        expect(stream_page.page.locator("#whole-text .selected")).to_have_count(3)

    def test_one_row_of_the_table_is_a_tab_stop_and_arrow_keys_reach_the_others(self, stream_page: StreamPage) -> None:
        stream_page.open()
        keyboard = stream_page.page.keyboard
        stops = stream_page.page.locator("#delta-rows button:not([tabindex='-1'])")
        assert stops.all_text_contents() == ["1"]
        stops.focus()
        for key in ("ArrowDown", "ArrowDown", "Enter", "End", "ArrowDown", "ArrowUp", "Shift+Enter"):
            keyboard.press(key)
        expect(stream_page.page.locator("#delta-rows tr.selected")).to_have_count(8)
        assert stops.all_text_contents() == ["10"]
        keyboard.press("Home")
        expect(stream_page.page.locator('[data-seq="1"]')).to_be_focused()

    def test_the_table_tells_gap_tokens_text_and_hold_when_shown(self, stream_page: StreamPage) -> None:
        stream_page.open()
        cells = stream_page.page.locator("#delta-rows tr").nth(3).locator("td").all_text_contents()
        assert cells[0] == "4"
        assert cells[3:] == ["3", "é", "utf8 3 bytes, 80.0 ms"]

    def test_ten_thousand_deltas_are_there_when_the_stream_is_long(self, stream_page: StreamPage) -> None:
        stream_page.open("long")
        expect(stream_page.caption).to_contain_text("10,000 deltas")
        assert stream_page.page.locator("#delta-rows tr").count() == 200
        stream_page.page.get_by_label("Deltas", exact=True).first.fill("9990")
        stream_page.page.get_by_label("to", exact=True).fill("10000")
        stream_page.page.get_by_role("button", name="Select", exact=True).click()
        assert stream_page.seqs() == list(range(9990, 10_001))
        expect(stream_page.answer).to_contain_text("word9999")

    def test_a_running_stream_grows_on_the_page_when_watched(self, stream_page: StreamPage, page: Page) -> None:
        page.goto(stream_page.server.base_url + "/")
        chat = ChatPage(page=page, server=stream_page.server)
        chat.ask_slow()
        admin = page.context.new_page()
        admin.goto(stream_page.server.base_url + "/admin/generation/stream/")
        admin.locator("#result_list th a").first.click()
        expect(admin.locator("#timeline-loading")).to_have_text(re.compile(r"^running: \d+ deltas so far$"))
        before = len(admin.locator("#answer .text").text_content() or "")
        expect(admin.locator("#answer .text")).to_have_text(re.compile(rf"^(tick ){{{before // 5 + 1},}}$"))
        chat.stop_button.click()
        expect(admin.locator("#timeline-loading")).to_have_text("ended: reload the page for its figures")
        admin.reload()
        expect(admin.locator("#answer .badge")).to_have_text("Stopped")
        admin.close()


class TestPlayer:
    def test_the_whole_answer_is_shown_when_nothing_plays(self, stream_page: StreamPage) -> None:
        stream_page.open()
        expect(stream_page.answer).to_have_text(WHOLE, use_inner_text=True)
        expect(stream_page.page.locator("#answer .badge")).to_have_text("Complete")

    def test_the_text_grows_as_it_did_when_played(self, stream_page: StreamPage) -> None:
        stream_page.open()
        stream_page.page.evaluate(
            """() => {
              window.seen = [];
              const answer = document.getElementById("answer");
              new MutationObserver(() => window.seen.push(answer.querySelector(".text").textContent))
                .observe(answer, { subtree: true, childList: true, characterData: true });
            }"""
        )
        stream_page.page.get_by_role("button", name="Play", exact=True).click()
        expect(stream_page.page.locator("#answer .badge")).to_have_text("Complete")
        expect(stream_page.page.get_by_role("button", name="Play", exact=True)).to_be_visible()
        seen = stream_page.page.evaluate("window.seen.filter((text, i) => text && text !== window.seen[i - 1])")
        assert len(seen) > 5
        assert all(WHOLE.startswith(text) for text in seen)
        # The chat page's renderer: no half of a family or letter is ever shown.
        assert not any(text.endswith(("👩", "👩\u200d")) for text in seen)

    def test_the_player_goes_there_when_the_timeline_is_clicked(self, stream_page: StreamPage) -> None:
        stream_page.open()
        plot = stream_page.page.locator("#plot .u-over")
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        assert box is not None
        plot.click(position={"x": box["width"] / 2, "y": 100})
        expect(stream_page.page.locator("#answer .badge")).to_have_text("Answering")
        shown = stream_page.answer.text_content() or ""
        assert 5 < len(shown) < len(WHOLE)
        assert WHOLE.startswith(shown)

    def test_deltas_come_one_by_one_when_stepped(self, stream_page: StreamPage) -> None:
        stream_page.open()
        stream_page.page.locator("#scrub").fill("0")
        expect(stream_page.answer).to_be_empty()
        on = stream_page.page.get_by_role("button", name="On by one delta")
        for shown in ["The", "The c", "The ca"]:
            on.click()
            # The last grapheme waits for what follows, as in the chat.
            expect(stream_page.answer).to_have_text(shown, use_inner_text=True)
        stream_page.page.get_by_role("button", name="Back by one delta").click()
        expect(stream_page.answer).to_have_text("The c", use_inner_text=True)

    def test_space_and_arrows_play_and_step_when_the_keyboard_is_used(self, stream_page: StreamPage) -> None:
        stream_page.open("long")
        stream_page.page.keyboard.press("Space")
        pause = stream_page.page.get_by_role("button", name="Pause")
        expect(pause).to_be_visible()
        expect(stream_page.answer).to_contain_text("word1")
        stream_page.page.keyboard.press("Space")
        expect(pause).to_be_hidden()
        position = stream_page.page.locator("#position")
        before = position.text_content()
        # Twice: the next delta may be so near that the position, in hundredths of a second, stays the same.
        for _ in range(2):
            stream_page.page.keyboard.press("ArrowRight")
        expect(position).not_to_have_text(before or "")
        stream_page.page.get_by_label("Speed").select_option("8")
        expect(position).to_contain_text("/")

    def test_a_stream_that_was_left_ends_as_stopped_when_shown(self, stream_page: StreamPage) -> None:
        stream_page.open("left")
        expect(stream_page.page.locator("#answer .badge")).to_have_text("Stopped")
        headline = stream_page.page.locator(".headline")
        expect(headline).to_contain_text("client disconnect")
        expect(headline).to_contain_text("4.0 ms")
        stream_page.show_tab("Events")
        expect(stream_page.page.locator("#events")).to_contain_text("Client disconnected")
        expect(stream_page.page.locator("#events")).to_contain_text("2 tokens wasted")

    def test_it_plays_without_motion_when_the_reader_asks_for_less(self, stream_page: StreamPage) -> None:
        stream_page.page.emulate_media(reduced_motion="reduce")
        stream_page.open()
        stream_page.page.get_by_role("button", name="Play", exact=True).click()
        expect(stream_page.page.locator("#answer .badge")).to_have_text("Complete")
        expect(stream_page.answer).to_have_text(WHOLE, use_inner_text=True)


class TestTabs:
    def test_arrows_move_between_tabs_when_one_has_the_focus(self, stream_page: StreamPage) -> None:
        stream_page.open()
        tabs = stream_page.page.get_by_role("tab")
        expect(tabs).to_have_text(["Rendered", "Text", "Frames", "Characters", "Tokens", "Request", "Events"])
        tabs.first.focus()
        stream_page.page.keyboard.press("ArrowRight")
        expect(stream_page.page.get_by_role("tab", name="Text", selected=True)).to_be_focused()
        expect(stream_page.page.get_by_role("tabpanel")).to_have_attribute("id", "text")
        stream_page.page.keyboard.press("End")
        expect(stream_page.page.get_by_role("tab", name="Events", selected=True)).to_be_focused()
        stream_page.page.keyboard.press("ArrowRight")
        expect(stream_page.page.get_by_role("tab", name="Rendered", selected=True)).to_be_focused()

    def test_a_tab_is_shown_again_when_the_page_is_reloaded(self, stream_page: StreamPage) -> None:
        stream_page.open()
        stream_page.show_tab("Request")
        stream_page.page.reload()
        expect(stream_page.page.get_by_role("tab", name="Request")).to_have_attribute("aria-selected", "true")
        expect(stream_page.page.locator("#request")).to_contain_text("Where?")

    def test_the_text_is_the_same_when_boundaries_are_shown(self, stream_page: StreamPage) -> None:
        stream_page.open()
        stream_page.show_tab("Text")
        pieces = stream_page.page.locator("#whole-text .piece")
        expect(pieces).to_have_count(11)
        assert "".join(pieces.all_text_contents()) == WHOLE

    def test_frames_are_exact_and_copied_when_asked_for(self, stream_page: StreamPage) -> None:
        stream_page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        stream_page.open()
        stream_page.show_tab("Frames")
        rows = stream_page.page.locator("#frame-rows tr")
        expect(rows).to_have_count(14)
        expect(rows.nth(4)).to_contain_text('"delta":{"content":"\\u00e9"}')
        expect(rows.last).to_contain_text("data: [DONE]")
        stream_page.page.get_by_role("button", name="Copy as curl").click()
        expect(stream_page.status).to_have_text("The curl command is on the clipboard.")
        curl = stream_page.page.evaluate("navigator.clipboard.readText()")
        assert curl.startswith(f"curl --no-buffer {stream_page.server.base_url}/v1/chat/completions \\\n")
        stream_page.page.get_by_role("button", name="Copy as test fixture").click()
        expect(stream_page.status).to_have_text("The frames are on the clipboard as a test fixture.")
        assert "FRAMES: list[tuple[float, bytes]] = [" in stream_page.page.evaluate("navigator.clipboard.readText()")

    def test_characters_are_flagged_when_they_may_mislead(self, stream_page: StreamPage) -> None:
        stream_page.open()
        stream_page.show_tab("Characters")
        expect(stream_page.page.locator("#characters-summary")).to_have_text(
            "26 graphemes, 28 code points. 1 × zero width; 1 × cut between deltas."
        )
        stream_page.page.get_by_label("Flagged only").check()
        row = stream_page.page.locator("#character-rows tr")
        expect(row).to_have_count(1)
        assert row.locator("td").all_text_contents() == [
            "6",
            "👩\u200d🔬",
            "U+1F469 U+200D U+1F52C",
            "f0 9f 91 a9 e2 80 8d f0 9f 94 ac",
            "zero width cut between deltas ",
        ]

    def test_tokens_have_ids_and_times_when_shown(self, stream_page: StreamPage) -> None:
        stream_page.open()
        stream_page.show_tab("Tokens")
        rows = stream_page.page.locator("#token-rows tr")
        expect(rows).to_have_count(2)
        assert rows.last.locator("td").all_text_contents() == ["1", "2", "–", "200 ms", "100 ms"]


class TestReviews:
    def test_a_label_is_given_when_its_key_is_pressed(self, stream_page: StreamPage) -> None:
        stream_page.open("older")
        stream_page.page.keyboard.press("2")
        expect(stream_page.status).to_have_text("Labelled the whole stream “wrong”.")
        assert stream_page.reviews()[0] == ["whole stream", "wrong", "–", ""]
        stream_page.page.reload()
        assert stream_page.reviews()[0] == ["whole stream", "wrong", "–", ""]

    def test_a_range_is_reviewed_when_deltas_are_selected(self, stream_page: StreamPage) -> None:
        stream_page.open()
        stream_page.page.locator('[data-seq="2"]').click()
        stream_page.page.locator('[data-seq="3"]').click(modifiers=["Shift"])
        stream_page.page.get_by_label("Comment").fill("A word, cut. 1 2 3")
        stream_page.page.get_by_label("Score").select_option("4")
        stream_page.page.get_by_role("button", name="Add review").click()
        expect(stream_page.status).to_have_text("Review added.")
        assert stream_page.reviews() == [["deltas 2–3", "–", "4", "A word, cut. 1 2 3"]]
        expect(stream_page.page.get_by_label("Comment")).to_have_value("")
        stream_page.page.reload()
        stream_page.page.get_by_role("button", name="deltas 2–3").click()
        assert stream_page.seqs() == [2, 3]

    def test_the_reason_is_told_when_a_review_is_empty(self, stream_page: StreamPage) -> None:
        stream_page.open("left")
        stream_page.page.get_by_role("button", name="Add review").click()
        expect(stream_page.page.get_by_role("alert")).to_have_text("A review needs a label, a score or a comment.")


class TestNeighbours:
    def test_j_and_k_lead_through_the_list_when_pressed(self, stream_page: StreamPage) -> None:
        carried = "?_changelist_filters=model%3Dscripted"
        stream_page.open("shown", carried)
        stream_page.page.keyboard.press("j")
        heading = stream_page.page.get_by_role("heading", level=1)
        expect(heading).to_have_text(f"Stream {stream_page.ids['older']} done")
        assert stream_page.page.url.partition("#")[0].endswith(carried)
        stream_page.page.keyboard.press("k")
        expect(heading).to_have_text(f"Stream {stream_page.ids['shown']} done")

    def test_keys_are_letters_when_a_comment_is_written(self, stream_page: StreamPage) -> None:
        stream_page.open()
        comment = stream_page.page.get_by_label("Comment")
        comment.click()
        stream_page.page.keyboard.type("j k 1 ")
        expect(comment).to_have_value("j k 1 ")
        expect(stream_page.page.get_by_role("heading", level=1)).to_contain_text(str(stream_page.ids["shown"]))


class TestPermissions:
    def test_figures_are_all_there_is_when_staff_may_not_see_text(self, stream_page: StreamPage) -> None:
        stream_page.log_in("figures")
        stream_page.open()
        expect(stream_page.page.get_by_role("tab")).to_have_text(["Events"])
        expect(stream_page.page.locator("#plot canvas")).to_be_visible()
        assert stream_page.page.locator("#delta-rows tr").nth(3).locator("td").nth(4).text_content() == "1"
        content = stream_page.page.content()
        assert "café" not in content
        assert "Where?" not in content
        expect(stream_page.page.locator("#review-form")).to_have_count(0)


class TestLook:
    def test_page_begins_at_its_top_when_opened(self, stream_page: StreamPage) -> None:
        for query in ["", "#tab=text"]:
            stream_page.page.goto("about:blank")
            stream_page.open(query=query)
            stream_page.page.wait_for_load_state("networkidle")
            assert stream_page.page.evaluate("scrollY") == 0
        stream_page.page.keyboard.press("Tab")
        expect(stream_page.page.get_by_role("link", name="Skip to main content")).to_be_focused()

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_contrast_is_enough_when_the_scheme_is(self, stream_page: StreamPage, scheme: str) -> None:
        stream_page.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        stream_page.open()
        own = CONTRAST.replace('"body *"', '".stream-page .panel *, .stream-page figure *, .stream-page .range *"')
        for tab in ["Rendered", "Text", "Frames", "Characters", "Tokens", "Request", "Events"]:
            stream_page.show_tab(tab)
            assert stream_page.page.evaluate(own) == []

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_focus_is_seen_when_the_scheme_is(self, stream_page: StreamPage, scheme: str) -> None:
        stream_page.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        stream_page.open()
        stream_page.page.locator("#plot").focus()
        stream_page.page.keyboard.press("Tab")
        outline = stream_page.page.evaluate("getComputedStyle(document.activeElement).outlineColor")
        background = stream_page.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert contrast(outline, background) >= 3

    def test_every_control_has_a_name_when_everything_is_open(self, stream_page: StreamPage) -> None:
        stream_page.open()
        for tab in ["Text", "Frames", "Characters", "Rendered"]:
            stream_page.show_tab(tab)
            assert stream_page.page.evaluate(UNNAMED) == []
        ids = stream_page.page.evaluate("Array.from(document.querySelectorAll('[id]'), (e) => e.id)")
        assert sorted(ids) == sorted(set(ids))

    def test_nothing_overflows_when_the_screen_is_narrow(self, stream_page: StreamPage) -> None:
        stream_page.page.set_viewport_size({"width": 380, "height": 740})
        stream_page.open()
        for tab in ["Rendered", "Text", "Frames", "Characters", "Events"]:
            stream_page.show_tab(tab)
            assert stream_page.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
