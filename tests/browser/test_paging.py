"""Long lists are paged, and every page has a URL that can be shared."""

from typing import Any

import pytest
from tests.browser.conftest import BrowserPages, playwright
from tests.browser.site import ACME, NORTHWIND, PARKED, LiveSite
from tests.browser.test_accessibility import serious_issues
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
def crowded_site(live_site: LiveSite) -> LiveSite:
    """Return a site with more of everything than a page shows."""
    now = live_site.clock.now()
    live_site.execute(LISTINGS, ACME, "PARK-", now, ROWS, "parked")
    live_site.execute(LISTINGS, NORTHWIND, "FAIL-", now, ROWS, "failed")
    live_site.execute(HELD, now)
    live_site.execute(CHANGES, ACME, now, ROWS)
    live_site.execute(ACCOUNTS, ROWS)
    live_site.execute(JOBS, now)
    return live_site


def read_all_pages(page: Any, name: str, rows: str) -> list[str]:
    """Go through every page of a list; return the ids of all its rows."""
    ids: list[str] = []
    while True:
        expect(page.locator("#link")).to_have_text("Live")
        row_locator = page.locator(f"#{name} {rows}")
        ids += row_locator.evaluate_all("rows => rows.map((row) => row.id)")
        next_link = page.locator(f"#{name}-next")
        if not next_link.count():
            return ids
        address = page.url
        next_link.click()
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
    pages: BrowserPages, crowded_site: LiveSite, section: str, lists: dict[str, str]
) -> None:
    page = pages.log_in()
    for name, rows in lists.items():
        page.goto(crowded_site.url + section)
        ids = read_all_pages(page, name, rows)
        assert len(ids) == len(set(ids))
        assert len(ids) >= ROWS
        page.locator(f"#{name}-first").click()
        expect(page.locator(f"#{name} {rows}")).to_have_count(FIRST)


def test_a_page_has_a_url_that_keeps_the_other_lists_and_stays_live(
    pages: BrowserPages, crowded_site: LiveSite
) -> None:
    page = pages.log_in()
    page.goto(f"{crowded_site.url}trouble")
    page.locator("#parked-next").click()
    expect(page.locator("#parked-first")).to_be_visible()
    page.locator("#failing-next").click()
    expect(page.locator("#failing-first")).to_be_visible()
    expect(page.locator("#parked-first")).to_be_visible()
    other = pages.log_in(Role.READER)
    other.goto(page.url)
    expect(other.locator("#parked tbody tr th a").first).to_have_text("PARK-010")
    expect(other.locator("#failing tbody tr th a").first).to_have_text("FAIL-011")
    crowded_site.execute(
        "UPDATE product_sync_schedule SET last_error = 'read again' WHERE sku = 'PARK-010'"
    )
    expect(other.locator("#parked tbody tr").first).to_contain_text("Read again")


def test_paging_works_by_keyboard_and_without_scripts(
    pages: BrowserPages, crowded_site: LiveSite
) -> None:
    page = pages.log_in()
    page.goto(f"{crowded_site.url}changes")
    expect(page.locator("#link")).to_have_text("Live")
    page.locator("#changes-title").evaluate("title => title.scrollIntoView()")
    page.evaluate("document.getElementById('changes').querySelector('a').focus()")
    tab_to(page, "Older changes")
    page.keyboard.press("Enter")
    expect(page.locator("#changes-first")).to_be_visible()
    plain = pages.open(java_script_enabled=False)
    plain.goto(crowded_site.link())
    plain.goto(f"{crowded_site.url}accounts")
    plain.locator("#accounts-next").click()
    expect(plain.locator("#accounts-first")).to_be_visible()
    expect(plain.locator("#accounts tbody tr")).to_have_count(ONWARD)


def test_the_queue_numbers_its_places_across_pages(
    pages: BrowserPages, crowded_site: LiveSite
) -> None:
    crowded_site.execute(
        "UPDATE sync_jobs SET next_run_at = next_run_at + interval '3 days' WHERE status = 'queued'"
    )
    page = pages.log_in()
    page.goto(f"{crowded_site.url}accounts")
    places = page.locator("#queue tbody td.place")
    expect(places.first).to_have_text("1")
    page.locator("#queue-next").click()
    expect(page.locator("#queue-first")).to_be_visible()
    expect(places.first).to_have_text("11")
    expect(places.last).to_have_text("60")


def test_a_seller_pages_through_its_own_rows_only(
    pages: BrowserPages, crowded_site: LiveSite
) -> None:
    page = pages.log_in(Role.SELLER, ACME)
    page.goto(f"{crowded_site.url}trouble")
    ids = read_all_pages(page, "parked", "tbody tr th small")
    assert len(ids) == ROWS + int(crowded_site.owner(PARKED) == ACME)
    expect(page.locator("#failing")).to_contain_text("Nothing is failing")
    page.goto(f"{crowded_site.url}accounts")
    expect(page.locator("#accounts tbody th .name")).to_have_text([ACME] * 2)
    for name in page.locator("#queue tbody th .name").all_text_contents():
        assert name == ACME


def test_an_invalid_cursor_in_the_url_is_reported_with_a_link_back(
    pages: BrowserPages, crowded_site: LiveSite
) -> None:
    page = pages.log_in()
    page.goto(f"{crowded_site.url}trouble?parked=eyJ")
    expect(page.locator("#parked")).to_contain_text("Page not found")
    expect(page.locator("#failing tbody tr")).to_have_count(FIRST)
    page.locator("#parked-first").click()
    expect(page.locator("#parked tbody tr")).to_have_count(FIRST)


def test_later_pages_have_no_serious_accessibility_issue(
    pages: BrowserPages, crowded_site: LiveSite
) -> None:
    page = pages.log_in()
    for section, name in (("changes", "held"), ("trouble", "parked"), ("accounts", "queue")):
        page.goto(crowded_site.url + section)
        page.locator(f"#{name}-next").click()
        expect(page.locator(f"#{name}-first")).to_be_visible()
        assert serious_issues(page) == []
