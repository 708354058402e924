"""The reference of the API in a browser: wide and narrow, light and dark."""

from typing import Any

import pytest
from tests.browser.conftest import BrowserPages, playwright
from tests.browser.site import LiveSite
from tests.browser.test_accessibility import serious_issues

expect = playwright.expect


@pytest.mark.parametrize("width", (1440, 380))
def test_it_can_be_read_on_a_wide_and_on_a_narrow_screen_in_light_and_dark(
    pages: BrowserPages, live_site: LiveSite, width: int
) -> None:
    page = pages.log_in(viewport={"width": width, "height": 900})
    page.get_by_role("button", name="Logged in as").click()
    page.get_by_role("link", name="API reference").click()
    assert all_visible(page)
    page.get_by_role("link", name="Approve changes").click()
    expect(page).to_have_url(f"{live_site.url}docs/changes#approve_changes")
    expect(page.locator("#approve_changes")).to_be_in_viewport()
    assert all_visible(page)
    page.locator("#approve_changes").get_by_role("link", name="Rulings").first.click()
    expect(page.locator("#schema-Rulings")).to_be_in_viewport()


def all_visible(page: Any) -> bool:
    """Check a page in both schemes: no serious issue, and nothing beyond its right edge."""
    assert serious_issues(page) == []
    width, inner = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return bool(width <= inner)
