"""The search box: suggestions while typing, chosen by keyboard or mouse."""

import re
from typing import Any

from tests.browser.conftest import BrowserPages, playwright
from tests.browser.site import ACME, ODD, LiveSite
from tests.browser.test_accessibility import serious_issues

from headway.core.access import Role

expect = playwright.expect
PIECE = "an960-000"


def type_in(page: Any, text: str) -> Any:
    """Type into the search box; return the suggestions."""
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type(text)
    expect(page.locator("#find")).to_have_attribute("aria-expanded", "true")
    return page.get_by_role("listbox", name="Parts that match").get_by_role("option")


def test_matches_are_suggested_and_chosen_by_arrow_keys(page: Any) -> None:
    options = type_in(page, PIECE)
    expect(options).to_have_count(7)
    expect(options.first).to_contain_text("AN960-0001")
    expect(options.first).to_contain_text("fresh")
    expect(options.last).to_contain_text("All matches")
    assert serious_issues(page) == []
    field = page.get_by_role("combobox", name="Find a part")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(field).to_have_attribute("aria-activedescendant", "find-2")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    expect(field).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("AN960-0001")


def test_escape_closes_the_suggestions_and_enter_without_a_choice_lists_all(page: Any) -> None:
    options = type_in(page, PIECE)
    page.keyboard.press("Escape")
    expect(options.first).to_be_hidden()
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/parts\?q=an960-000"))
    expect(page.locator("#found tbody tr").first).to_be_visible()


def test_a_suggestion_with_an_unusual_number_can_be_clicked(page: Any) -> None:
    options = type_in(page, ODD[:6].lower())
    expect(options).to_have_count(1)
    options.first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(ODD)


def test_a_seller_gets_suggestions_of_its_own_parts_only(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    other = next(sku for sku in live_site.catalog.parts if live_site.owner(sku) != ACME)
    page = pages.log_in(Role.SELLER, ACME)
    options = type_in(page, other)
    expect(options).to_have_text([re.compile("No part matches")])
    assert options.get_attribute("aria-disabled") == "true"


def test_without_scripts_the_box_is_a_form(pages: BrowserPages, live_site: LiveSite) -> None:
    page = pages.open(java_script_enabled=False)
    page.goto(live_site.link())
    page.locator("#find").fill(PIECE)
    page.locator("#find").press("Enter")
    expect(page.locator("#found tbody tr").first).to_be_visible()
    expect(page.locator("#find-list")).to_be_hidden()
