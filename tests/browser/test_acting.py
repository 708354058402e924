"""Actions of the buttons, and their effect on shop and supplier."""

from decimal import Decimal
from typing import Any

import pytest
from tests.browser.conftest import BrowserPages, playwright
from tests.browser.site import ACME, DOUBTED, HELD, NORTHWIND, ODD, PARKED, LiveSite

expect = playwright.expect


def toast(page: Any) -> Any:
    return page.locator("#toasts .toast")


def test_a_triggered_part_is_in_the_next_call_and_is_read(page: Any, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}parts/{HELD}")
    page.get_by_role("button", name="Read now").click()
    expect(toast(page)).to_contain_text(HELD)
    page.goto(live_site.url)
    first = page.locator(".seat").first
    expect(first).to_have_attribute("data-priority", "manual")
    expect(first.locator(".sku")).to_have_text(HELD)
    live_site.catalog.move(HELD, "0.4")
    before = live_site.price_calls()
    live_site.run()
    expect(page.locator(".seat[data-priority=manual]")).to_have_count(0)
    assert live_site.price_calls() > before
    page.goto(f"{live_site.url}parts/{HELD}")
    expect(page.locator("section[aria-labelledby=reads-title] tbody tr")).not_to_have_count(0)
    expect(page.locator(".decide")).to_have_count(0)


def test_a_part_with_an_unusual_number_is_triggered_paused_and_resumed(
    page: Any, live_site: LiveSite
) -> None:
    page.goto(f"{live_site.url}parts?q=338")
    page.get_by_role("link", name=ODD).click()
    page.get_by_role("button", name="Read now").click()
    expect(toast(page).first).to_contain_text(ODD)
    section = page.locator("section.card").first
    section.get_by_role("button", name="Pause").click()
    page.locator("#ask-yes").click()
    expect(section.get_by_role("button", name="Resume")).to_be_visible()
    expect(page.locator(".says")).to_contain_text("paused")
    section.get_by_role("button", name="Resume").click()
    expect(section.get_by_role("button", name="Pause")).to_be_visible()


def test_an_approved_price_reaches_the_shop(page: Any, live_site: LiveSite) -> None:
    live_site.run()
    page.goto(f"{live_site.url}changes")
    row = page.locator("table.held tbody tr").filter(has_text=HELD)
    assert live_site.price_in_shop(HELD) == Decimal("14.30")
    before = live_site.clock.now()
    row.get_by_role("button", name="Approve").click()
    expect(toast(page).first).to_contain_text(HELD)
    expect(row).to_have_count(0)
    page.goto(f"{live_site.url}parts/{HELD}")
    expect(page.locator("section[aria-labelledby=events-title]")).to_contain_text("35.75")
    shop = page.locator("dl.facts div").filter(has_text="Shop").first
    expect(shop).not_to_contain_text("→")
    expect(shop).to_contain_text("35.75")
    assert live_site.price_in_shop(HELD) == Decimal("35.75")
    page.get_by_role("button", name="Roll back").click()
    page.get_by_label("Restore the price of").fill(f"{before:%Y-%m-%dT%H:%M:%S}")
    page.get_by_role("button", name="Roll back").last.click()
    expect(page.locator("#ask-text")).to_contain_text("35.75 → 14.30")
    assert live_site.price_in_shop(HELD) == Decimal("35.75"), "nothing is sent before the question"
    page.get_by_role("button", name="Confirm").click()
    expect(shop).to_contain_text("14.30")
    expect(page.locator("section[aria-labelledby=events-title]")).to_contain_text("Rolled back")


def test_a_rejected_price_never_reaches_the_shop(page: Any, live_site: LiveSite) -> None:
    live_site.run()
    page.goto(f"{live_site.url}changes")
    row = page.locator("table.held tbody tr").filter(has_text=DOUBTED)
    row.get_by_role("button", name="Reject").click()
    expect(row).to_have_count(0)
    page.goto(f"{live_site.url}parts/{DOUBTED}")
    expect(page.locator("section[aria-labelledby=events-title]")).to_contain_text("operator")
    expect(page.locator(".decide")).to_have_count(0)
    assert live_site.price_in_shop(DOUBTED) == Decimal("15.40")


def test_approving_all_needs_a_reason_and_can_be_cancelled(page: Any, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}changes")
    rows = page.locator("table.held tbody tr")
    page.get_by_role("button", name="Approve all").click()
    expect(page.locator("#ask-text")).to_contain_text("2 prices change, from ")
    page.locator("#ask-yes").click()
    expect(page.locator("#ask")).to_be_visible()  # the reason is missing
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#ask")).to_be_hidden()
    expect(rows).to_have_count(2)
    page.get_by_role("button", name="Approve all").click()
    page.get_by_label("Reason").fill("the supplier confirmed it")
    page.locator("#ask-yes").click()
    expect(rows).to_have_count(0)
    actors = live_site.execute(
        "SELECT actor FROM sync_audit_log WHERE event_type LIKE '%%approved%%'"
    )
    assert actors == [("operator",), ("operator",)]


def test_the_second_click_of_a_double_click_does_nothing_beneath_the_dialog(
    page: Any, live_site: LiveSite
) -> None:
    page.goto(f"{live_site.url}changes")
    page.get_by_role("button", name="Approve all").click()
    page.get_by_label("Reason").fill("the supplier confirmed it")
    page.evaluate(
        """() => {
            const link = document.createElement("a");
            Object.assign(link, { id: "beneath", href: "/trouble" });
            Object.assign(link.style, { position: "fixed", inset: "0", zIndex: "9" });
            document.body.append(link);
        }"""
    )
    page.locator("#ask-yes").dblclick()
    expect(page.locator("table.held tbody tr")).to_have_count(0)
    assert page.url.endswith("/changes")
    page.locator("#beneath").click()
    page.wait_for_url("**/trouble")


def wait_minutes(page: Any, count: int) -> None:
    """Wait until this many minutes have passed on the page's clock."""
    page.wait_for_function(
        """(count) => {
            const now = Number(document.getElementById("state").dataset.now) / 60000;
            window.waitedFrom ??= now;
            const isOver = now - window.waitedFrom >= count;
            if (isOver) window.waitedFrom = undefined;
            return isOver;
        }""",
        arg=count,
    )


def test_a_pause_of_everything_is_shown_everywhere_and_stops_calls(
    page: Any, live_site: LiveSite
) -> None:
    live_site.run()
    page.locator("#pause-button").click()
    page.get_by_label("Reason").fill("the price list is wrong")
    page.locator("#ask-yes").click()
    banner = page.locator("#banners .banner.warn")
    expect(banner).to_contain_text("Paused: everything")
    expect(page.locator("#resume-button")).to_be_visible()
    wait_minutes(page, 1)  # calls in progress have ended
    before = live_site.price_calls()
    for section in ("freshness", "timetable", "changes", "trouble", "accounts", "parts", "keys"):
        page.goto(live_site.url + section)
        expect(banner).to_contain_text("the price list is wrong")
        expect(page.locator("#resume-button")).to_be_visible()
    page.goto(live_site.url)
    wait_minutes(page, 3)  # six calls would have left
    assert live_site.price_calls() == before
    page.locator("#resume-button").click()
    expect(banner).to_have_count(0)
    expect(page.locator("#pause-button")).to_be_visible()
    expect(page.locator("#countdown")).to_be_visible()
    calls = page.locator("section[aria-labelledby=calls-title] tbody tr").first
    newest = calls.get_attribute("id")
    expect(calls).not_to_have_attribute("id", newest)
    assert live_site.price_calls() > before


def test_a_pause_can_be_undone_at_once(page: Any) -> None:
    page.locator("#pause-button").click()
    page.locator("#ask-yes").click()
    expect(page.locator("#banners .banner.warn")).to_be_visible()
    toast(page).get_by_role("button", name="Undo").click()
    expect(page.locator("#banners .banner.warn")).to_have_count(0)


def test_a_parked_part_is_revived_and_read_again(page: Any, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}trouble")
    row = page.locator("section[aria-labelledby=parked-title] tbody tr").filter(has_text=PARKED)
    expect(row).to_contain_text("The supplier does not know it")
    row.get_by_role("button", name="Revive").click()
    expect(toast(page)).to_contain_text(PARKED)
    expect(row).to_have_count(0)
    live_site.run()
    page.goto(f"{live_site.url}parts/{PARKED}")
    expect(page.locator("section.card .pill.state").first).to_have_text("fresh")


def test_a_dead_job_is_revived(page: Any, live_site: LiveSite) -> None:
    ((job,),) = live_site.execute(
        "UPDATE sync_jobs SET status = 'dead', next_run_at = NULL, retry_count = 8,"
        " last_error = 'etsy answered 403' WHERE user_id = %s AND platform = 'etsy'"
        " AND kind = 'orders' AND job_type = 'incremental' RETURNING id",
        NORTHWIND,
    )
    page.goto(f"{live_site.url}trouble")
    dead = page.locator("section[aria-labelledby=dead-title] li")
    expect(dead).to_contain_text("etsy answered 403")
    dead.get_by_role("button", name="Revive").click()
    expect(dead).to_have_count(0)
    assert live_site.execute("SELECT status FROM sync_jobs WHERE id = %s", job) == [("queued",)]


def test_an_action_is_shown_to_other_viewers(pages: BrowserPages, live_site: LiveSite) -> None:
    one, other = pages.log_in(), pages.log_in()
    for page in (one, other):
        page.goto(f"{live_site.url}changes")
    rows = other.locator("table.held tbody tr")
    expect(rows).to_have_count(2)
    other.evaluate("window.isTheSame = true")
    one.locator("table.held tbody tr").first.get_by_role("button", name="Reject").click()
    expect(rows).to_have_count(1)
    one.locator("#pause-button").click()
    one.locator("#ask-yes").click()
    expect(other.locator("#banners")).to_contain_text("Paused: everything")
    expect(other.locator("#resume-button")).to_be_visible()
    assert other.evaluate("window.isTheSame"), "the page was never loaded again"


@pytest.mark.parametrize("how", ("gone", "refused"))
def test_a_failed_action_shows_an_error_and_can_be_repeated(
    pages: BrowserPages, page: Any, live_site: LiveSite, how: str
) -> None:
    page.goto(f"{live_site.url}changes")
    row = page.locator("table.held tbody tr").filter(has_text=HELD)
    api = f"{live_site.url}api/sync/approve"
    detail = '{"detail": "the shop is closed"}'
    if how == "gone":
        pages.expected_errors.append("ERR_FAILED")
        page.route(api, lambda route: route.abort())
    else:
        pages.expected_errors.append("503")
        page.route(
            api,
            lambda route: route.fulfill(
                status=503, content_type="application/problem+json", body=detail
            ),
        )
    row.get_by_role("button", name="Approve").click()
    message = "the server is not responding" if how == "gone" else "The shop is closed"
    expect(page.get_by_role("alert").filter(has_text="Not done")).to_contain_text(
        message, ignore_case=True
    )
    page.unroute(api)
    row.get_by_role("button", name="Approve").click()
    expect(row).to_have_count(0)


def test_parts_are_published_from_the_page(page: Any, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}parts")
    page.get_by_role("button", name="Publish parts").click()
    page.get_by_label("Part numbers, one per line").fill(f"NEW1=K3\n\n {HELD.lower()} \n")
    page.get_by_label("Into the shop of").fill(ACME)
    page.locator("#ask-yes").click()
    expect(toast(page)).to_contain_text("1 refused")
    expect(toast(page)).to_contain_text(f"differs from {HELD} only in case or spaces")
    page.goto(f"{live_site.url}parts?q=NEW1")
    expect(page.locator("table.parts tbody tr")).to_contain_text("NEW1=K3")


def test_a_part_is_removed_and_brought_back(page: Any, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}parts/{PARKED}")
    page.get_by_role("button", name="Remove").click()
    page.get_by_label("In the shop").select_option("keep")
    page.locator("#ask-yes").click()
    expect(toast(page)).to_contain_text("removed; the shop is as it was")
    expect(page.locator(".says")).to_contain_text("neither read nor written")
    expect(page.locator(".pill.state").first).to_have_text("removed")
    page.get_by_role("button", name="Revive").click()
    expect(page.locator(".pill.state").first).not_to_have_text("removed")


def test_the_price_rule_of_a_seller_is_set_on_the_page(page: Any, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}parts/{HELD}")
    page.get_by_role("button", name="Price rule").click()
    page.get_by_label("Markup", exact=True).fill("12.5%")
    page.get_by_label("Rounding").select_option("99")
    page.get_by_label("Currency").fill("eur")
    page.get_by_label("Locations").fill("Dallas Central=Warehouse")
    page.get_by_role("button", name="Save").click()
    expect(toast(page)).to_contain_text("price rule of acme saved", ignore_case=True)
    terms = live_site.app.sellers.own_terms(ACME)
    assert (terms["markup"], terms["rounding"]) == (Decimal("0.125"), "99")
    assert (terms["currency"], terms["locations"]) == ("EUR", "Dallas Central=Warehouse")
    assert terms["price_basis"] is None, "what was not changed is not set"
    page.goto(f"{live_site.url}accounts")
    page.get_by_role("row", name="acme").get_by_role("button", name="Price rule").click()
    expect(page.get_by_label("Markup", exact=True)).to_have_value("12.5%")
    page.get_by_label("Give up this seller's own rule").check()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#ask")).to_be_hidden()
    expect(toast(page).first).to_be_visible()
    assert set(live_site.app.sellers.own_terms(ACME).values()) == {None}
