"""The schema of the simulated shop is a subset of Shopify's schema."""

from functools import cache
from typing import Any

import pytest
from graphql import build_schema, introspection_from_schema
from tests.contracts.reduction import SCHEMAS, SHOPIFY

from headway_lab.simulators.shopify.schema import SCHEMA

OURS: dict[str, Any] = introspection_from_schema(SCHEMA)["__schema"]
NAMES = sorted(our["name"] for our in OURS["types"] if not our["name"].startswith("__"))
# They describe a schema; no document may carry them.
NOT_FOR_DOCUMENTS = {"specifiedBy", "deprecated", "oneOf"}


@cache
def contract() -> dict[str, Any]:
    text = (SCHEMAS / SHOPIFY).read_text(encoding="utf-8")
    document: dict[str, Any] = introspection_from_schema(build_schema(text, assume_valid=True))
    return document["__schema"]


def spell(kind: dict[str, Any]) -> str:
    """Write a type as GraphQL does."""
    if kind["kind"] == "NON_NULL":
        return f"{spell(kind['ofType'])}!"
    return f"[{spell(kind['ofType'])}]" if kind["kind"] == "LIST" else str(kind["name"])


def shape(schema: dict[str, Any], name: str) -> dict[str, str | None]:
    """Return every name inside a type, with its type and the default if there is one."""
    kind = next((kind_ for kind_ in schema["types"] if kind_["name"] == name), None)
    assert kind is not None, f"there is no {name}"
    names: dict[str, str | None] = {"": kind["kind"]}
    names |= {f"is {kind_['name']}": None for kind_ in kind["interfaces"] or ()}
    names |= {f"value {value['name']}": None for value in kind["enumValues"] or ()}
    for field in kind["fields"] or ():
        names[field["name"]] = spell(field["type"])
        names |= arguments(field["args"], field["name"])
    return names | arguments(kind["inputFields"] or (), "input")


def arguments(values: Any, holder: str) -> dict[str, str | None]:
    return {
        f"{holder}({argument['name']})": f"{spell(argument['type'])} = {argument['defaultValue']}"
        for argument in values
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_type_of_the_simulator_matches_shopifys(name: str) -> None:
    actual, expected = shape(OURS, name), shape(contract(), name)
    assert {key: expected.get(key, "missing") for key in actual} == actual


def test_every_directive_of_the_simulator_matches_shopifys() -> None:
    known = {directive["name"]: directive for directive in contract()["directives"]}
    for directive in OURS["directives"]:
        if directive["name"] not in NOT_FOR_DOCUMENTS:
            expected = known[directive["name"]]
            assert set(directive["locations"]) <= set(expected["locations"])
            assert arguments(directive["args"], "") == arguments(expected["args"], "")


@pytest.mark.parametrize("root", ("queryType", "mutationType"))
def test_the_root_types_match_shopifys(root: str) -> None:
    assert OURS[root]["name"] == contract()[root]["name"]
