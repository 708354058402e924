"""Fixtures for tests in a real Chromium: a browser per module, a site and its pages per test.

The browser is of a module, because playwright's loop runs in the main thread while it lives, where
other modules may want one of their own.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.browser.chromium import NONE, find
from tests.browser.site import LiveSite, build_site
from tests.machine import Machine

playwright = pytest.importorskip("playwright.sync_api", reason=NONE)

PATIENCE_MS = 60_000
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@dataclass(kw_only=True)
class BrowserPages:
    """Opens pages, and records their console errors and their requests to other hosts."""

    browser: Any
    live_site: LiveSite
    console_errors: list[str] = field(default_factory=list)
    foreign_requests: list[str] = field(default_factory=list)
    # Parts of errors that a test causes on purpose.
    expected_errors: list[str] = field(default_factory=list)
    contexts: list[Any] = field(default_factory=list)

    def open(self, **context: Any) -> Any:
        """Return a page in a fresh browser context; keywords are playwright's."""
        fresh = self.browser.new_context(**{"reduced_motion": "reduce", **context})
        self.contexts.append(fresh)
        fresh.set_default_timeout(PATIENCE_MS)
        fresh.on("console", self._record_message)
        fresh.on("weberror", lambda error: self.console_errors.append(str(error.error)))
        fresh.on("request", self._record_request)
        return fresh.new_page()

    def log_in(self, *role: Any, **context: Any) -> Any:
        """Return the first page, logged in by a link."""
        page = self.open(**context)
        page.goto(self.live_site.link(*role))
        playwright.expect(page.locator("#link")).to_have_text("Live")
        return page

    def check(self) -> None:
        """Assert that no page logged an error or sent a request to another host."""
        for context in self.contexts:
            context.close()
        unexpected = [
            error
            for error in self.console_errors
            if not any(part in error for part in self.expected_errors)
        ]
        assert unexpected == []
        assert self.foreign_requests == []

    def _record_message(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.console_errors.append(f"{message.text} ({message.location.get('url', '')})")

    def _record_request(self, request: Any) -> None:
        if not request.url.startswith((self.live_site.url, "data:", "blob:")):
            self.foreign_requests.append(request.url)


@pytest.fixture(scope="session")
def chromium() -> str:
    machine = Machine()
    path = find(machine)
    if path is None:
        machine.skip(NONE)
    return path


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    with playwright.sync_playwright() as player:
        playwright.expect.set_options(timeout=PATIENCE_MS)
        opened = player.chromium.launch(
            executable_path=chromium, args=list(ARGUMENTS), timeout=3 * PATIENCE_MS
        )
        yield opened
        opened.close()


@pytest.fixture
def live_site(pool: ConnectionPool, tmp_path: Path) -> Iterator[LiveSite]:
    with build_site(pool, tmp_path) as live_site:
        yield live_site


@pytest.fixture
def pages(browser: Any, live_site: LiveSite) -> Iterator[BrowserPages]:
    pages = BrowserPages(browser=browser, live_site=live_site)
    yield pages
    pages.check()


@pytest.fixture
def page(pages: BrowserPages) -> Any:
    """Return the first page as an operator sees it."""
    return pages.log_in()
