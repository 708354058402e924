"""Every document that reads a shop is valid, has the estimated cost, and needs only our scopes."""

import json
from functools import cache
from typing import Any

import pytest
from graphql import (
    NoDeprecatedCustomRule,
    TypeInfo,
    TypeInfoVisitor,
    Visitor,
    get_named_type,
    parse,
    validate,
    visit,
)
from tests.contracts.reduction import SCHEMAS
from tests.contracts.reduction import SCOPES as SCOPES_FILE
from tests.contracts.test_shopify_documents import DOCUMENTS, assert_valid, schema

from headway.core.accounts.pagination import PageRequest
from headway.providers.shopify.access_scopes import SCOPES
from headway.providers.shopify.narrowing import NAMED_SIZES
from headway.providers.shopify.read_queries import PAGE_SIZES, document_of, price_of
from headway_lab.simulators.shopify.schema import Operation, read_document

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
def scopes_by_name() -> dict[str, set[str]]:
    """Return the scopes of types and of their fields."""
    document = json.loads((SCHEMAS / SCOPES_FILE).read_text(encoding="utf-8"))
    return {name: set(scopes) for name, scopes in document.items()}


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


def needed_scopes(text: str) -> list[set[str]]:
    """Return what a document needs: of each set one scope, for the types and fields it selects."""
    info, needed = TypeInfo(schema()), []

    class Collect(Visitor):
        def enter_field(self, node: Any, *_: Any) -> None:
            holder = info.get_parent_type()
            needed.append(scopes_by_name().get(f"{holder.name}.{node.name.value}", set()))
            kind = get_named_type(info.get_type())
            needed.append(scopes_by_name().get(kind.name, set()))

        def enter_fragment_definition(self, node: Any, *_: Any) -> None:
            needed.append(scopes_by_name().get(node.type_condition.name.value, set()))

    visit(parse(text), TypeInfoVisitor(info, Collect()))
    return [scopes for scopes in needed if scopes]


TEXTS = {name: document_of(ask).text for name, ask in ASKS.items()} | {
    name: document.text for name, document in DOCUMENTS.items()
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_document_needs_only_requested_scopes(name: str) -> None:
    for scopes in needed_scopes(TEXTS[name]):
        assert scopes & {scope.name for scope in SCOPES}, f"one of {scopes} is needed"


def test_every_scope_is_needed() -> None:
    needed = set().union(*(scopes for text in TEXTS.values() for scopes in needed_scopes(text)))
    assert {scope.name for scope in SCOPES} <= needed


def test_no_value_is_part_of_a_text() -> None:
    for ask in ASKS.values():
        for value in ("gid://", "2026", "updated_at", "id:>", "12", "250"):
            assert value not in document_of(ask).text
