"""axe-core, which is vendored for tests only, finds no serious issue on any page."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import BrowserPages, playwright
from tests.browser.site import HELD, LiveSite

expect = playwright.expect
VENDOR = Path(__file__).parent / "vendor"
AXE = VENDOR / "axe.min.js"
SECTIONS = ("", "freshness", "timetable", "changes", "trouble", "accounts", "parts", "keys")
GRAVE = {"serious", "critical"}
NARROW = {"width": 380, "height": 800}


def serious_issues(page: Any) -> list[str]:
    """Run axe on a page; return the serious issues with their elements.

    Then it looks at the colours alone, in the dark: nothing else is different there.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    page.emulate_media(color_scheme="light")
    serious = run_axe(page, "{ resultTypes: ['violations'] }")
    page.emulate_media(color_scheme="dark")
    return serious + run_axe(page, "{ runOnly: ['color-contrast'] }")


def run_axe(page: Any, options: str) -> list[str]:
    result = page.evaluate(f"axe.run(document, {options})")
    assert result["passes"], "it looked at nothing"
    return [
        f"{violation['id']}: {node['target']} {node['failureSummary']}"
        for violation in result["violations"]
        if violation["impact"] in GRAVE
        for node in violation["nodes"]
    ]


def all_serious_issues(page: Any, live_site: LiveSite) -> Iterator[str]:
    for section in (*SECTIONS, "import", "connect", "shops", f"parts/{HELD}", "parts?q=nothing"):
        page.goto(live_site.url + section)
        expect(page.locator("#link")).to_have_attribute("data-state", "live")
        yield from (f"/{section} {issue}" for issue in serious_issues(page))


@pytest.mark.parametrize("record", (VENDOR / "MANIFEST").read_text().splitlines()[1:])
def test_vendored_files_match_the_manifest(record: str) -> None:
    name, *_, expected = record.split()
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == expected


def test_no_section_has_a_serious_issue(pages: BrowserPages, live_site: LiveSite) -> None:
    page = pages.log_in()
    assert list(all_serious_issues(page, live_site)) == []


def test_no_section_has_a_serious_issue_on_a_narrow_screen(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    page = pages.log_in(viewport=NARROW)
    assert list(all_serious_issues(page, live_site)) == []


def test_dialogs_menus_toasts_and_banners_have_no_serious_issue(page: Any) -> None:
    page.keyboard.press("?")
    assert serious_issues(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Logged in as").click()
    assert serious_issues(page) == []
    page.keyboard.press("Escape")
    page.locator("#pause-button").click()
    assert serious_issues(page) == []
    page.locator("#ask-yes").click()
    expect(page.locator("#banners .banner.warn")).to_be_visible()
    expect(page.locator("#toasts .toast")).to_be_visible()
    assert serious_issues(page) == []


def test_the_login_has_no_serious_issue_before_and_after_a_wrong_key(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    pages.expected_errors.append("401")
    page = pages.open()
    page.goto(live_site.url)
    assert serious_issues(page) == []
    page.get_by_label("Key").fill("hw_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    assert serious_issues(page) == []


def test_axe_finds_a_missing_label(page: Any) -> None:
    page.evaluate("document.querySelector('#theme').removeAttribute('aria-label')")
    page.evaluate("document.querySelector('#theme').removeAttribute('title')")
    assert any("button-name" in issue for issue in serious_issues(page))


def test_axe_finds_low_contrast_in_dark_mode_only(pages: BrowserPages, live_site: LiveSite) -> None:
    page = pages.open()
    page.goto(live_site.url)
    page.evaluate("document.querySelector('h1').style.color = '#333'")
    (issue,) = serious_issues(page)
    assert "color-contrast" in issue
