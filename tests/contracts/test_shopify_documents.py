"""Every document that we can send is valid for our API version, including its variables."""

import json
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pytest
from graphql import (
    FieldNode,
    GraphQLEnumType,
    GraphQLSchema,
    NoDeprecatedCustomRule,
    OperationDefinitionNode,
    build_schema,
    parse,
    validate,
)
from graphql.execution.values import get_variable_values
from tests.contracts.reduction import SCHEMAS, SHOPIFY

from headway.core.catalog.listings import Sku
from headway.core.catalog.product_details import COUNTRIES, WEIGHT_UNITS, ProductDetails
from headway.core.catalog.storefront import (
    Creation,
    Gid,
    PriceWrite,
    ProductStatus,
    PublishWrite,
    StatusWrite,
    StockWrite,
)
from headway.providers.shopify import bulk, queries
from headway.providers.shopify.bulk import bulk_mutation, price_lines
from headway.providers.shopify.queries import Document

NASTY = ('WF1=K3" OR sku:*', "back\\slash", "O'Neil (new): 1/2", 'x"y', " spaced ")
KEY = "123e4567-e89b-12d3-a456-426614174000"


@lru_cache
def schema() -> GraphQLSchema:
    # Shopify deprecates fields that their interface does not; this does not concern us.
    return build_schema((SCHEMAS / SHOPIFY).read_text(encoding="utf-8"), assume_valid=True)


def gid(kind: str, number: int) -> Gid:
    return Gid(f"gid://shopify/{kind}/{number}")


CHANNELS = [gid("Publication", 1), gid("Publication", 2)]


def stock(count: int) -> list[StockWrite]:
    return [
        StockWrite(
            sku=Sku(f"WF{number}"),
            item=gid("InventoryItem", number),
            location=gid("Location", 1),
            quantity=number,
            change_from=None if number % 2 else number,
        )
        for number in range(count)
    ]


def prices(count: int, *, products: int) -> list[PriceWrite]:
    return [
        PriceWrite(
            sku=Sku(f"WF{number}"),
            product=gid("Product", number % products),
            variant=gid("ProductVariant", number),
            price=Decimal("11.00"),
            compare_at=None if number % 2 else Decimal("12.50"),
            cost=Decimal("9.5"),
        )
        for number in range(count)
    ]


DETAILS = ProductDetails(
    weight=Decimal("0.5"),
    weight_unit="POUNDS",
    origin="US",
    tariff_code="880330",
    condition="NE",
    unit="EA",
    image="https://images.example.com/wf1.jpg",
)


def creation(**fields: Any) -> Creation:
    values = {
        "sku": Sku("WF1=K3"),
        "shop_sku": NASTY[0],
        "handle": "wf1-k3",
        "title": 'A "title"',
        "description_html": "5 &lt; 6",
        "vendor": "Boeing",
        "price": Decimal("11.00"),
        "compare_at": None,
        "cost": Decimal("9.5"),
        "quantities": {gid("Location", 1): 5, gid("Location", 2): 0},
    }
    return Creation(**{**values, **fields})


def publication(number: int, channels: Sequence[Gid]) -> PublishWrite:
    return PublishWrite(sku=Sku(f"WF{number}"), product=gid("Product", number), channels=channels)


DOCUMENTS: dict[str, Document] = {
    "locations": queries.locations(),
    "find one": queries.find(["WF1=K3"], levels=4),
    "find several with odd characters": queries.find(NASTY, levels=4),
    "find where there are many locations": queries.find(["A"], levels=1000),
    "read one": queries.read([gid("ProductVariant", 1)], levels=0),
    "read many": queries.read([gid("ProductVariant", n) for n in range(250)], levels=4),
    "read on channels": queries.read([gid("ProductVariant", 1)], levels=4, channels=CHANNELS),
    "find on channels": queries.find(["WF1=K3"], levels=4, channels=CHANNELS),
    "channels": queries.channels(),
    "publish one": queries.publish([publication(1, CHANNELS[:1])]),
    "publish many": queries.publish([publication(number % 4, CHANNELS) for number in range(6)]),
    "set one quantity": queries.set_stock(stock(1), key=KEY),
    "set 250 quantities": queries.set_stock(stock(250), key=KEY),
    "activate": queries.activate(stock(1)[0], key=KEY),
    "set one price": queries.set_prices(prices(1, products=1)),
    "set prices of several variants": queries.set_prices(prices(5, products=1)),
    "set prices of many products": queries.set_prices(prices(90, products=40)),
    "set one status": queries.set_statuses(
        [StatusWrite(sku=Sku("A"), product=gid("Product", 1), status=ProductStatus.DRAFT)]
    ),
    "set every status": queries.set_statuses(
        [
            StatusWrite(sku=Sku("A"), product=gid("Product", 1), status=status)
            for status in ProductStatus
        ]
    ),
    "create": queries.create(creation()),
    "create with all details": queries.create(creation(details=DETAILS)),
    "create and read on channels": queries.create(creation(channels=CHANNELS)),
    "stop overselling": queries.set_prices(
        [replace(write, stops_overselling=True) for write in prices(2, products=1)]
    ),
    "create without stock": queries.create(creation(quantities={}, compare_at=Decimal(12))),
    "stage an upload": bulk.stage_upload("prices.jsonl"),
    "run in bulk": bulk.run_bulk("tmp/1/bulk/key.jsonl", key=KEY),
    "bulk status": bulk.bulk_status(gid("BulkOperation", 1)),
    "find bulk": bulk.find_bulk(),
    **{
        f"line {number} of a bulk file": Document(
            text=bulk_mutation(KEY), variables=json.loads(line)
        )
        for number, line in enumerate(price_lines(prices(5, products=3)).splitlines())
    },
}


def assert_valid(document: Document) -> None:
    parsed = parse(document.text)
    assert validate(schema(), parsed) == []
    [operation] = [
        definition
        for definition in parsed.definitions
        if isinstance(definition, OperationDefinitionNode)
    ]
    # As sent: what JSON cannot express would be lost here.
    variables = json.loads(json.dumps(document.variables))
    definitions = operation.variable_definitions or ()
    assert {definition.variable.name.value for definition in definitions} == set(variables)
    coerced = get_variable_values(schema(), definitions, variables)
    assert not isinstance(coerced, list), coerced


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_and_its_variables_are_valid(name: str) -> None:
    assert_valid(DOCUMENTS[name])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_document_uses_what_is_deprecated_but_the_name_of_a_channel(name: str) -> None:
    errors = validate(schema(), parse(DOCUMENTS[name].text), [NoDeprecatedCustomRule])
    texts = [error.message.partition(" is deprecated")[0] for error in errors]
    assert texts == (["The field Publication.name"] if name == "channels" else [])


@pytest.mark.parametrize(
    ("text", "variables"),
    (
        ("query Q($first: Int!) { locations(first: $first) { nodes { nmae } } }", {"first": 1}),
        ("query Q($first: Int!) { locations(first: $first) { nodes { name } } }", {"first": "1"}),
        ("query Q($first: Int!) { locations(first: $first) { nodes { name } } }", {}),
    ),
)
def test_an_invalid_document_is_detected(text: str, variables: dict[str, Any]) -> None:
    schema()
    with pytest.raises(AssertionError):
        assert_valid(Document(text=text, variables=variables))


def test_no_value_is_part_of_a_text() -> None:
    for document in DOCUMENTS.values():
        for value in ("gid://", "WF", "K3", "DRAFT", "Boeing", "11.00", "ACTIVE", "correction"):
            assert value not in document.text


def test_every_write_of_stock_has_its_idempotency_key() -> None:
    for name in ("set one quantity", "activate"):
        document = DOCUMENTS[name]
        [field] = parse(document.text).definitions[0].selection_set.selections
        assert isinstance(field, FieldNode)
        assert [directive.name.value for directive in field.directives] == ["idempotent"]
        assert document.variables["key"] == KEY


def test_the_expected_quantity_is_always_sent_even_when_it_is_not_known() -> None:
    quantities = DOCUMENTS["set 250 quantities"].variables["input"]["quantities"]
    assert [quantity["changeFromQuantity"] for quantity in quantities[:3]] == [0, None, 2]


def test_variants_of_one_product_share_a_mutation_and_the_sku_is_left_alone() -> None:
    variables = DOCUMENTS["set prices of many products"].variables
    assert len(variables) == 80
    assert [variable["id"][-2:] for variable in variables["v0"]] == ["/0", "40", "80"]
    assert variables["v0"][0] == {
        "id": gid("ProductVariant", 0),
        "price": "11.00",
        "compareAtPrice": "12.50",
        "inventoryItem": {"cost": "9.5"},
    }


def test_a_write_of_an_existing_product_holds_only_what_is_ours() -> None:
    [write] = prices(1, products=1)
    kept = queries.product_prices([replace(write, keeps_compare_at=True)], [0])["variants"]
    assert kept == [{"id": write.variant, "price": "11.00", "inventoryItem": {"cost": "9.5"}}]
    stopped = queries.product_prices([replace(write, stops_overselling=True)], [0])["variants"]
    assert stopped[0]["inventoryPolicy"] == "DENY"
    assert stopped[0]["inventoryItem"] == {"cost": "9.5", "tracked": True}
    statuses = DOCUMENTS["set one status"].variables["s0"]
    assert set(statuses) == {"id", "status"}


def test_a_search_quotes_special_characters_of_a_sku() -> None:
    search = DOCUMENTS["find several with odd characters"].variables["search"]
    assert search.split(" OR sku:") == [
        r'sku:"WF1=K3\"',
        r'*"',
        r'"back\\slash"',
        '"O\'Neil (new): 1/2"',
        r'"x\"y"',
        '" spaced "',
    ]


def test_a_creation_sends_the_details_that_there_are_and_no_others() -> None:
    full = DOCUMENTS["create with all details"].variables["input"]
    assert full["variants"][0]["inventoryItem"] == {
        "cost": "9.5",
        "tracked": True,
        "measurement": {"weight": {"value": 0.5, "unit": "POUNDS"}},
        "countryCodeOfOrigin": "US",
        "harmonizedSystemCode": "880330",
    }
    assert full["tags"] == ["Condition: NE", "Unit: EA"]
    image = {"originalSource": DETAILS.image, "contentType": "IMAGE", "alt": 'A "title"'}
    assert full["files"] == [image]
    bare = DOCUMENTS["create"].variables["input"]
    assert bare["variants"][0]["inventoryItem"] == {"cost": "9.5", "tracked": True}
    assert not {"tags", "files"} & bare.keys()
    assert bare["descriptionHtml"] == "5 &lt; 6"
    assert bare["variants"][0]["sku"] == NASTY[0]


def test_a_creation_names_no_product_that_it_would_overwrite() -> None:
    assert "identifier" not in DOCUMENTS["create"].text
    assert "id" not in DOCUMENTS["create"].variables["input"]


def test_the_countries_and_units_of_weight_are_those_that_shops_know() -> None:
    countries, units = (schema().type_map[name] for name in ("CountryCode", "WeightUnit"))
    assert isinstance(countries, GraphQLEnumType)
    assert isinstance(units, GraphQLEnumType)
    assert {*countries.values} - COUNTRIES == {"ZZ"}
    assert {*units.values} == {*WEIGHT_UNITS.values()}


def test_an_invalid_key_is_refused_in_a_bulk_mutation() -> None:
    with pytest.raises(AssertionError):
        bulk_mutation("a{b}")
