"""Keyboard only, a narrow screen, and outages of server and database."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.browser.conftest import BrowserPages, playwright
from tests.browser.site import HELD, LiveSite

from headway.store.server.embedded import EmbeddedServer

expect = playwright.expect
NARROW = {"width": 380, "height": 800}
SECTIONS = ("", "freshness", "timetable", "changes", "trouble", "accounts", "parts", "keys")
FOCUSED = "document.activeElement.textContent.trim()"
# The focus must be visible: an outline or a shadow that the element lacks without focus.
IS_RINGED = """() => {
    const style = getComputedStyle(document.activeElement);
    const hasOutline = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    return hasOutline || style.boxShadow !== "none";
}"""


def tab_to(page: Any, target: str, most: int = 120) -> None:
    """Press Tab until the target has the focus; the focus must be visible at every stop."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            continue  # the focus passes through the browser's own controls
        assert page.evaluate(IS_RINGED), page.evaluate("document.activeElement.outerHTML")
        if page.evaluate(FOCUSED) == target:
            return
    pytest.fail("it cannot be reached by Tab")


def test_everything_works_by_keyboard(pages: BrowserPages, live_site: LiveSite) -> None:
    page = pages.open()
    page.goto(live_site.url)
    expect(page.get_by_label("Key")).to_be_focused()
    page.keyboard.type(live_site.key())
    page.keyboard.press("Enter")
    expect(page.locator("#link")).to_have_text("Live")
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type(HELD)
    page.keyboard.press("Enter")
    expect(page.locator("#found tbody tr")).to_have_count(1)
    tab_to(page, HELD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(HELD)
    expect(page.locator("#link")).to_have_text("Live")
    tab_to(page, "Read now")
    page.keyboard.press("Enter")
    expect(page.locator("#toasts .toast")).to_contain_text(HELD)
    page.keyboard.press("g")
    page.keyboard.press("n")
    expect(page.locator(".seat").first).to_have_attribute("data-priority", "manual")


def test_the_first_tab_skips_to_the_content(page: Any) -> None:
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("#content")).to_be_focused()


def test_escape_closes_dialogs_and_the_focus_returns(page: Any) -> None:
    tab_to(page, "Pause")
    page.keyboard.press("Enter")
    expect(page.locator("#ask")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#ask")).to_be_hidden()
    expect(page.locator("#pause-button")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#shortcuts")).to_be_hidden()
    page.keyboard.press("p")
    expect(page.locator("#ask-title")).to_have_text("Pause everything?")
    page.keyboard.press("Escape")
    expect(page.locator("#banners .banner")).to_have_count(0)


def test_the_focus_stays_when_the_panel_is_redrawn(page: Any, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}changes")
    button = page.locator("table.held tbody tr").first.get_by_role("button", name="Reject")
    button.focus()
    live_site.run()
    page.evaluate("window.drawn = 0")
    page.evaluate("addEventListener('htmx:sse:after:message', () => { window.drawn += 1; }, true)")
    page.wait_for_function("() => window.drawn >= 5")
    expect(button).to_be_focused()


def test_text_in_a_dialog_survives_a_redraw_of_the_panel(page: Any, live_site: LiveSite) -> None:
    live_site.run()
    page.locator("#pause-button").click()
    page.get_by_label("Reason").fill("half a sen")
    page.evaluate("window.drawn = 0")
    page.evaluate("addEventListener('htmx:sse:after:message', () => { window.drawn += 1; }, true)")
    page.wait_for_function("() => window.drawn >= 5")
    expect(page.get_by_label("Reason")).to_have_value("half a sen")
    expect(page.get_by_label("Reason")).to_be_focused()


WIDE = """() => {
    const most = document.documentElement.clientWidth;
    const wide = [...document.querySelectorAll("body *")].filter((element) => {
        const box = element.getBoundingClientRect();
        return box.width && box.right > most + 1 && !element.closest("nav, .sr, [popover], dialog");
    });
    return { scrolls: document.documentElement.scrollWidth - most,
             wide: wide.slice(0, 3).map((element) => element.outerHTML.slice(0, 120)) };
}"""
SMALL = """() => [...document.querySelectorAll("button, nav a, input, select, .act")]
    .filter((element) => element.offsetParent && !["radio", "hidden"].includes(element.type))
    .map((element) => [element.getBoundingClientRect(), element.outerHTML.slice(0, 120)])
    .filter(([box]) => box.width && (box.width < 24 || box.height < 24))
    .map(([box, html]) => `${box.width}x${box.height} ${html}`)"""


def test_a_narrow_screen_shows_every_section_without_scrolling_sideways(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    page = pages.log_in(viewport=NARROW, has_touch=True)
    for section in (*SECTIONS, f"parts/{HELD}"):
        page.goto(live_site.url + section)
        expect(page.locator("#link")).to_have_attribute("data-state", "live")
        overflow = page.evaluate(WIDE)
        assert overflow["scrolls"] <= 0, (section, overflow)
        assert page.evaluate(SMALL) == [], section
        for here in page.locator(".sections [aria-current]").all():
            expect(here).to_be_in_viewport(ratio=1)


def test_a_narrow_screen_can_be_navigated_and_used(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    page = pages.log_in(viewport=NARROW, has_touch=True)
    sections = page.get_by_role("navigation", name="Sections")
    for name, heading in (("Changes", "Changes"), ("Trouble", "Trouble"), ("Accounts", "Accounts")):
        sections.get_by_role("link", name=name).tap()
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    page.locator("#pause-button").tap()
    expect(page.locator("#ask")).to_be_in_viewport(ratio=1)
    page.locator("#ask-yes").tap()
    expect(page.locator("#banners")).to_contain_text("Paused")
    page.locator("#resume-button").tap()
    expect(page.locator("#banners .banner")).to_have_count(0)


def test_the_page_shows_a_server_outage_and_recovers(
    pages: BrowserPages, page: Any, live_site: LiveSite
) -> None:
    pages.expected_errors += ["net::ERR_", "htmx:sse:error"]
    live_site.close()
    expect(page.locator("#link")).to_contain_text("Lost since")
    live_site.open()
    expect(page.locator("#link")).to_have_text("Live")
    page.evaluate("window.drawn = 0")
    page.evaluate("addEventListener('htmx:sse:after:message', () => { window.drawn += 1; }, true)")
    page.wait_for_function("() => window.drawn >= 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """A database that refuses connections from `begin` to `end`."""

    server: EmbeddedServer
    name: str

    def begin(self) -> None:
        self._execute(f'ALTER DATABASE "{self.name}" ALLOW_CONNECTIONS false')
        self._execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", self.name
        )

    def end(self) -> None:
        self._execute(f'ALTER DATABASE "{self.name}" ALLOW_CONNECTIONS true')

    def _execute(self, statement: str, *values: str) -> None:
        with psycopg.connect(self.server.dsn("postgres"), autocommit=True) as other:
            other.execute(statement, values)


@pytest.fixture
def outage(live_site: LiveSite, postgres: EmbeddedServer) -> Iterator[Outage]:
    outage = Outage(server=postgres, name=str(conninfo_to_dict(live_site.pool.conninfo)["dbname"]))
    yield outage
    outage.end()


def test_the_page_shows_a_database_outage_and_recovers(
    pages: BrowserPages, page: Any, live_site: LiveSite, outage: Outage
) -> None:
    pages.expected_errors.append("503")
    outage.begin()
    banner = page.locator("#banner-down")
    expect(banner).to_contain_text("The database has not answered since")
    fresh = page.context.new_page()
    fresh.goto(live_site.url)
    expect(fresh.locator("#content")).to_contain_text("database")
    outage.end()
    expect(banner).to_have_count(0)
    expect(fresh.locator("#next-title")).to_be_visible()
    expect(fresh.locator("#countdown")).to_be_visible()
