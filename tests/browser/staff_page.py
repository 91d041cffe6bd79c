"""A logged-in member of staff in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import BrowserContext, Page

from tests.live_server import LiveServer


@contextmanager
def staff_page(context: BrowserContext, server: LiveServer, session: str) -> Iterator[Page]:
    """A page with this session; fails if a script raised or the security policy was broken."""
    context.add_cookies([{"name": "sessionid", "value": session, "url": server.base_url}])
    faults: list[str] = []
    page = context.new_page()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if "Security Policy" in message.text else None)
    yield page
    assert faults == []
