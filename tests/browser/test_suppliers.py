"""Suppliers on the page: whoever is in trouble first, and one may be stopped alone."""

import re
from typing import Any

from tests.browser.conftest import Witness, playwright
from tests.browser.site import ACME, House

from headway.app.suppliers import add_supplier
from headway.core.access import Role
from headway.core.catalog.listings import SupplierName
from headway.core.limits.breaker import FAILURES_MAX
from headway.providers.provider import SupplierSetup

expect = playwright.expect
CARD = "#suppliers"


def add(house: House, *names: str) -> None:
    for name in names:
        secrets = {"client_secret": "s", "password": "p"}
        setup = SupplierSetup(client_id=f"{name}-id", username="us", secrets=secrets)
        add_supplier(house.app, SupplierName(name), setup)


def let_fail(house: House, name: str) -> None:
    limit_key = house.app.for_supplier(SupplierName(name)).limit_key
    breaker = house.app.breakers.load(limit_key)
    for _ in range(FAILURES_MAX):
        breaker = breaker.failed(house.clock.now(), "it answers 503")
    house.app.breakers.save(limit_key, breaker)


def test_suppliers_are_shown_once_there_are_several_the_troubled_first(
    witness: Witness, house: House
) -> None:
    page = witness.enter()
    expect(page.locator(CARD)).to_have_count(0)
    add(house, *(f"s{number:02}" for number in range(12)))
    let_fail(house, "s07")
    rows = page.locator(f"{CARD} tbody tr")
    expect(rows).to_have_count(10)
    expect(rows.first).to_contain_text(re.compile("s07.*does not answer since", re.DOTALL))
    expect(rows.nth(1)).to_contain_text("main")
    expect(page.locator(CARD)).to_contain_text("and 3 more")
    theirs = witness.enter(Role.SELLER, ACME)
    expect(theirs.locator("#next-title")).to_be_visible()
    expect(theirs.locator(CARD)).to_have_count(0)


def test_one_supplier_is_paused_and_resumed_from_its_row(page: Any, house: House) -> None:
    add(house, "east")
    row = page.locator(f"{CARD} tbody tr", has_text="east")
    row.get_by_role("button", name="Pause").click()
    page.get_by_label("Why").fill("its list is wrong")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    expect(page.locator("#banners")).to_contain_text("Paused: the supplier east.")
    expect(page.locator(f"{CARD} tbody tr", has_text="main")).not_to_contain_text("paused")
    row.get_by_role("button", name="Resume").click()
    expect(row).not_to_contain_text("paused")
    assert house.ask("SELECT count(*) FROM pauses WHERE until IS NULL") == [(0,)]
