"""The admin's stream page as a member of staff sees it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.live_server import LiveServer


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPage:
    """One open page, the server behind it and the ids of streams and sessions it has."""

    page: Page
    server: LiveServer
    ids: dict[str, Any]

    def log_in(self, username: str = "staff") -> None:
        """Take the session of this member of staff; the login form is not what is tested here."""
        self.page.context.clear_cookies()
        self.page.context.add_cookies(
            [{"name": "sessionid", "value": self.ids[f"session of {username}"], "url": self.server.base_url}]
        )

    def open(self, name: str = "shown", query: str = "") -> None:
        """Open a stream's page and wait until all its deltas are there."""
        self.page.goto(f"{self.server.base_url}/admin/generation/stream/{self.ids[name]}/change/{query}")
        expect(self.page.locator("#deltas-shown, #no-deltas").first).to_contain_text("Deltas")
        expect(self.page.locator("#timeline-loading")).to_be_empty(timeout=30_000)

    @property
    def caption(self) -> Locator:
        return self.page.locator("#timeline-caption")

    @property
    def status(self) -> Locator:
        return self.page.get_by_role("status").last

    @property
    def answer(self) -> Locator:
        return self.page.locator("#answer .text")

    def seqs(self) -> list[int]:
        """Sequence numbers of the rows of the table."""
        return [int(seq) for seq in self.page.locator("#delta-rows td:first-child").all_text_contents()]

    def show_tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name).click()

    def reviews(self) -> list[list[str]]:
        """About, label, score and comment of each review, the newest first."""
        rows = self.page.locator("#review-list tbody tr")
        return [row.locator("td").all_text_contents()[2:] for row in rows.all()]


def write_records(server: LiveServer, function: str) -> Any:
    """Write rows in the server's database; returns their ids."""
    printed = server.manage("shell", "-c", f"from tests.browser import records; records.{function}()")
    return json.loads(re.findall(r"^\{.*\}$", printed, re.MULTILINE)[-1])
