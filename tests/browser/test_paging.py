"""Long lists: every row is reached page by page, by an address that can be shared."""

from typing import Any

import pytest
from tests.browser.conftest import Witness, playwright
from tests.browser.site import ACME, NORTHWIND, PARKED, House
from tests.browser.test_accessibility import found as grave
from tests.browser.test_keyboard import tab_to

from headway.core.access import Role

expect = playwright.expect
ROWS, FIRST, ONWARD = 70, 10, 50
LISTINGS = """
INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at, priority, sync_status,
  is_active, consecutive_failures, last_error)
SELECT %s, %s || to_char(n, 'FM000'), 0, %s, 'retry', status, status <> 'parked', 5,
  'the supplier does not know it'
FROM generate_series(1, %s) AS n, unnest(ARRAY[%s]) AS status
"""
HELD = """
INSERT INTO listing_state (user_id, sku, desired, proposed, held_reason, held_at)
SELECT user_id, sku, '{"price": "10"}', '{"price": "25"}', 'the price would rise by 150 %%', %s
FROM product_sync_schedule WHERE sku LIKE 'FAIL-%%'
"""
CHANGES = """
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, old_value, new_value)
SELECT %s, 'AN960-0001', %s - n * interval '1 hour', 'price_changed',
  jsonb_build_object('list_price', n), jsonb_build_object('list_price', n + 1)
FROM generate_series(1, %s) AS n
"""
ACCOUNTS = """
INSERT INTO connected_accounts (user_id, platform, shop)
SELECT 'seller-' || to_char(n, 'FM000'), 'etsy', '9' || n FROM generate_series(1, %s) AS n
"""
JOBS = """
INSERT INTO sync_jobs (account_id, user_id, platform, kind, job_type, score, status, next_run_at,
  last_error)
SELECT id, user_id, platform, kind, 'incremental', 12, CASE kind WHEN 'orders' THEN 'queued'
  ELSE 'dead' END, CASE kind WHEN 'orders' THEN %s + shop::int * interval '1 second' END,
  'no answer'
FROM connected_accounts, unnest('{orders,payments}'::text[]) AS kind WHERE user_id LIKE 'seller-%%'
"""


@pytest.fixture
def crowded(house: House) -> House:
    """Return a house with more of everything than a page shows."""
    now = house.clock.now()
    house.ask(LISTINGS, ACME, "PARK-", now, ROWS, "parked")
    house.ask(LISTINGS, NORTHWIND, "FAIL-", now, ROWS, "failed")
    house.ask(HELD, now)
    house.ask(CHANGES, ACME, now, ROWS)
    house.ask(ACCOUNTS, ROWS)
    house.ask(JOBS, now)
    return house


def walk(page: Any, name: str, rows: str) -> list[str]:
    """Turn every page of a list, from the first one on; return the ids of all its rows."""
    seen: list[str] = []
    while True:
        expect(page.locator("#link")).to_have_text("Live")
        shown = page.locator(f"#{name} {rows}")
        seen += shown.evaluate_all("rows => rows.map((row) => row.id)")
        onward = page.locator(f"#{name}-next")
        if not onward.count():
            return seen
        address = page.url
        onward.click()
        page.wait_for_url(lambda url, old=address: url != old)


@pytest.mark.parametrize(
    ("section", "lists"),
    (
        ("changes", {"held": "tbody tr", "changes": "tbody tr"}),
        ("trouble", {"parked": "tbody tr", "failing": "tbody tr", "dead": "li"}),
        ("accounts", {"queue": "tbody tr", "accounts": "tbody tr"}),
    ),
)
def test_every_row_of_a_long_list_is_shown_once(
    witness: Witness, crowded: House, section: str, lists: dict[str, str]
) -> None:
    page = witness.enter()
    for name, rows in lists.items():
        page.goto(crowded.url + section)
        seen = walk(page, name, rows)
        assert len(seen) == len(set(seen))
        assert len(seen) >= ROWS
        page.locator(f"#{name}-first").click()
        expect(page.locator(f"#{name} {rows}")).to_have_count(FIRST)


def test_a_page_is_an_address_that_keeps_the_other_lists_and_stays_live(
    witness: Witness, crowded: House
) -> None:
    page = witness.enter()
    page.goto(f"{crowded.url}trouble")
    page.locator("#parked-next").click()
    expect(page.locator("#parked-first")).to_be_visible()
    page.locator("#failing-next").click()
    expect(page.locator("#failing-first")).to_be_visible()
    expect(page.locator("#parked-first")).to_be_visible()
    other = witness.enter(Role.READER)
    other.goto(page.url)
    expect(other.locator("#parked tbody tr th a").first).to_have_text("PARK-010")
    expect(other.locator("#failing tbody tr th a").first).to_have_text("FAIL-011")
    crowded.ask("UPDATE product_sync_schedule SET last_error = 'read anew' WHERE sku = 'PARK-010'")
    expect(other.locator("#parked tbody tr").first).to_contain_text("Read anew")


def test_pages_are_turned_by_keyboard_alone_and_without_scripts(
    witness: Witness, crowded: House
) -> None:
    page = witness.enter()
    page.goto(f"{crowded.url}changes")
    expect(page.locator("#link")).to_have_text("Live")
    page.locator("#changes-title").evaluate("title => title.scrollIntoView()")
    page.evaluate("document.getElementById('changes').querySelector('a').focus()")
    tab_to(page, "Older changes")
    page.keyboard.press("Enter")
    expect(page.locator("#changes-first")).to_be_visible()
    plain = witness.open(java_script_enabled=False)
    plain.goto(crowded.link())
    plain.goto(f"{crowded.url}accounts")
    plain.locator("#accounts-next").click()
    expect(plain.locator("#accounts-first")).to_be_visible()
    expect(plain.locator("#accounts tbody tr")).to_have_count(ONWARD)


def test_the_queue_counts_its_places_though_nothing_is_due(
    witness: Witness, crowded: House
) -> None:
    crowded.ask(
        "UPDATE sync_jobs SET next_run_at = next_run_at + interval '3 days' WHERE status = 'queued'"
    )
    page = witness.enter()
    page.goto(f"{crowded.url}accounts")
    places = page.locator("#queue tbody td.place")
    expect(places.first).to_have_text("1")
    page.locator("#queue-next").click()
    expect(page.locator("#queue-first")).to_be_visible()
    expect(places.first).to_have_text("11")
    expect(places.last).to_have_text("60")


def test_a_seller_turns_the_pages_of_the_own_rows_alone(witness: Witness, crowded: House) -> None:
    page = witness.enter(Role.SELLER, ACME)
    page.goto(f"{crowded.url}trouble")
    seen = walk(page, "parked", "tbody tr th small")
    assert len(seen) == ROWS + int(crowded.owner(PARKED) == ACME)
    expect(page.locator("#failing")).to_contain_text("Nothing fails")
    page.goto(f"{crowded.url}accounts")
    expect(page.locator("#accounts tbody th .name")).to_have_text([ACME] * 2)
    for each in page.locator("#queue tbody th .name").all_text_contents():
        assert each == ACME


def test_an_address_that_was_cut_short_says_so_and_leads_back(
    witness: Witness, crowded: House
) -> None:
    page = witness.enter()
    page.goto(f"{crowded.url}trouble?parked=eyJ")
    expect(page.locator("#parked")).to_contain_text("There is no such page")
    expect(page.locator("#failing tbody tr")).to_have_count(FIRST)
    page.locator("#parked-first").click()
    expect(page.locator("#parked tbody tr")).to_have_count(FIRST)


def test_a_turned_page_has_no_serious_issue(witness: Witness, crowded: House) -> None:
    page = witness.enter()
    for section, name in (("changes", "held"), ("trouble", "parked"), ("accounts", "queue")):
        page.goto(crowded.url + section)
        page.locator(f"#{name}-next").click()
        expect(page.locator(f"#{name}-first")).to_be_visible()
        assert grave(page) == []
