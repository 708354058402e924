"""Stock in the simulated shop: keys, compare-and-set, all or none, and its log of writes."""

from typing import Any

import pytest

ACTIVATE = """
mutation ($item: ID!, $location: ID!, $available: Int, $onHand: Int, $key: String!) {
  inventoryActivate(
    inventoryItemId: $item, locationId: $location, available: $available, onHand: $onHand
  )
    @idempotent(key: $key) {
    inventoryLevel { quantities(names: ["available"]) { quantity } location { name } }
    userErrors { field message }
  }
}
"""


def codes(payload: dict[str, Any]) -> list[tuple[str, list[str] | None]]:
    return [(error["code"], error["field"]) for error in payload["userErrors"]]


def activate(shop: Any, ids: Any, place: str, *, key: str = "a", **more: Any) -> dict[str, Any]:
    return shop.do(ACTIVATE, item=ids.item, location=shop.locations[place], key=key, **more)


def test_a_quantity_is_set_and_logged(shop: Any) -> None:
    ids = shop.seed("A-1")
    result = shop.set_stock(shop.quantity(ids, "Dallas", 9, changeFromQuantity=5))
    assert result["userErrors"] == []
    assert result["inventoryAdjustmentGroup"]["changes"][0] == {
        "name": "available",
        "delta": 4,
        "quantityAfterChange": 9,
    }
    assert shop.shown("A-1").quantities == {"Dallas": 9, "Chicago": 2}
    (effect,) = shop.simulator.effects
    assert (effect.kind, effect.id, effect.location) == (
        "stock",
        ids.item,
        shop.locations["Dallas"],
    )
    assert (effect.old, effect.new, effect.shop, effect.request) == (5, 9, shop.domain, 1)


@pytest.mark.parametrize("field", ("inventorySetQuantities", "inventoryActivate"))
def test_stock_is_not_written_without_an_idempotency_key(shop: Any, field: str) -> None:
    ids = shop.seed("A-1")
    entry = shop.quantity(ids, "Dallas", 9)
    if field == "inventoryActivate":
        arguments = f'inventoryItemId: "{ids.item}", locationId: "{shop.locations["Miami"]}"'
        answer = shop.ask(f"mutation {{ {field}({arguments}) {{ userErrors {{ message }} }} }}")
    else:
        answer = shop.ask(
            "mutation ($input: InventorySetQuantitiesInput!)"
            " { inventorySetQuantities(input: $input) { userErrors { message } } }",
            input={"name": "available", "reason": "correction", "quantities": [entry]},
        )
    assert answer["data"] == {field: None}
    assert answer["errors"][0]["extensions"]["code"] == "BAD_REQUEST"
    assert "@idempotent" in answer["errors"][0]["message"]
    assert not shop.simulator.effects


def test_the_same_key_and_variables_are_answered_again_without_effect(shop: Any) -> None:
    ids = shop.seed("A-1")
    first = shop.set_stock(shop.quantity(ids, "Dallas", 9, changeFromQuantity=5))
    shop.simulator.sell(shop.domain, "A-1", "Dallas", 3)
    again = shop.set_stock(shop.quantity(ids, "Dallas", 9, changeFromQuantity=5))
    assert again == first
    assert shop.shown("A-1").quantities["Dallas"] == 6
    assert len(shop.simulator.effects) == 1
    assert shop.simulator.double_writes() == []


def test_the_same_key_with_other_variables_is_a_mismatch(shop: Any) -> None:
    ids = shop.seed("A-1")
    shop.set_stock(shop.quantity(ids, "Dallas", 9))
    result = shop.set_stock(shop.quantity(ids, "Dallas", 8))
    assert codes(result) == [("IDEMPOTENCY_KEY_PARAMETER_MISMATCH", None)]
    assert shop.shown("A-1").quantities["Dallas"] == 9


def test_a_key_still_in_flight_gets_an_error_to_retry_later(open_shop: Any) -> None:
    shop = open_shop(delay_s=(3.0, 3.0))
    ids = shop.seed("A-1")
    # One second apart, while the first takes three.
    results = [codes(shop.set_stock(shop.quantity(ids, "Dallas", 9))) for _ in range(3)]
    assert results[0] == []
    assert results[1:] == [[("IDEMPOTENCY_CONCURRENT_REQUEST", None)]] * 2
    assert codes(shop.set_stock(shop.quantity(ids, "Dallas", 9))) == []
    assert len(shop.simulator.effects) == 1


def test_a_key_is_forgotten_after_a_day(shop: Any) -> None:
    ids = shop.seed("A-1")
    shop.set_stock(shop.quantity(ids, "Dallas", 9))
    shop.clock.sleep(86_400)
    shop.set_stock(shop.quantity(ids, "Dallas", 9))
    assert len(shop.simulator.effects) == 2
    assert len(shop.simulator.double_writes()) == 1


def test_the_expected_quantity_is_required_even_if_null(shop: Any) -> None:
    ids = shop.seed("A-1")
    entry = shop.quantity(ids, "Dallas", 9)
    del entry["changeFromQuantity"]
    with pytest.raises(AssertionError, match="changeFromQuantity"):
        shop.set_stock(entry)
    assert not shop.simulator.effects


def test_a_stale_expected_quantity_rejects_the_whole_call_and_names_its_index(shop: Any) -> None:
    many = [shop.seed(f"A-{number}") for number in range(5)]
    entries = [shop.quantity(ids, "Dallas", 9, changeFromQuantity=5) for ids in many]
    entries[3]["changeFromQuantity"] = 4
    result = shop.set_stock(*entries)
    where = ["input", "quantities", "3", "changeFromQuantity"]
    assert codes(result) == [("CHANGE_FROM_QUANTITY_STALE", where)]
    assert shop.shown("A-0").quantities["Dallas"] == 5
    assert not shop.simulator.effects


@pytest.mark.parametrize(
    ("code", "name", "more"),
    (
        ("INVALID_INVENTORY_ITEM", "inventoryItemId", {"inventoryItemId": "gid://shopify/X/1"}),
        ("INVALID_LOCATION", "locationId", {"locationId": "gid://shopify/Location/1"}),
        ("INVALID_QUANTITY_TOO_LOW", "quantity", {"quantity": -1_000_000_001}),
        ("INVALID_QUANTITY_TOO_HIGH", "quantity", {"quantity": 1_000_000_001}),
    ),
)
def test_one_bad_quantity_is_refused_with_its_reason(
    shop: Any, code: str, name: str, more: dict[str, Any]
) -> None:
    good, bad = shop.seed("A-1"), shop.seed("A-2")
    result = shop.set_stock(
        shop.quantity(good, "Dallas", 9), {**shop.quantity(bad, "Dallas", 9), **more}
    )
    assert codes(result) == [(code, ["input", "quantities", "1", name])]
    assert shop.shown("A-1").quantities["Dallas"] == 5


def test_an_item_must_be_stocked_and_tracked_where_it_is_counted(shop: Any) -> None:
    ids, loose = shop.seed("A-1"), shop.seed("A-2", tracked=False)
    shop.shop_listings.stock("A-1", "Chicago", is_active=False)
    result = shop.set_stock(
        shop.quantity(ids, "Miami", 1),
        shop.quantity(ids, "Chicago", 1),
        shop.quantity(loose, "Dallas", 1),
    )
    assert [code for code, _ in codes(result)] == [
        "ITEM_NOT_STOCKED_AT_LOCATION",
        "ITEM_NOT_STOCKED_AT_LOCATION",
        "NON_MUTABLE_INVENTORY_ITEM",
    ]


def test_the_same_item_and_location_may_not_come_twice(shop: Any) -> None:
    ids = shop.seed("A-1")
    result = shop.set_stock(shop.quantity(ids, "Dallas", 1), shop.quantity(ids, "Dallas", 2))
    code = "NO_DUPLICATE_INVENTORY_ITEM_ID_GROUP_ID_PAIR"
    rows = [["input", "quantities", place, "locationId"] for place in ("0", "1")]
    assert codes(result) == [(code, row) for row in rows], "both are named"


def test_what_is_available_may_be_negative_and_what_is_on_hand_may_not(shop: Any) -> None:
    ids = shop.seed("A-1")
    assert shop.set_stock(shop.quantity(ids, "Dallas", -3))["userErrors"] == []
    assert shop.shown("A-1").quantities["Dallas"] == -3
    result = shop.set_stock(shop.quantity(ids, "Dallas", -4), key="k2", name="on_hand")
    assert codes(result)[0][0] == "INVALID_QUANTITY_NEGATIVE"


def test_a_key_whose_attempt_failed_is_not_tried_again(shop: Any) -> None:
    ids = shop.seed("A-1")
    shop.simulator.log.breaks_next = True
    with pytest.raises(AssertionError, match="INTERNAL_SERVER_ERROR"):
        shop.set_stock(shop.quantity(ids, "Dallas", 9))
    with pytest.raises(AssertionError, match="IDEMPOTENCY_PREVIOUS_ATTEMPT_FAILED"):
        shop.set_stock(shop.quantity(ids, "Dallas", 9))
    assert shop.set_stock(shop.quantity(ids, "Dallas", 9), key="k2")["userErrors"] == []
    assert len(shop.simulator.effects) == 1


def test_250_quantities_go_in_one_call_and_251_do_not(shop: Any) -> None:
    many = [shop.seed(f"A-{number}") for number in range(251)]
    entries = [shop.quantity(ids, "Dallas", 9) for ids in many]
    assert shop.set_stock(*entries[:250])["userErrors"] == []
    with pytest.raises(AssertionError, match="MAX_INPUT_SIZE_EXCEEDED"):
        shop.set_stock(*entries, key="k2")
    assert len(shop.simulator.effects) == 250


def test_name_reason_and_document_are_checked(shop: Any) -> None:
    ids = shop.seed("A-1")
    more = {"name": "incoming", "reason": "because", "referenceDocumentUri": "here"}
    result = shop.set_stock(shop.quantity(ids, "Dallas", 9), **more)
    assert [code for code, _ in codes(result)] == [
        "INVALID_NAME",
        "INVALID_REASON",
        "INVALID_REFERENCE_DOCUMENT",
    ]


def test_a_write_is_double_only_if_nothing_of_its_item_changed(shop: Any) -> None:
    one, two = shop.seed("A-1"), shop.seed("A-2")
    shop.set_stock(
        shop.quantity(one, "Dallas", 5),  # as it was, but Chicago moves
        shop.quantity(one, "Chicago", 3),
        shop.quantity(two, "Dallas", 5),  # as it was, both of them
        shop.quantity(two, "Chicago", 2),
    )
    assert [effect.id for effect in shop.simulator.double_writes()] == [two.item]


def test_a_listener_is_called_for_each_effect(shop: Any) -> None:
    effects = []
    shop.simulator.on_effect = effects.append
    shop.set_stock(shop.quantity(shop.seed("A-1"), "Dallas", 9))
    assert effects == shop.simulator.effects


def test_an_item_is_activated_where_it_was_not_stocked(shop: Any) -> None:
    ids = shop.seed("A-1")
    level = activate(shop, ids, "Miami", available=4)["inventoryLevel"]
    assert level == {"quantities": [{"quantity": 4}], "location": {"name": "Miami"}}
    assert shop.set_stock(shop.quantity(ids, "Miami", 6))["userErrors"] == []
    assert [(effect.old, effect.new) for effect in shop.simulator.effects] == [(None, 4), (4, 6)]


def test_an_item_that_is_not_tracked_is_activated_with_nothing(shop: Any) -> None:
    ids = shop.seed("A-1", tracked=False)
    level = activate(shop, ids, "Miami", available=9)["inventoryLevel"]
    assert level["quantities"] == [{"quantity": 0}]


def test_an_activation_takes_one_of_two_quantities(shop: Any) -> None:
    ids = shop.seed("A-1")
    errors = activate(shop, ids, "Miami", available=4, onHand=4)["userErrors"]
    assert [error["field"] for error in errors] == [["onHand"]]
    assert not shop.simulator.effects


def test_an_activation_keeps_the_old_quantity(shop: Any) -> None:
    ids = shop.seed("A-1")
    shop.shop_listings.stock("A-1", "Chicago", is_active=False)
    assert "Chicago" not in shop.shown("A-1").quantities
    activate(shop, ids, "Chicago")
    assert shop.shown("A-1").quantities["Chicago"] == 2


def test_an_activation_has_its_key_too_and_refuses_what_is_active(shop: Any) -> None:
    ids = shop.seed("A-1")
    first = activate(shop, ids, "Miami", available=4)
    assert activate(shop, ids, "Miami", available=4) == first
    assert len(shop.simulator.effects) == 1
    assert activate(shop, ids, "Miami", available=5)["userErrors"]
    assert activate(shop, ids, "Miami", key="b", available=5)["userErrors"][0]["field"] == [
        "available"
    ]
    unknown = shop.do(ACTIVATE, item="gid://shopify/InventoryItem/1", location="x", key="c")
    assert unknown["userErrors"][0]["field"] == ["inventoryItemId"]
    assert shop.shown("A-1").quantities["Miami"] == 4
