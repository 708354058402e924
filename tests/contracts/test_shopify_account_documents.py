"""Every document that reads a shop is valid, has the estimated cost, and needs only our scopes."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from graphql import (
    GraphQLObjectType,
    NoDeprecatedCustomRule,
    TypeInfo,
    TypeInfoVisitor,
    Visitor,
    get_named_type,
    parse,
    validate,
    visit,
)
from tests.contracts.test_shopify_documents import CONTRACT, assert_valid, schema

from headway.config import Settings
from headway.core.accounts.pagination import PageRequest
from headway.providers.shopify.narrowing import NAMED_SIZES
from headway.providers.shopify.read_queries import PAGE_SIZES, SCOPES, document_of, price_of
from headway_lab.simulators.shopify.schema import Operation, read_document

PAGE = Path(__file__).parents[2] / "docs/how-to/connect-a-shop.md"
LISTED = {"since": "2026-01-01T00:00:00+00:00", "after": None}
ASKS = {
    "orders by change": PageRequest(what="orders", values={**LISTED, "field": "updated_at"}),
    "orders by creation": PageRequest(
        what="orders",
        values={**LISTED, "field": "created_at", "until": "2026-02-01T00:00:00+00:00"},
    ),
    "orders by id": PageRequest(
        what="orders_by_id", values={"ids": ["1"] * NAMED_SIZES["orders"][0]}
    ),
    "one order": PageRequest(what="order", values={"id": "1", "next": None}),
    "products": PageRequest(what="products", values={**LISTED, "field": "updated_at"}),
    "products by id": PageRequest(
        what="products_by_id", values={"ids": ["1"] * NAMED_SIZES["products"][0]}
    ),
    "one product": PageRequest(what="product", values={"id": "1", "next": None}),
    "all variants": PageRequest(what="variants", values={"above": "0"}),
    "customers": PageRequest(what="customers", values={**LISTED, "field": "updated_at"}),
    "customers by id": PageRequest(
        what="customers_by_id", values={"ids": ["1"] * NAMED_SIZES["customers"][0]}
    ),
    "all customers": PageRequest(what="all_customers", values={"above": "0"}),
    "scopes": PageRequest(what="scopes"),
}
ASKS |= {
    f"ids and cursors of {ask.what}": PageRequest(
        what="peek", values={**ask.values, "list": ask.what, "first": 3, "has_ids": True}
    )
    for ask in ASKS.values()
    if ask.what in PAGE_SIZES
}


@cache
def scopes_by_type() -> dict[str, set[str]]:
    path = Path(__file__).parents[3] / CONTRACT
    if not path.exists():
        pytest.skip(f"no {CONTRACT} beside the project: the needed scopes are unknown")
    items = json.loads(path.read_text(encoding="utf-8"))["offline_scopes"]["items"]
    return {
        item["typeName"]: set(item["offlineScopes"])
        for item in items
        if item["type"] == "type" and item["offlineScopes"]
    }


def types_in(text: str) -> set[str]:
    """Return every type of object that a document selects."""
    info, names = TypeInfo(schema()), set()

    class Collect(Visitor):
        def enter_field(self, *_: Any) -> None:
            kind = get_named_type(info.get_type())
            if isinstance(kind, GraphQLObjectType):
                names.add(kind.name)

        def enter_fragment_definition(self, node: Any, *_: Any) -> None:
            names.add(node.type_condition.name.value)

    visit(parse(text), TypeInfoVisitor(info, Collect()))
    return names


@pytest.mark.parametrize("name", ASKS)
def test_a_document_and_its_variables_are_valid(name: str) -> None:
    assert_valid(document_of(ASKS[name]))


@pytest.mark.parametrize("name", ASKS)
def test_no_document_uses_what_is_deprecated(name: str) -> None:
    text = document_of(ASKS[name]).text
    assert validate(schema(), parse(text), [NoDeprecatedCustomRule]) == []


@pytest.mark.parametrize("name", ASKS)
def test_a_document_has_the_estimated_cost_within_the_limit_of_a_call(name: str) -> None:
    document = document_of(ASKS[name])
    operation = read_document(document.text)
    assert isinstance(operation, Operation), operation
    assert operation.cost(document.variables) == price_of(ASKS[name]) <= 1000


@pytest.mark.parametrize("name", ASKS)
def test_a_document_needs_only_requested_scopes(name: str) -> None:
    needed = scopes_by_type()
    for kind in types_in(document_of(ASKS[name]).text) & needed.keys():
        assert needed[kind] & set(SCOPES), f"{kind} needs one of {needed[kind]}"


def test_every_scope_is_needed_granted_by_default_and_documented() -> None:
    needed = scopes_by_type()
    used = set().union(*(types_in(document_of(ask).text) for ask in ASKS.values()))
    for scope in SCOPES:
        assert any(scope in needed.get(kind, ()) for kind in used)
    granted = Settings.model_fields["shopify_scopes"].default.split(",")
    assert set(SCOPES) <= set(granted)
    documented = set(re.findall(r"`((?:read|write)_\w+)`", PAGE.read_text(encoding="utf-8")))
    assert {*SCOPES, "read_all_orders"} <= documented


def test_no_value_is_part_of_a_text() -> None:
    for ask in ASKS.values():
        for value in ("gid://", "2026", "updated_at", "id:>", "12", "250"):
            assert value not in document_of(ask).text
