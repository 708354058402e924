"""The page of a rehearsal: what would be written to a shop, and the button that starts it."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tests.browser.conftest import BrowserPages, playwright
from tests.browser.site import ACME, NORTHWIND, LiveSite, domain_of

from headway.core.access import Role
from headway.core.catalog.listings import Wait
from headway.operations.callers import operator
from headway.operations.rehearsals import read_again, rehearsal

expect = playwright.expect
IN_REHEARSAL = "UPDATE connected_accounts SET push_started_at = NULL WHERE user_id = %s"
OWN = "SELECT sku FROM listing_state WHERE user_id = %s AND held_reason IS NULL ORDER BY sku"


def push_until(live_site: LiveSite, is_over: Callable[[], bool]) -> None:
    """Step a pusher as the engine does."""
    push, clock = live_site.app.push("test"), live_site.clock
    while not is_over():
        result = push.step()
        if isinstance(result, Wait):
            clock.sleep(max(0.0, (result.until - clock.now()).total_seconds()))


def put_into_rehearsal(live_site: LiveSite) -> str:
    """Let the first seller's shop be in rehearsal, with a price of the merchant's own."""
    live_site.execute(IN_REHEARSAL, ACME)
    ((sku,), *_) = live_site.execute(OWN, ACME)
    price = live_site.price_in_shop(sku) * Decimal("1.2")
    live_site.world.floor.shops.edit_price(domain_of(ACME), sku, price.quantize(Decimal("0.01")))
    caller = operator(live_site.app, "test")
    read_again(caller, ACME)
    push_until(live_site, lambda: not rehearsal(caller, ACME).blocks)
    return str(sku)


def test_a_person_reads_the_report_and_starts_the_shop(page: Any, live_site: LiveSite) -> None:
    sku = put_into_rehearsal(live_site)
    page.goto(live_site.url)
    page.locator(".banner").get_by_role("link", name="See what would be written").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(domain_of(ACME))
    row = page.locator("#every tbody tr").filter(has_text=sku)
    expect(row).to_contain_text("write")
    expect(row).to_contain_text("-16.7 %")
    price = live_site.price_in_shop(sku)
    page.get_by_role("button", name="Looks right, start").click()
    page.locator("#ask-yes").click()
    expect(page.locator("#rehearsal-progress")).to_contain_text("Started")
    expect(page.get_by_role("button", name="Looks right, start")).to_have_count(0)
    push_until(live_site, lambda: live_site.price_in_shop(sku) < price)


def test_a_report_that_is_out_of_date_is_refused_with_what_changed(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    pages.expected_errors.append("409")
    page = pages.log_in()
    sku = put_into_rehearsal(live_site)
    page.goto(f"{live_site.url}rehearsal?shop={ACME}")
    live_site.execute(
        'UPDATE listing_state SET desired = desired || \'{"price": "12.34"}\','
        " desired_at = %s WHERE user_id = %s AND sku = %s",
        live_site.clock.now(),
        ACME,
        sku,
    )
    page.get_by_role("button", name="Looks right, start").click()
    page.locator("#ask-yes").click()
    expect(page.locator("#toasts .toast")).to_contain_text("has changed since")
    expect(page.locator("#toasts .toast")).to_contain_text("price 12.34")


def test_a_reader_sees_the_report_and_no_button(pages: BrowserPages, live_site: LiveSite) -> None:
    put_into_rehearsal(live_site)
    page = pages.log_in(Role.READER, ACME)
    page.goto(f"{live_site.url}rehearsal?shop={ACME}")
    expect(page.locator("#every tbody tr")).not_to_have_count(0)
    expect(page.get_by_role("button", name="Looks right, start")).to_have_count(0)


def test_two_clicks_start_a_shop_once(page: Any, live_site: LiveSite) -> None:
    put_into_rehearsal(live_site)
    page.goto(f"{live_site.url}rehearsal?shop={ACME}")
    page.get_by_role("button", name="Looks right, start").click()
    page.locator("#ask-yes").dblclick()
    expect(page.locator("#rehearsal-progress")).to_contain_text("Started")
    started = "SELECT actor FROM sync_audit_log WHERE event_type = 'shop_started'"
    assert len(live_site.execute(started)) == 1


def test_a_seller_sees_the_rehearsal_of_their_own_shop_alone(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    put_into_rehearsal(live_site)
    page = pages.log_in(Role.SELLER, NORTHWIND)
    expect(page.locator(".banner")).to_have_count(0)
    page.goto(f"{live_site.url}rehearsal?shop={ACME}")
    expect(page.get_by_text("Rehearsal not found")).to_be_visible()
    expect(page.get_by_text(domain_of(ACME))).to_have_count(0)
    expect(page.get_by_role("button", name="Looks right, start")).to_have_count(0)
