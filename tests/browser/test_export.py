from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.staff_page import staff_page
from tests.live_server import LiveServer, live_server
from tests.staff_sessions import staff_sessions

pytestmark = pytest.mark.browser

_MORE_THAN_A_PAGE = """
from django.utils import timezone
from generation.models import Stream
Stream.objects.bulk_create(
    Stream(wire_id=f"chatcmpl-{n}", source="page" if n else "api", model="m", backend="default", state="done",
           stop_reason="eos", started_at=timezone.now(), text=f"=text {n}")
    for n in range(131)
)
"""


@pytest.fixture
def long_list(tmp_path: Path) -> Iterator[LiveServer]:
    """A server of its own, whose list has more than one page."""
    with live_server(tmp_path, settings="tests.browser.settings") as running:
        running.manage("shell", "--no-imports", "-c", _MORE_THAN_A_PAGE)
        yield running


def test_the_whole_filtered_list_is_downloaded_when_every_page_is_chosen(
    long_list: LiveServer, context: BrowserContext
) -> None:
    with staff_page(context, long_list, staff_sessions(long_list)["admin"]) as page:
        page.goto(f"{long_list.base_url}/admin/generation/stream/?source=page")
        page.locator("#action-toggle").check()
        expect(page.locator(".action-counter")).to_have_text("50 of 50 selected")
        page.get_by_role("button", name="Select all streams of this list, on every page").click()
        expect(page.get_by_text("All streams of this list selected")).to_be_visible()
        page.get_by_label("Action:").select_option("Export as JSON lines")
        with page.expect_download() as download:
            page.get_by_role("button", name="Go").click()
        lines = download.value.path().read_text().splitlines()
        assert [json.loads(line)["text"] for line in lines] == [f"=text {number}" for number in range(130, 0, -1)]
        assert download.value.suggested_filename.endswith(".jsonl")
        # A download leaves the page where it was: ticked streams only, now.
        page.get_by_role("button", name="Clear selection").click()
        page.locator("tr input.action-select").nth(1).check()
        page.get_by_label("Action:").select_option("Export as CSV")
        with page.expect_download() as download:
            page.get_by_role("button", name="Go").click()
        header, row = download.value.path().read_text().splitlines()
        assert (header.startswith("id,wire_id,"), "'=text 129" in row) == (True, True)
