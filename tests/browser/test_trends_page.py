"""The trends page in Chromium: charts with tables beside them, on any screen, in both themes, without a script."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.staff_page import staff_page
from tests.browser.test_access import CONTRAST, UNNAMED
from tests.browser.test_live_page import Asking
from tests.live_server import LiveServer
from tests.staff_sessions import staff_sessions

pytestmark = pytest.mark.browser

TRENDS = "/admin/generation/trends/"


@pytest.fixture(scope="module")
def session(server: LiveServer) -> str:
    asking = Asking(server, model="greeter")
    asking.leave()
    server.stream(asking.wire_id)
    return staff_sessions(server)["viewer"]


@pytest.fixture
def trends(context: BrowserContext, server: LiveServer, session: str) -> Iterator[Page]:
    with staff_page(context, server, session) as page:
        page.goto(server.base_url + TRENDS)
        yield page


def test_figures_are_drawn_told_and_lead_to_their_streams(trends: Page) -> None:
    picture = trends.get_by_role("img", name="TTFT, visible; the table below has the same figures")
    expect(picture.locator("circle")).not_to_have_count(0)
    trends.get_by_text("TTFT, visible as a table").click()
    table = trends.locator("section", has=trends.get_by_role("heading", name="TTFT, visible")).get_by_role("table")
    expect(table).to_contain_text("ms")
    table.get_by_role("link").last.click()
    expect(trends.locator("#result_list")).to_contain_text("greeter")


def test_a_model_and_a_time_are_chosen_by_links(trends: Page) -> None:
    trends.get_by_role("link", name="30 days, by day").click()
    models = trends.get_by_role("navigation", name="Model")
    models.get_by_role("link", name="greeter").click()
    expect(models.locator("[aria-current]")).to_have_text("greeter")
    expect(trends.get_by_role("navigation", name="Time").locator("[aria-current]")).to_have_text("30 days, by day")
    assert trends.url.endswith("?span=30d&model=greeter")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_readable_by_everyone(trends: Page, scheme: str) -> None:
    trends.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    trends.set_viewport_size({"width": 360, "height": 740})
    for summary in trends.locator("summary").all():
        summary.click()
    assert trends.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert trends.evaluate(UNNAMED) == []
    trends.locator("#header").evaluate("header => header.remove()")  # the stock admin's, in large letters
    assert trends.evaluate(CONTRAST) == []
