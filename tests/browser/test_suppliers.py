"""Suppliers on the page: failing ones first, and each can be paused."""

import re
from typing import Any

from tests.browser.conftest import BrowserPages, playwright
from tests.browser.site import ACME, LiveSite

from headway.app.suppliers import add_supplier
from headway.core.access import Role
from headway.core.catalog.listings import SupplierName
from headway.core.limits.breaker import FAILURES_MAX
from headway.providers.provider import SupplierSetup

expect = playwright.expect
CARD = "#suppliers"


def add(live_site: LiveSite, *names: str) -> None:
    for name in names:
        secrets = {"client_secret": "s", "password": "p"}
        setup = SupplierSetup(client_id=f"{name}-id", username="us", secrets=secrets)
        add_supplier(live_site.app, SupplierName(name), setup)


def let_fail(live_site: LiveSite, name: str) -> None:
    limit_key = live_site.app.for_supplier(SupplierName(name)).limit_key
    breaker = live_site.app.breakers.load(limit_key)
    for _ in range(FAILURES_MAX):
        breaker = breaker.failed(live_site.clock.now(), "it answers 503")
    live_site.app.breakers.save(limit_key, breaker)


def test_several_suppliers_are_listed_with_failing_ones_first(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    page = pages.log_in()
    expect(page.locator(CARD)).to_have_count(0)
    add(live_site, *(f"s{number:02}" for number in range(12)))
    let_fail(live_site, "s07")
    rows = page.locator(f"{CARD} tbody tr")
    expect(rows).to_have_count(10)
    expect(rows.first).to_contain_text(re.compile("s07.*not responding since", re.DOTALL))
    expect(rows.nth(1)).to_contain_text("main")
    expect(page.locator(CARD)).to_contain_text("and 3 more")
    seller_page = pages.log_in(Role.SELLER, ACME)
    expect(seller_page.locator("#next-title")).to_be_visible()
    expect(seller_page.locator(CARD)).to_have_count(0)


def test_one_supplier_is_paused_and_resumed_from_its_row(page: Any, live_site: LiveSite) -> None:
    add(live_site, "east")
    row = page.locator(f"{CARD} tbody tr", has_text="east")
    row.get_by_role("button", name="Pause").click()
    page.get_by_label("Reason").fill("its list is wrong")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    expect(page.locator("#banners")).to_contain_text("Paused: the supplier east.")
    expect(page.locator(f"{CARD} tbody tr", has_text="main")).not_to_contain_text("paused")
    row.get_by_role("button", name="Resume").click()
    expect(row).not_to_contain_text("paused")
    assert live_site.execute("SELECT count(*) FROM pauses WHERE until IS NULL") == [(0,)]
