"""The reduced schemas are small, complete and, where the full ones are here, up to date."""

import pytest
from graphql import build_schema
from tests.contracts.reduction import (
    ETSY,
    PRINTIFY,
    SCHEMAS,
    SCOPES,
    SHOPIFY,
    UsedNames,
    reduce_all,
)

from headway.providers.shopify.queries import Document

COMMAND = "python -m tests.contracts.reduction"


def test_the_reduced_schemas_are_up_to_date_where_the_full_ones_are_here() -> None:
    for name, text in reduce_all().items():
        kept = (SCHEMAS / name).read_text(encoding="utf-8")
        assert kept == text, f"{name} is outdated; run: {COMMAND}"


def test_the_reduced_schemas_stay_small() -> None:
    sizes = {path.name: path.stat().st_size for path in SCHEMAS.iterdir()}
    assert set(sizes) == {SHOPIFY, SCOPES, ETSY, PRINTIFY, "README.md"}
    assert sum(sizes.values()) < 200_000


def test_fields_arguments_and_input_fields_of_a_document_are_collected() -> None:
    schema = build_schema(
        "type Query { items(first: Int, query: ItemFilter): [Item!]! other: Int }"
        " type Item { id: ID! name: String } input ItemFilter { sku: String color: String }"
    )
    used = UsedNames(schema)
    text = (
        "query Q($query: ItemFilter) { items(query: $query) { ...Some } }"
        " fragment Some on Item { id }"
    )
    used.add(Document(text=text, variables={"query": {"sku": "A"}}))
    assert used.names["Query"] == {"items", "items(query)"}
    assert used.names["Item"] == {"", "id"}
    assert used.names["ItemFilter"] == {"", "sku"}


@pytest.mark.parametrize("name", (SHOPIFY, ETSY, PRINTIFY))
def test_no_description_is_kept(name: str) -> None:
    text = (SCHEMAS / name).read_text(encoding="utf-8")
    assert '"""' not in text
    assert '"summary"' not in text
