"""Getting in, and watching: what a person sees without doing anything."""

from typing import Any

from tests.browser.conftest import Witness, playwright
from tests.browser.site import ACME, HELD, ODD, House

from headway.core.access import Role

expect = playwright.expect


def test_the_link_that_was_printed_logs_in_and_does_so_once(witness: Witness, house: House) -> None:
    witness.forgiven.append("401")
    link = house.link()
    first = witness.open()
    first.goto(link)
    expect(first.locator("#next-title")).to_have_text("Next call")
    assert first.url == house.url
    again = witness.open()
    again.goto(link)
    expect(again.get_by_role("alert")).to_contain_text("used before")


def test_a_pasted_key_logs_in_and_leads_to_the_page_that_was_asked_for(
    witness: Witness, house: House
) -> None:
    page = witness.open()
    page.goto(f"{house.url}changes")
    page.get_by_label("Key").fill(house.key())
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Changes")
    assert page.url == f"{house.url}changes"


def test_a_wrong_key_is_told_and_the_right_one_still_logs_in(
    witness: Witness, house: House
) -> None:
    witness.forgiven.append("401")
    page = witness.open()
    page.goto(house.url)
    page.get_by_label("Key").fill("hw_wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("This API key is invalid")
    expect(page.get_by_label("Key")).to_have_value("")
    page.get_by_label("Key").fill(house.key())
    page.keyboard.press("Enter")
    expect(page.locator("#next-title")).to_be_visible()


def test_logging_out_ends_the_session(page: Any, house: House) -> None:
    page.get_by_role("button", name="Logged in as").click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.goto(house.url)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_a_call_leaves_before_our_eyes(page: Any, house: House) -> None:
    page.evaluate("window.isTheSame = true")
    calls = page.locator("section[aria-labelledby=calls-title] tbody tr")
    newest = calls.first.get_attribute("id")
    before = house.price_calls()
    # Nobody runs the engine yet: the countdown is over, and the call waits.
    expect(page.locator("#countdown.leaving")).to_have_text("0:00")
    assert house.price_calls() == before
    house.run()
    expect(calls.first).not_to_have_attribute("id", newest)
    expect(page.locator("#countdown:not(.leaving)")).not_to_have_text("0:00")
    assert house.price_calls() > before
    assert page.evaluate("window.isTheSame"), "the page was never loaded again"


def test_the_page_goes_live_however_late_a_script_comes(witness: Witness, house: House) -> None:
    page, late = witness.open(), []
    page.route("**/hx-sse.min.js", lambda route: late.append(route))  # noqa: PLW0108 - it marks it
    page.goto(house.link(), wait_until="commit")
    page.wait_for_function("() => window.htmx")
    # Whatever that script put off for a moment is over.
    page.evaluate("new Promise((done) => setTimeout(() => setTimeout(done)))")
    expect(page.locator("#link")).to_have_text("Connecting")
    late[0].continue_()
    expect(page.locator("#link")).to_have_text("Live")


def test_a_change_of_the_supplier_is_seen_on_its_way_to_the_shop(page: Any, house: House) -> None:
    page.goto(f"{house.url}changes")
    house.catalog.move("AN960-0012", "1.1")
    house.run()
    row = page.locator("table.changes tbody tr").filter(has_text="AN960-0012").first
    expect(row.locator("td.fate")).to_contain_text("after")
    price = f"{house.price_in_shop('AN960-0012'):,}"
    expect(row.locator("td[data-label='Shop price']")).to_contain_text(price)


def test_a_part_with_an_odd_number_is_found_and_its_page_explains_it(
    page: Any, house: House
) -> None:
    page.get_by_role("combobox", name="Find a part").fill("338/10=")
    page.keyboard.press("Enter")
    found = page.locator("#found tbody tr")
    expect(found).to_have_count(1)
    found.get_by_role("link", name=ODD).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(ODD)
    expect(page.locator(".says")).not_to_be_empty()
    expect(page.get_by_role("heading", name="Calls that carried it")).to_be_visible()
    expect(page.locator("section[aria-labelledby=reads-title] tbody tr")).not_to_have_count(0)
    expect(page.locator("section[aria-labelledby=events-title] tbody tr")).not_to_have_count(0)
    expect(page.locator("#link")).to_have_text("Live")


def test_the_list_follows_what_is_typed_and_the_address_keeps_it(page: Any, house: House) -> None:
    page.goto(f"{house.url}parts")
    rows = page.locator("#found tbody tr")
    expect(rows).to_have_count(30)
    page.locator("#parts-q").press_sequentially(HELD)
    expect(rows).to_have_count(1)
    assert page.url.endswith(f"/parts?q={HELD}")
    page.reload()
    expect(rows).to_have_count(1)
    page.locator("#parts-q").fill("nothing like it")
    expect(page.locator("#found")).to_contain_text("No part matches")


def test_light_and_dark_can_be_chosen_and_stay_chosen(page: Any) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    seen = {}
    for chosen in ("light", "dark"):
        page.locator("#theme").click()
        expect(page.locator("#theme")).to_have_attribute("aria-label", f"Colours: {chosen}")
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", chosen)
        seen[chosen] = page.evaluate(colour)
    assert seen["light"] != seen["dark"]


def test_dark_is_shown_where_the_system_is_dark(witness: Witness) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light, dark = (witness.enter(color_scheme=each) for each in ("light", "dark"))
    assert light.evaluate(colour) != dark.evaluate(colour)


def test_a_seller_sees_the_own_and_no_button_of_an_operator(witness: Witness, house: House) -> None:
    page = witness.enter(Role.SELLER, ACME)
    expect(page.get_by_role("link", name="Keys")).to_have_count(0)
    expect(page.get_by_role("link", name="Timetable")).to_have_count(0)
    own = {sku for seller, sku, _ in house.world.floor.sold if seller == ACME}
    page.goto(f"{house.url}parts?q=AN960")
    rows = page.locator("#found tbody tr th a")
    expect(rows).to_have_count(len(own - {ODD}))
    assert set(rows.all_inner_texts()) == own - {ODD}
    for section in ("", "freshness", "changes", "trouble", "accounts", "parts"):
        page.goto(house.url + section)
        assert "northwind" not in page.content(), section
    page.locator("#pause-button").click()
    expect(page.locator("#ask-title")).to_have_text("Pause everything of yours?")
    witness.forgiven.append("403")
    page.goto(f"{house.url}keys")
    expect(page.locator("#content")).to_contain_text("not")
    expect(page.locator("#content button")).to_have_count(0)


def test_a_reader_sees_everything_and_no_button_that_acts(witness: Witness, house: House) -> None:
    page = witness.enter(Role.READER)
    expect(page.locator("#pause-button, #resume-button")).to_have_count(0)
    for section in ("", "freshness", "timetable", "changes", "trouble", "accounts", "parts"):
        page.goto(house.url + section)
        expect(page.locator("#link")).to_have_text("Live")
        expect(page.locator("[data-verb]")).to_have_count(0)
    page.goto(f"{house.url}parts/{HELD}")
    expect(page.locator(".decide")).to_contain_text("Held")
    expect(page.locator("[data-verb]")).to_have_count(0)
