"""The page of one part: its chart has a text alternative."""

from tests.browser.conftest import BrowserPages, playwright
from tests.browser.site import ACME, LiveSite
from tests.browser.test_paging import LISTINGS

expect = playwright.expect


def test_a_chart_without_a_shop_price_says_so(pages: BrowserPages, live_site: LiveSite) -> None:
    now = live_site.clock.now()
    live_site.execute(LISTINGS, ACME, "NEVER-", now, 1, "failed")
    live_site.execute(
        "INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, old_value,"
        " new_value) SELECT %s, 'NEVER-001', %s - n * interval '1 hour', 'price_changed',"
        " '{\"list_price\": 9}', '{\"list_price\": 10}' FROM generate_series(1, 3) AS n",
        ACME,
        now,
    )
    page = pages.log_in()
    page.goto(f"{live_site.url}parts/NEVER-001")
    expect(page.locator(".legend")).to_contain_text("nothing was written to it yet")
    expect(page.locator(".legend")).not_to_contain_text("shop price")
    label = page.locator("[data-chart=prices]").get_attribute("aria-label")
    assert "no line for the shop" in label
    # The axis names each day once: 60 hours, a mark every 12.
    marks = page.evaluate("timesOf(null, [0, 1, 2, 3, 4, 5].map((step) => step * 43200))")
    assert marks == ["1 Jan", "12:00", "2 Jan", "12:00", "3 Jan", "12:00"]
