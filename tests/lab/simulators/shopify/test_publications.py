"""Sales channels in the simulated shop: what customers see, and what they can buy."""

from typing import Any

import pytest

from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.shop_window import NotOnSaleError, ShopWindow

SET = """
mutation ($input: ProductSetInput!) {
  productSet(input: $input) { product { id status publishedAt } userErrors { message } }
}
"""
PUBLISH = """
mutation ($id: ID!, $input: [PublicationInput!]!) {
  publishablePublish(id: $id, input: $input) {
    publishable { ... on Product { publishedAt } } userErrors { field message }
  }
}
"""
VARIANT = {"optionValues": [{"optionName": "Title", "name": "Default Title"}], "sku": "WF1"}
OPTIONS = [{"name": "Title", "values": [{"name": "Default Title"}]}]


def make(shop: Any, **variant: Any) -> str:
    """Make a product by the API with one piece in stock; return its id."""
    stock = [{"locationId": shop.locations["Dallas"], "name": "available", "quantity": 1}]
    fields = {**VARIANT, "inventoryItem": {"tracked": True}, "inventoryQuantities": stock}
    product = {"title": "Bolt", "variants": [{**fields, **variant}], "productOptions": OPTIONS}
    return str(shop.do(SET, input={**product, "status": "ACTIVE"})["product"]["id"])


def online(shop: Any) -> list[dict[str, str]]:
    return [{"publicationId": next(iter(shop.shop_listings.publications))}]


def test_an_active_product_made_by_the_api_is_for_sale_nowhere_until_published(shop: Any) -> None:
    window, product = ShopWindow(shop.simulator), make(shop)
    assert window.on_sale(shop.domain) == []
    with pytest.raises(NotOnSaleError, match="not on sale"):
        window.buy(shop.domain, "WF1")
    answer = shop.do(PUBLISH, id=product, input=online(shop))
    assert (answer["userErrors"], answer["publishable"]["publishedAt"] is None) == ([], False)
    assert [screen.sku for screen in window.on_sale(shop.domain)] == ["WF1"]


def test_buying_lowers_the_stock_until_it_is_sold_out(shop: Any) -> None:
    window, product = ShopWindow(shop.simulator), make(shop)
    shop.do(PUBLISH, id=product, input=online(shop))
    assert "You bought one WF1" in press(window, shop.domain, "buy", b"sku=WF1")
    assert shop.simulator.shown(shop.domain, "WF1").quantities["Dallas"] == 0
    with pytest.raises(NotOnSaleError, match="sold out"):
        window.buy(shop.domain, "WF1")


@pytest.mark.parametrize(
    ("how", "left"),
    (
        ({"inventoryPolicy": "CONTINUE"}, -1),
        ({"inventoryItem": {"tracked": False}}, 1),
    ),
)
def test_a_variant_that_continues_or_is_not_tracked_sells_beyond_its_stock(
    shop: Any, how: dict[str, Any], left: int
) -> None:
    window, product = ShopWindow(shop.simulator), make(shop, **how)
    shop.do(PUBLISH, id=product, input=online(shop))
    for _ in range(2):
        window.buy(shop.domain, "WF1")
    assert shop.simulator.shown(shop.domain, "WF1").quantities["Dallas"] == left


@pytest.mark.parametrize(
    ("ids", "message"),
    (
        (["", ""], "The same publication was specified more than once"),
        (["9"], "Publication does not exist or is not publishable"),
    ),
)
def test_a_bad_publication_is_refused_as_the_real_shop_does(
    shop: Any, ids: list[str], message: str
) -> None:
    product, [good] = make(shop), online(shop)
    inputs = [{"publicationId": good["publicationId"] + tail} for tail in ids]
    errors = shop.do(PUBLISH, id=product, input=inputs)["userErrors"]
    place = str(len(ids) - 1)
    assert errors == [{"field": ["input", place, "publicationId"], "message": message}]
    assert ShopWindow(shop.simulator).on_sale(shop.domain) == []


def test_without_its_scope_an_app_neither_sees_nor_changes_channels(open_shop: Any) -> None:
    setup = ShopSetup(domain="acme.myshopify.com", scopes=("read_products", "write_products"))
    shop = open_shop(shops=[setup])
    for document in ("{ publications(first: 5) { nodes { id } } }", PUBLISH):
        answer = shop.ask(document, id="gid://shopify/Product/1", input=[])
        assert answer["errors"][0]["extensions"]["code"] == "ACCESS_DENIED"
        assert not any((answer.get("data") or {}).values())


def page_of(window: ShopWindow, domain: str) -> str:
    return window.handle("GET", f"/{domain}/products", {}, b"").body.decode()


def press(window: ShopWindow, domain: str, action: str, body: bytes) -> str:
    """Press a button; return the page that the browser is sent to."""
    reply = window.handle("POST", f"/{domain}/{action}", {}, body)
    assert (reply.status, reply.headers["Location"]) == (303, f"/{domain}/products")
    return page_of(window, domain)


def test_the_merchants_button_takes_a_product_off_sale_and_the_page_says_so(shop: Any) -> None:
    shop.simulator.seed_product(shop.domain, "WF<1>", quantities={"Dallas": 1})
    window = ShopWindow(shop.simulator)
    page = page_of(window, shop.domain)
    assert "WF&lt;1&gt;" in page
    assert "Not for sale" not in page
    page = press(window, shop.domain, "unpublish", b"sku=WF%3C1%3E")
    assert "You unpublished WF&lt;1&gt;" in page
    assert "Not for sale: 1" in page
    assert window.on_sale(shop.domain) == []


def test_reloading_the_page_after_a_purchase_buys_nothing(shop: Any) -> None:
    shop.simulator.seed_product(shop.domain, "WF1", quantities={"Dallas": 2})
    window = ShopWindow(shop.simulator)
    assert "1 in stock" in press(window, shop.domain, "buy", b"sku=WF1")
    assert "1 in stock" in page_of(window, shop.domain)


def test_an_unknown_shop_or_part_is_an_answer_and_no_crash(shop: Any) -> None:
    window = ShopWindow(shop.simulator)
    assert window.handle("GET", "/nobody.example/products", {}, b"").status == 404
    assert "has no product with the SKU" in press(window, shop.domain, "unpublish", b"sku=X")
    assert window.handle("GET", f"/{shop.domain}", {}, b"").headers["Location"].endswith("products")
