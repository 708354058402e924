"""Login, and what the page shows without any action."""

from typing import Any

from tests.browser.conftest import BrowserPages, playwright
from tests.browser.site import ACME, HELD, ODD, LiveSite

from headway.core.access import Role

expect = playwright.expect


def test_a_login_link_works_once_in_a_browser(pages: BrowserPages, live_site: LiveSite) -> None:
    pages.expected_errors.append("401")
    link = live_site.link()
    first = pages.open()
    first.goto(link)
    expect(first.locator("#next-title")).to_have_text("Next call")
    assert first.url == live_site.url
    again = pages.open()
    again.goto(link)
    expect(again.get_by_role("alert")).to_contain_text("used before")


def test_a_key_logs_in_and_redirects_to_the_requested_page(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    page = pages.open()
    page.goto(f"{live_site.url}changes")
    page.get_by_label("Key").fill(live_site.key())
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Changes")
    assert page.url == f"{live_site.url}changes"


def test_a_wrong_key_is_reported_and_the_right_one_still_logs_in(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    pages.expected_errors.append("401")
    page = pages.open()
    page.goto(live_site.url)
    page.get_by_label("Key").fill("hw_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("This API key is invalid")
    expect(page.get_by_label("Key")).to_have_value("")
    page.get_by_label("Key").fill(live_site.key())
    page.keyboard.press("Enter")
    expect(page.locator("#next-title")).to_be_visible()


def test_logging_out_ends_the_session(page: Any, live_site: LiveSite) -> None:
    page.get_by_role("button", name="Logged in as").click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto(live_site.url)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_the_page_shows_a_call_being_sent(page: Any, live_site: LiveSite) -> None:
    page.evaluate("window.isTheSame = true")
    calls = page.locator("section[aria-labelledby=calls-title] tbody tr")
    newest = calls.first.get_attribute("id")
    before = live_site.price_calls()
    # The engine does not run yet: the countdown is over, and the call waits.
    expect(page.locator("#countdown.leaving")).to_have_text("0:00")
    assert live_site.price_calls() == before
    live_site.run()
    expect(calls.first).not_to_have_attribute("id", newest)
    expect(page.locator("#countdown:not(.leaving)")).not_to_have_text("0:00")
    assert live_site.price_calls() > before
    assert page.evaluate("window.isTheSame"), "the page was never loaded again"


def test_the_page_goes_live_even_if_a_script_loads_late(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    page, late = pages.open(), []
    page.route("**/hx-sse.min.js", lambda route: late.append(route))  # noqa: PLW0108 - it marks it
    page.goto(live_site.link(), wait_until="commit")
    page.wait_for_function("() => window.htmx")
    # What the script deferred is done.
    page.evaluate("new Promise((done) => setTimeout(() => setTimeout(done)))")
    expect(page.locator("#link")).to_have_text("Connecting")
    late[0].continue_()
    expect(page.locator("#link")).to_have_text("Live")


def test_a_change_is_shown_from_supplier_to_shop(page: Any, live_site: LiveSite) -> None:
    page.goto(f"{live_site.url}changes")
    live_site.catalog.move("AN960-0012", "1.1")
    live_site.run()
    row = page.locator("table.changes tbody tr").filter(has_text="AN960-0012").first
    expect(row.locator("td.fate")).to_contain_text("after")
    price = f"{live_site.price_in_shop('AN960-0012'):,}"
    expect(row.locator("td[data-label='Shop price']")).to_contain_text(price)


def test_a_part_with_an_unusual_number_is_found_and_explained(
    page: Any, live_site: LiveSite
) -> None:
    page.get_by_role("combobox", name="Find a part").fill("338/10=")
    page.keyboard.press("Enter")
    rows = page.locator("#found tbody tr")
    expect(rows).to_have_count(1)
    rows.get_by_role("link", name=ODD).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(ODD)
    expect(page.locator(".says")).not_to_be_empty()
    expect(page.get_by_role("heading", name="Calls with this part")).to_be_visible()
    expect(page.locator("section[aria-labelledby=reads-title] tbody tr")).not_to_have_count(0)
    expect(page.locator("section[aria-labelledby=events-title] tbody tr")).not_to_have_count(0)
    expect(page.locator("#link")).to_have_text("Live")


def test_the_list_filters_while_typing_and_the_url_keeps_the_filter(
    page: Any, live_site: LiveSite
) -> None:
    page.goto(f"{live_site.url}parts")
    rows = page.locator("#found tbody tr")
    expect(rows).to_have_count(30)
    page.locator("#parts-q").press_sequentially(HELD)
    expect(rows).to_have_count(1)
    assert page.url.endswith(f"/parts?q={HELD}")
    page.reload()
    expect(rows).to_have_count(1)
    page.locator("#parts-q").fill("nothing like it")
    expect(page.locator("#found")).to_contain_text("No part matches")


def test_the_color_scheme_can_be_chosen_and_is_kept(page: Any) -> None:
    color = "getComputedStyle(document.body).backgroundColor"
    colors = {}
    for chosen in ("light", "dark"):
        page.locator("#theme").click()
        expect(page.locator("#theme")).to_have_attribute("aria-label", f"Theme: {chosen}")
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", chosen)
        colors[chosen] = page.evaluate(color)
    assert colors["light"] != colors["dark"]


def test_the_color_scheme_follows_the_system(pages: BrowserPages) -> None:
    color = "getComputedStyle(document.body).backgroundColor"
    light, dark = (pages.log_in(color_scheme=scheme) for scheme in ("light", "dark"))
    assert light.evaluate(color) != dark.evaluate(color)


def test_a_seller_sees_its_own_data_and_no_operator_buttons(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    page = pages.log_in(Role.SELLER, ACME)
    expect(page.get_by_role("link", name="Keys")).to_have_count(0)
    expect(page.get_by_role("link", name="Timetable")).to_have_count(0)
    own = {sku for seller, sku, _ in live_site.world.floor.sold if seller == ACME}
    page.goto(f"{live_site.url}parts?q=AN960")
    rows = page.locator("#found tbody tr th a")
    expect(rows).to_have_count(len(own - {ODD}))
    assert set(rows.all_inner_texts()) == own - {ODD}
    for section in ("", "freshness", "changes", "trouble", "accounts", "parts"):
        page.goto(live_site.url + section)
        assert "northwind" not in page.content(), section
    page.locator("#pause-button").click()
    expect(page.locator("#ask-title")).to_have_text("Pause all your parts?")
    pages.expected_errors.append("403")
    page.goto(f"{live_site.url}keys")
    expect(page.locator("#content")).to_contain_text("You don't have access")
    expect(page.locator("#content button")).to_have_count(0)


def test_a_reader_sees_no_action_buttons_in_a_browser(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    page = pages.log_in(Role.READER)
    expect(page.locator("#pause-button, #resume-button")).to_have_count(0)
    for section in ("", "freshness", "timetable", "changes", "trouble", "accounts", "parts"):
        page.goto(live_site.url + section)
        expect(page.locator("#link")).to_have_text("Live")
        expect(page.locator("[data-verb]")).to_have_count(0)
    page.goto(f"{live_site.url}parts/{HELD}")
    expect(page.locator(".decide")).to_contain_text("Held")
    expect(page.locator("[data-verb]")).to_have_count(0)
