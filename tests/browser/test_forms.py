"""Import parts and connect a shop on the page."""

from pathlib import Path
from typing import Any

from tests.browser.conftest import BrowserPages, playwright
from tests.browser.site import ACME, HELD, NORTHWIND, PARTS, SKYLINE, LiveSite

from headway.core.access import Role
from headway.core.catalog.listings import SellerId, Sku
from headway.operations.imports import CHUNK_BYTES
from headway.store.catalog.shop_groups import ShopGroups
from headway_lab.demo.shops import TOKEN, domain_of

expect = playwright.expect
IMPORTED = "SELECT sku FROM product WHERE sku LIKE 'NEW%%' ORDER BY sku"


def count_of(page: Any, name: str) -> Any:
    return page.locator(f"[data-count-of={name}]")


def test_a_file_is_previewed_and_then_imported(
    page: Any, live_site: LiveSite, tmp_path: Path
) -> None:
    rows = [f"NEW{number:05},{'x' * 200}" for number in range(4000)]
    content = "\n".join(["sku,title", *rows, "new 00001,", ",none", "1.2E+05,x"])
    assert len(content) > CHUNK_BYTES
    file = tmp_path / "parts.csv"
    file.write_text(content, encoding="utf-8")
    page.goto(f"{live_site.url}parts")
    page.get_by_role("link", name="Import parts").click()
    page.get_by_label("File", exact=True).set_input_files(file)
    page.get_by_label("Seller", exact=True).fill(ACME)
    page.get_by_role("button", name="Preview").click()
    expect(count_of(page, "added")).to_have_text("4,000")
    expect(count_of(page, "refused")).to_have_text("3")
    refused = page.locator(".refusals tbody tr")
    expect(refused.nth(0)).to_contain_text("4002")
    expect(refused.nth(0)).to_contain_text("differ only in case or spaces")
    assert live_site.execute(IMPORTED) == [], "a preview changes nothing"
    with page.expect_download() as download:
        page.get_by_role("link", name="Download all refused rows").click()
    lines = download.value.path().read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("line,reason,")
    assert [line.partition(",")[0] for line in lines[1:]] == ["4002", "4003", "4004"]
    page.get_by_role("button", name="Import 4,000 parts").click()
    expect(page.locator("#import-title")).to_have_text("Imported")
    assert len(live_site.execute(IMPORTED)) == 4000
    assert live_site.execute("SELECT count(*) FROM import_chunks") == [(0,)]


def test_an_unusable_file_is_explained_and_other_rows_need_a_new_preview(
    pages: BrowserPages, page: Any, live_site: LiveSite
) -> None:
    pages.expected_errors.append("422")
    page.goto(f"{live_site.url}import?seller={ACME}")
    expect(page.get_by_label("Seller", exact=True)).to_have_value(ACME)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_label("File", exact=True)).to_have_attribute("aria-invalid", "true")
    pasted = page.get_by_label("Or paste rows")
    pasted.fill("part,price\nNEW1,3\n")
    trouble = page.locator(".trouble")
    page.get_by_role("button", name="Preview").click()
    expect(trouble).to_contain_text("Unknown column 'part', 'price'")
    pasted.fill("sku\nNEW1\n")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("button", name="Import 1 part")).to_be_visible()
    pasted.fill("sku\nNEW2\n")
    expect(page.locator("#import-result")).to_be_hidden()
    assert live_site.execute(IMPORTED) == []


def test_a_shop_gets_a_token_that_is_never_shown_again(
    pages: BrowserPages, page: Any, live_site: LiveSite
) -> None:
    pages.expected_errors.append("422")
    page.goto(f"{live_site.url}accounts")
    page.get_by_role("link", name="Connect a shop").click()
    page.get_by_label("An access token").check()
    page.get_by_role("button", name="Connect").click()
    expect(page.get_by_label("Seller", exact=True)).to_be_focused()
    page.get_by_label("Seller", exact=True).fill(NORTHWIND)
    page.get_by_label("Shop", exact=True).fill("not an address")
    page.get_by_label("Access token", exact=True).fill("two words")
    page.get_by_role("button", name="Connect").click()
    expect(page.locator("#connect-shop-trouble")).to_contain_text("name.myshopify.com")
    page.get_by_label("Shop", exact=True).fill(domain_of(NORTHWIND))
    page.get_by_role("button", name="Connect").click()
    expect(page.locator("#connect-access-trouble")).to_contain_text("one word")
    expect(page.locator("#connect-shop-trouble")).to_have_count(0)
    page.get_by_label("Access token", exact=True).fill(TOKEN)
    page.get_by_label("Another shop of").fill(ACME)
    page.get_by_role("button", name="Connect").click()
    expect(page.locator("#connect-title")).to_contain_text("is connected to northwind")
    assert ShopGroups(live_site.pool).is_member(NORTHWIND, ACME)
    expect(page.get_by_label("Access token", exact=True)).to_have_value("")
    assert TOKEN not in page.content()


def test_the_form_asks_for_what_the_platform_needs(
    pages: BrowserPages, page: Any, live_site: LiveSite
) -> None:
    pages.expected_errors.append("409")
    page.goto(f"{live_site.url}connect")
    page.get_by_label("Etsy", exact=True).check()
    expect(page.get_by_label("Client ID")).to_be_hidden()
    page.get_by_label("An access token").check()
    page.get_by_label("Seller", exact=True).fill("delta")
    page.get_by_label("Shop", exact=True).fill("777")
    page.get_by_label("Access token", exact=True).fill("777.token")
    page.get_by_role("button", name="Connect").click()
    expect(page.locator("#connect-refresh-trouble")).to_contain_text("needed")
    page.get_by_label("A link for the shop's owner").check()
    expect(page.get_by_label("Shop", exact=True)).to_be_hidden()
    page.get_by_role("button", name="Make the link").click()
    expect(page.locator(".trouble")).to_contain_text("HEADWAY_PUBLIC_URL")


def test_people_who_may_not_import_or_connect_see_no_form(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    page = pages.log_in(Role.SELLER, ACME)
    pages.expected_errors.append("403")
    page.goto(f"{live_site.url}parts")
    expect(page.get_by_role("link", name="Import parts")).to_have_count(0)
    for path in ("import", "connect"):
        page.goto(f"{live_site.url}{path}")
        expect(page.get_by_text("You don't have access")).to_be_visible()
        expect(page.locator("form.form")).to_have_count(0)


def test_an_owner_switches_between_shops_and_an_old_tab_acts_in_its_own(
    pages: BrowserPages, live_site: LiveSite
) -> None:
    ShopGroups(live_site.pool).put(NORTHWIND, ACME, now=live_site.clock.now())
    page = pages.log_in(Role.SELLER, ACME)
    page.goto(f"{live_site.url}parts/{HELD}")
    page.get_by_role("button", name="Read now").wait_for()
    other = page.context.new_page()
    other.goto(live_site.url)
    other.get_by_role("button", name=NORTHWIND, exact=True).click()
    expect(other.locator(".own-shops [aria-current]")).to_have_text(NORTHWIND)
    # The first tab learns of it, and shows the part as the other shop has it: not at all.
    expect(page.locator(".own-shops [aria-current]")).to_have_text(NORTHWIND)
    expect(page.get_by_text("Part not found")).to_be_visible()
    other.get_by_role("link", name="All shops").click()
    rows = other.locator("table tbody tr")
    expect(rows).to_have_count(2)
    expect(other.locator("tfoot")).to_contain_text(str(PARTS - len(sold_by(live_site, SKYLINE))))
    other.get_by_role("button", name="Publish in several shops").click()
    other.get_by_label("Part numbers, one per line").fill("NEW1=K3")
    other.locator("#ask-yes").click()
    expect(other.locator("#toasts .toast")).to_contain_text("northwind: 1 requested")
    staged = "SELECT user_id FROM product_staging WHERE sku = 'NEW1=K3' ORDER BY user_id"
    assert live_site.execute(staged) == [(ACME,), (NORTHWIND,)]


def sold_by(live_site: LiveSite, seller: SellerId) -> list[Sku]:
    return [sku for owner, sku, _ in live_site.world.floor.sold if owner == seller]
