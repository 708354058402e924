"""Products in the simulated shop: prices, status, upsert, search, and ids that go stale."""

from decimal import Decimal
from typing import Any

import pytest

PRICES = """
mutation ($product: ID!, $variants: [ProductVariantsBulkInput!]!, $partial: Boolean) {
  productVariantsBulkUpdate(
    productId: $product, variants: $variants, allowPartialUpdates: $partial
  ) {
    product { id }
    productVariants { id price compareAtPrice inventoryItem { unitCost { amount } } }
    userErrors { code field message }
  }
}
"""
STATUS = """
mutation ($product: ProductUpdateInput!) {
  productUpdate(product: $product) { product { status } userErrors { field message } }
}
"""
SET = """
mutation ($input: ProductSetInput!, $identifier: ProductSetIdentifiers) {
  productSet(input: $input, identifier: $identifier, synchronous: true) {
    product { id handle status variants(first: 5) { nodes { id sku } } }
    userErrors { code field message }
  }
}
"""
FIND = """
query ($query: String) {
  productVariants(first: 20, query: $query) { nodes { sku } pageInfo { hasNextPage } }
}
"""
READ = """
query ($ids: [ID!]!) {
  nodes(ids: $ids) { ... on ProductVariant { sku } ... on Product { handle } }
}
"""


def codes(payload: dict[str, Any]) -> list[tuple[str, list[str] | None]]:
    return [(error["code"], error["field"]) for error in payload["userErrors"]]


def reprice(shop: Any, ids: Any, *variants: dict[str, Any], **more: Any) -> dict[str, Any]:
    return shop.do(PRICES, product=ids.product, variants=variants, **more)


def version(shop: Any, sku: str, named: str, /, **more: Any) -> dict[str, Any]:
    quantities = [{"locationId": shop.locations["Dallas"], "name": "available", "quantity": 3}]
    variant = {
        "optionValues": [{"optionName": "Title", "name": "Default Title"}],
        "sku": sku,
        "price": "11.00",
        "inventoryItem": {"cost": "9.5", "tracked": True},
        "inventoryQuantities": quantities,
    }
    options = [{"name": "Title", "values": [{"name": "Default Title"}]}]
    fields = {"title": sku, "handle": named, "productOptions": options, "variants": [variant]}
    return {**fields, **more}


def skus_of(shop: Any, query: str) -> list[str]:
    return [node["sku"] for node in shop.do(FIND, query=query)["nodes"]]


def test_price_compare_at_and_cost_are_set_in_one_write(shop: Any) -> None:
    ids = shop.seed("A-1", cost=Decimal(9))
    variant = {"id": ids.variant, "price": "11.005", "compareAtPrice": 12}
    result = reprice(shop, ids, {**variant, "inventoryItem": {"cost": "9.5"}})
    assert result["productVariants"] == [
        {
            "id": ids.variant,
            "price": "11.01",
            "compareAtPrice": "12.00",
            "inventoryItem": {"unitCost": {"amount": "9.5"}},
        }
    ]
    assert {(effect.kind, effect.old, effect.new) for effect in shop.simulator.effects} == {
        ("price", Decimal("10.00"), Decimal("11.01")),
        ("compare_at", None, Decimal("12.00")),
        ("cost", Decimal(9), Decimal("9.50")),
    }
    assert len({effect.write for effect in shop.simulator.effects}) == 1


def test_a_price_write_is_double_only_if_neither_price_nor_cost_moves(shop: Any) -> None:
    ids = shop.seed("A-1", cost=Decimal(9))
    same_price = {"id": ids.variant, "price": "10.00", "inventoryItem": {"cost": "8"}}
    reprice(shop, ids, same_price)
    assert shop.simulator.double_writes() == []
    reprice(shop, ids, same_price)
    assert len(shop.simulator.double_writes()) == 1


def test_several_aliased_mutations_run_in_order_and_each_by_itself(shop: Any) -> None:
    one, two = shop.seed("A-1"), shop.seed("A-2")
    parts = [
        f'{name}: productVariantsBulkUpdate(productId: "{ids.product}",'
        f' variants: [{{id: "{ids.variant}", price: "{price}"}}]) {{ userErrors {{ code }} }}'
        for name, ids, price in (("a", one, "1"), ("b", two, "-1"), ("c", one, "3"))
    ]
    answer = shop.ask(f"mutation {{ {' '.join(parts)} }}")
    assert [len(result["userErrors"]) for result in answer["data"].values()] == [0, 1, 0]
    assert [effect.new for effect in shop.simulator.effects] == [Decimal(1), Decimal(3)]
    assert answer["extensions"]["cost"]["requestedQueryCost"] == 30
    assert shop.simulator.calls["productVariantsBulkUpdate"] == 1


def test_one_bad_variant_stops_its_product_unless_partial_updates_are_allowed(shop: Any) -> None:
    ids = shop.seed("A-1")
    other = shop.shop_listings.add_variant(ids.product, "A-2", options=(("Title", "Two"),))
    variants = [{"id": ids.variant, "price": "11"}, {"id": other.variant, "price": "-1"}]
    result = reprice(shop, ids, *variants)
    assert codes(result) == [("GREATER_THAN_OR_EQUAL_TO", ["variants", "1", "price"])]
    assert not shop.simulator.effects
    assert codes(reprice(shop, ids, *variants, partial=True)) == codes(result)
    assert shop.shown("A-1").price == Decimal(11)


def test_a_bad_cost_brings_two_errors_and_the_vaguer_one_first(shop: Any) -> None:
    ids = shop.seed("A-1")
    result = reprice(shop, ids, {"id": ids.variant, "inventoryItem": {"cost": "-1"}})
    assert codes(result) == [
        (None, ["variants", "0", "inventoryItem"]),
        ("GREATER_THAN_OR_EQUAL_TO", ["variants", "0", "inventoryItem", "cost"]),
    ]


def test_an_amount_has_an_upper_bound(shop: Any) -> None:
    ids = shop.seed("A-1")
    result = reprice(shop, ids, {"id": ids.variant, "price": "1000000000000000000"})
    assert codes(result) == [("INVALID_INPUT", ["variants", "0", "price"])]
    assert not shop.simulator.effects


def test_unknown_foreign_and_suspended_products_have_different_errors(shop: Any) -> None:
    ids, other, barred = shop.seed("A-1"), shop.seed("A-2"), shop.seed("A-3")
    shop.shop_listings.edit_status("A-3", "ACTIVE", is_suspended=True)
    priced = {"id": ids.variant, "price": "11"}
    unknown = shop.do(PRICES, product="gid://shopify/Product/1", variants=[priced])
    assert codes(unknown) == [("PRODUCT_DOES_NOT_EXIST", ["productId"])]
    assert codes(reprice(shop, other, priced))[0][0] == "PRODUCT_VARIANT_DOES_NOT_EXIST"
    assert codes(reprice(shop, ids, {"price": "11"}))[0][0] == "PRODUCT_VARIANT_ID_MISSING"
    assert codes(reprice(shop, barred, priced))[0][0] == "PRODUCT_SUSPENDED"
    assert not shop.simulator.effects


def test_quantities_cannot_be_set_with_prices(shop: Any) -> None:
    ids = shop.seed("A-1")
    stock = [{"availableQuantity": 1, "locationId": shop.locations["Dallas"]}]
    result = reprice(shop, ids, {"id": ids.variant, "inventoryQuantities": stock})
    assert codes(result)[0][0] == "NO_INVENTORY_QUANTITIES_ON_VARIANTS_UPDATE"


@pytest.mark.parametrize("price", ("eleven", "NaN", True))
def test_what_is_no_amount_is_no_price(shop: Any, price: object) -> None:
    ids = shop.seed("A-1")
    with pytest.raises(AssertionError, match="not an amount"):
        reprice(shop, ids, {"id": ids.variant, "price": price})
    assert not shop.simulator.effects


def test_a_product_is_drafted_and_a_second_time_counts_as_double(shop: Any) -> None:
    ids = shop.seed("A-1")
    for _ in range(2):
        result = shop.do(STATUS, product={"id": ids.product, "status": "DRAFT"})
        assert result == {"product": {"status": "DRAFT"}, "userErrors": []}
    assert [(effect.kind, effect.old, effect.new) for effect in shop.simulator.effects] == [
        ("status", "ACTIVE", "DRAFT"),
        ("status", "DRAFT", "DRAFT"),
    ]
    assert len(shop.simulator.double_writes()) == 1
    result = shop.do(STATUS, product={"id": "gid://shopify/Product/1", "status": "DRAFT"})
    assert result["userErrors"][0]["field"] == ["id"]


def test_setting_a_product_by_handle_makes_it_once(shop: Any) -> None:
    fields, identifier = version(shop, "B-1", "b-1"), {"handle": "b-1"}
    first = shop.do(SET, input=fields, identifier=identifier)
    assert shop.do(SET, input=fields, identifier=identifier) == first
    assert len(shop.shop_listings.by_sku("B-1")) == 1
    shown = shop.shown("B-1")
    assert (shown.price, shown.cost, shown.tracked) == (Decimal(11), Decimal("9.5"), True)
    assert (shown.quantities, shown.handle, shown.status) == ({"Dallas": 3}, "b-1", "ACTIVE")
    made = [(effect.id, effect.new) for effect in shop.simulator.effects if effect.kind == "create"]
    assert made == [(shown.ids.product, "B-1")]
    assert len(shop.simulator.double_writes()) == 1


def test_setting_a_product_deletes_what_its_lists_leave_out(shop: Any) -> None:
    ids = shop.seed("B-1", handle="b-1")
    shop.shop_listings.add_variant(ids.product, "B-2", options=(("Title", "Two"),))
    result = shop.do(SET, input=version(shop, "B-1", "b-1"), identifier={"handle": "b-1"})
    assert result["product"]["variants"]["nodes"] == [{"id": ids.variant, "sku": "B-1"}]
    assert shop.shown("B-2") is None
    bare = {"handle": "b-1", "title": "bare"}
    shop.do(SET, input=bare, identifier={"handle": "b-1"})
    assert shop.shown("B-1") is not None, "without a list of variants they stay"


def test_a_handle_is_normalized_and_found_as_it_was_sent(shop: Any) -> None:
    fields = version(shop, "B-1", "  B 1/Größe_x ")
    first = shop.do(SET, input=fields, identifier={"handle": "  B 1/Größe_x "})
    assert first["product"]["handle"] == "b-1-gr-e_x"
    again = shop.do(
        SET, input=version(shop, "B-1", "b-1-gr-e_x"), identifier={"handle": "b-1-gr-e_x"}
    )
    assert again["product"]["id"] == first["product"]["id"]


@pytest.mark.parametrize(
    ("more", "field", "message"),
    (
        ({"title": " "}, "title", "can't be blank"),
        ({"title": "x" * 256}, "title", "is too long (maximum is 255 characters)"),
        ({"vendor": "x" * 256}, "vendor", "is too long (maximum is 255 characters)"),
    ),
)
def test_texts_that_are_blank_or_too_long_are_refused(
    shop: Any, more: dict[str, str], field: str, message: str
) -> None:
    (error,) = shop.do(SET, input=version(shop, "B-1", "b-1", **more))["userErrors"]
    assert (error["field"], error["message"]) == (["input", field], message)
    ids = shop.seed("A-1")
    (error,) = shop.do(STATUS, product={"id": ids.product, **more})["userErrors"]
    assert (error["field"], error["message"]) == ([field], message)
    assert not shop.simulator.effects


def test_a_product_is_set_with_its_details(shop: Any) -> None:
    more = {"tags": ["Condition: NE", "a, b"], "files": [{"originalSource": "https://x.example/a"}]}
    fields = version(shop, "B-1", "b-1", **more)
    fields["variants"][0]["inventoryItem"] |= {
        "measurement": {"weight": {"value": 0.5, "unit": "POUNDS"}},
        "countryCodeOfOrigin": "US",
        "harmonizedSystemCode": "880330",
    }
    assert shop.do(SET, input=fields)["userErrors"] == []
    shown = shop.shown("B-1")
    product = shop.shop_listings.products[shown.ids.product]
    variant = shop.shop_listings.variants[shown.ids.variant]
    assert (product.tags, product.images) == (("Condition: NE", "a", "b"), ("https://x.example/a",))
    assert (variant.weight, variant.origin) == ((0.5, "POUNDS"), "US")
    assert variant.tariff_code == "880330"


@pytest.mark.parametrize(
    ("item", "more", "field"),
    (
        ({"measurement": {"weight": {"value": -1, "unit": "GRAMS"}}}, {}, "weight"),
        ({"harmonizedSystemCode": "8803.30"}, {}, "harmonizedSystemCode"),
        ({}, {"files": [{"originalSource": "http://x.example/a"}]}, "files"),
        ({}, {"tags": ["x" * 256]}, "tags"),
    ),
)
def test_details_that_make_no_sense_are_refused(
    shop: Any, item: dict[str, Any], more: dict[str, Any], field: str
) -> None:
    fields = version(shop, "B-1", "b-1", **more)
    fields["variants"][0]["inventoryItem"] |= item
    (error,) = shop.do(SET, input=fields)["userErrors"]
    assert error["field"][-1] == field
    assert not shop.simulator.effects


@pytest.mark.parametrize(
    "item",
    (
        {"countryCodeOfOrigin": "UNITED STATES"},
        {"measurement": {"weight": {"value": 1, "unit": "LB"}}},
    ),
)
def test_a_country_and_a_unit_of_weight_are_words_of_the_schema(
    shop: Any, item: dict[str, Any]
) -> None:
    fields = version(shop, "B-1", "b-1")
    fields["variants"][0]["inventoryItem"] |= item
    with pytest.raises(AssertionError, match="does not exist in"):
        shop.do(SET, input=fields)


def test_a_handle_that_is_taken_is_refused_without_an_identifier(shop: Any) -> None:
    shop.seed("B-1", handle="b-1")
    result = shop.do(SET, input=version(shop, "B-1", "b-1"))
    assert codes(result) == [("HANDLE_NOT_UNIQUE", ["input", "handle"])]


@pytest.mark.parametrize(
    ("more", "identifier", "code"),
    (
        ({"handle": "other"}, {"handle": "b-1"}, "INPUT_MISMATCH"),
        ({"handle": None}, {"handle": "b-1"}, "MISSING_FIELD_REQUIRED"),
        ({"handle": "/"}, {"handle": "/"}, "INVALID_INPUT"),
        ({"id": "gid://shopify/Product/1"}, {"handle": "b-1"}, "ID_NOT_ALLOWED"),
        ({}, {"id": "gid://shopify/Product/1"}, "PRODUCT_DOES_NOT_EXIST"),
        ({"title": ""}, None, "INVALID_INPUT"),
        ({"productOptions": []}, None, "PRODUCT_OPTIONS_INPUT_MISSING"),
        ({"variants": []}, None, "VARIANTS_INPUT_MISSING"),
    ),
)
def test_a_product_that_cannot_be_set_is_not_made(
    shop: Any, more: dict[str, Any], identifier: dict[str, str] | None, code: str
) -> None:
    result = shop.do(SET, input=version(shop, "B-1", "b-1", **more), identifier=identifier)
    assert [reason for reason, _ in codes(result)] == [code]
    assert not shop.simulator.effects


def test_a_search_by_sku_finds_its_words_and_not_only_the_sku(shop: Any) -> None:
    for sku in ("A-1", "A-1-X", "1=A", "B-1", "A-11"):
        shop.seed(sku)
    assert skus_of(shop, "sku:A-1") == ["A-1", "A-1-X", "1=A"]
    assert skus_of(shop, 'sku:"A-1"') == ["A-1", "A-1-X"]
    assert skus_of(shop, "sku:'A-1' OR sku:b-1") == ["A-1", "A-1-X", "B-1"]
    assert skus_of(shop, "(sku:B-1 OR sku:A-11) AND sku:11") == ["A-11"]
    assert skus_of(shop, 'sku:"C-1"') == []
    assert len(skus_of(shop, "")) == 5


@pytest.mark.parametrize("query", ("(sku:A", "sku:A)", "sku:A OR", 'sku:"A'))
def test_a_search_that_cannot_be_read_is_an_error(shop: Any, query: str) -> None:
    shop.seed("A-1")
    assert "errors" in shop.ask(FIND, query=query)


def test_a_search_by_an_unknown_field_is_made_without_it_and_warns(shop: Any) -> None:
    shop.seed("A-1")
    answer = shop.ask(FIND, query="color:red")
    assert len(answer["data"]["productVariants"]["nodes"]) == 1
    [search] = answer["extensions"]["search"]
    assert [warning["code"] for warning in search["warnings"]] == ["invalid_field"]


def test_a_search_comes_in_pages(shop: Any) -> None:
    for number in range(5):
        shop.seed(f"A-{number}")
    query = (
        "query ($after: String) { productVariants(first: 2, after: $after)"
        " { edges { node { sku } } pageInfo { hasNextPage endCursor } } }"
    )
    skus, after = [], None
    while True:
        page = shop.do(query, after=after)
        skus += [edge["node"]["sku"] for edge in page["edges"]]
        after = page["pageInfo"]["endCursor"]
        if not page["pageInfo"]["hasNextPage"]:
            break
    assert skus == [f"A-{number}" for number in range(5)]


def test_a_renumbered_product_answers_to_its_new_ids_only(shop: Any) -> None:
    old = shop.seed("A-1", cost=Decimal(9))
    before = shop.shown("A-1")
    new = shop.simulator.renumber(shop.domain, "A-1")
    assert shop.do(READ, ids=[old.variant, new.variant, old.product]) == [
        None,
        {"sku": "A-1"},
        None,
    ]
    result = reprice(shop, old, {"id": old.variant, "price": "11"})
    assert codes(result)[0][0] == "PRODUCT_DOES_NOT_EXIST"
    result = shop.set_stock(shop.quantity(old, "Dallas", 1))
    assert codes(result)[0][0] == "INVALID_INVENTORY_ITEM"
    after = shop.shown("A-1")
    assert (after.quantities, after.cost) == (before.quantities, before.cost)
    assert after.ids == new


def test_edits_by_people_do_not_count_as_our_writes(shop: Any) -> None:
    shop.seed("A-1")
    shop.simulator.edit_price(shop.domain, "A-1", Decimal("99.00"))
    assert shop.simulator.sell(shop.domain, "A-1", "Dallas", 2) == 3
    assert shop.shown("A-1").price == Decimal(99)
    shop.simulator.delete(shop.domain, "A-1")
    assert shop.shown("A-1") is None
    assert skus_of(shop, "sku:A-1") == []
    assert not shop.simulator.effects
