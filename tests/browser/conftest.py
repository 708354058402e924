"""Fixtures for tests in a real Chromium: a browser for a module, a house and a witness for a test.

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
from tests.browser.site import House, built
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
class Witness:
    """Opens pages, and sees what they complain of and whom they ask."""

    browser: Any
    house: House
    complaints: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    # Pieces of complaints that a test brings about on purpose.
    forgiven: list[str] = field(default_factory=list)
    contexts: list[Any] = field(default_factory=list)

    def open(self, **context: Any) -> Any:
        """Return a page of a browser that knows nobody; keywords are playwright's."""
        fresh = self.browser.new_context(**{"reduced_motion": "reduce", **context})
        self.contexts.append(fresh)
        fresh.set_default_timeout(PATIENCE_MS)
        fresh.on("console", self._hear)
        fresh.on("weberror", lambda error: self.complaints.append(str(error.error)))
        fresh.on("request", self._see)
        return fresh.new_page()

    def enter(self, *who: Any, **context: Any) -> Any:
        """Return the first page, logged in by a link."""
        page = self.open(**context)
        page.goto(self.house.link(*who))
        playwright.expect(page.locator("#link")).to_have_text("Live")
        return page

    def testify(self) -> None:
        """Assert that no page complained and that nobody else was asked."""
        for context in self.contexts:
            context.close()
        unforgiven = [
            each for each in self.complaints if not any(one in each for one in self.forgiven)
        ]
        assert unforgiven == []
        assert self.strangers == []

    def _hear(self, message: Any) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.text} ({message.location.get('url', '')})")

    def _see(self, request: Any) -> None:
        if not request.url.startswith((self.house.url, "data:", "blob:")):
            self.strangers.append(request.url)


@pytest.fixture(scope="session")
def chromium() -> str:
    machine = Machine()
    path = find(machine)
    if path is None:
        machine.lacks(NONE)
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
def house(pool: ConnectionPool, tmp_path: Path) -> Iterator[House]:
    with built(pool, tmp_path) as house:
        yield house


@pytest.fixture
def witness(browser: Any, house: House) -> Iterator[Witness]:
    witness = Witness(browser=browser, house=house)
    yield witness
    witness.testify()


@pytest.fixture
def page(witness: Witness) -> Any:
    """Return the first page as an operator sees it."""
    return witness.enter()
