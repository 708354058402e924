"""axe-core, which is vendored for tests alone, finds nothing serious on any page."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.browser.conftest import Witness, playwright
from tests.browser.site import HELD, House

expect = playwright.expect
VENDOR = Path(__file__).parent / "vendor"
AXE = VENDOR / "axe.min.js"
SECTIONS = ("", "freshness", "timetable", "changes", "trouble", "accounts", "parts", "keys")
GRAVE = {"serious", "critical"}
NARROW = {"width": 380, "height": 800}


def found(page: Any) -> list[str]:
    """Let axe look at a page; return what is serious, and where.

    Then it looks at the colours alone, in the dark: nothing else is different there.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    page.emulate_media(color_scheme="light")
    serious = look(page, "{ resultTypes: ['violations'] }")
    page.emulate_media(color_scheme="dark")
    return serious + look(page, "{ runOnly: ['color-contrast'] }")


def look(page: Any, options: str) -> list[str]:
    result = page.evaluate(f"axe.run(document, {options})")
    assert result["passes"], "it looked at nothing"
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in result["violations"]
        if each["impact"] in GRAVE
        for node in each["nodes"]
    ]


def all_found(page: Any, house: House) -> Iterator[str]:
    for section in (*SECTIONS, f"parts/{HELD}", "parts?q=nothing"):
        page.goto(house.url + section)
        expect(page.locator("#link")).to_have_attribute("data-state", "live")
        yield from (f"/{section} {each}" for each in found(page))


@pytest.mark.parametrize("record", (VENDOR / "MANIFEST").read_text().splitlines()[1:])
def test_what_is_vendored_is_what_the_manifest_says(record: str) -> None:
    name, *_, expected = record.split()
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == expected


def test_no_section_has_a_serious_issue(witness: Witness, house: House) -> None:
    page = witness.enter()
    assert list(all_found(page, house)) == []


def test_no_section_has_a_serious_issue_on_a_narrow_screen(witness: Witness, house: House) -> None:
    page = witness.enter(viewport=NARROW)
    assert list(all_found(page, house)) == []


def test_dialogs_menus_toasts_and_banners_have_no_serious_issue(page: Any) -> None:
    page.keyboard.press("?")
    assert found(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Logged in as").click()
    assert found(page) == []
    page.keyboard.press("Escape")
    page.locator("#pause-button").click()
    assert found(page) == []
    page.locator("#ask-yes").click()
    expect(page.locator("#banners .banner.warn")).to_be_visible()
    expect(page.locator("#toasts .toast")).to_be_visible()
    assert found(page) == []


def test_the_login_has_no_serious_issue_before_and_after_a_wrong_key(
    witness: Witness, house: House
) -> None:
    witness.forgiven.append("401")
    page = witness.open()
    page.goto(house.url)
    assert found(page) == []
    page.get_by_label("Key").fill("hw_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    assert found(page) == []


def test_axe_does_find_what_is_wrong(page: Any) -> None:
    page.evaluate("document.querySelector('#theme').removeAttribute('aria-label')")
    page.evaluate("document.querySelector('#theme').removeAttribute('title')")
    assert any("button-name" in each for each in found(page))


def test_axe_does_find_what_cannot_be_read_in_the_dark_alone(
    witness: Witness, house: House
) -> None:
    page = witness.open()
    page.goto(house.url)
    page.evaluate("document.querySelector('h1').style.color = '#333'")
    (only,) = found(page)
    assert "color-contrast" in only
