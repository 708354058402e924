"""The OpenAPI document is complete: a generated client finds every name described."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema_rs import is_valid
from tests.web.document import DOCUMENT

COMPONENTS = {"components": DOCUMENT["components"]}
SCHEMAS: dict[str, dict[str, Any]] = DOCUMENT["components"]["schemas"]
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
every_operation = pytest.mark.parametrize("name", OPERATIONS)
every_schema = pytest.mark.parametrize("name", SCHEMAS)
SCHEMA_NAME = re.compile(r"([A-Z][a-z0-9]*)+")
OPERATION_ID = re.compile(
    r"(accept|add|answer|approve|assign|backfill|begin|cancel|check|confirm|connect|continue|create|disconnect|dismiss"
    r"|end|explain|export|get|import|list|move|pause|plan|preview|probe|publish|read|receive|record|reject|remove|replay"
    r"|repeat|resume|revive|revoke|roll|rotate|run|send|set|settle|start|take|adopt|undo|stop|delete|update|test)"
    r"_[a-z]+(_[a-z]+)*"
)


def holds_objects(schema: dict[str, Any]) -> bool:
    """Return True if values are made of objects whose fields have examples of their own."""
    return any("properties" in SCHEMAS[name] for name in references(schema))


def references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        for key in ("anyOf", "oneOf", "items", "additionalProperties"):
            yield from references(schema.get(key))
    elif isinstance(schema, list):
        for choice in schema:
            yield from references(choice)


def assert_described(place: str, description: Any, schema: dict[str, Any]) -> None:
    assert description, f"{place} needs a description: write a string below the field"
    assert str(description).rstrip().endswith((".", "`")), f"{place}: {description!r}"
    if holds_objects(schema):
        return
    assert schema.get("examples"), f"{place} needs an example: end its string with Example: `...`"
    for example in schema["examples"]:
        assert is_valid(COMPONENTS | schema, example), f"{place}: {example!r} is no valid example"


@every_operation
def test_every_operation_has_an_id_that_one_would_choose(name: str) -> None:
    operation = OPERATIONS[name]
    assert OPERATION_ID.fullmatch(operation["operationId"]), (
        f"give it a name that begins with a verb: @operation(..., name=), not"
        f" {operation['operationId']}"
    )
    assert operation["summary"]
    assert operation["description"].rstrip().endswith(".")


def test_no_two_operations_have_the_same_id() -> None:
    counts = Counter(operation["operationId"] for operation in OPERATIONS.values())
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_tag_is_described_and_used() -> None:
    used = {tag for operation in OPERATIONS.values() for tag in operation["tags"]}
    described = {tag["name"] for tag in DOCUMENT["tags"] if tag["description"].endswith(".")}
    assert used == described
    assert all(len(operation["tags"]) == 1 for operation in OPERATIONS.values())


@every_operation
def test_every_parameter_has_a_description_and_a_valid_example(name: str) -> None:
    for parameter in OPERATIONS[name].get("parameters", ()):
        place = f"{name}, {parameter['name']}"
        assert_described(place, parameter.get("description"), parameter["schema"])


@every_operation
def test_every_response_is_described_and_errors_say_what_may_go_wrong(name: str) -> None:
    operation = OPERATIONS[name]
    for status, reply in operation["responses"].items():
        assert reply["description"] not in {"", "Successful Response"}, f"{name}: {status}"
        assert reply["content"], f"{name}: {status}"
    if operation.get("x-headway-need"):
        assert {"401", "403", "429", "503"} <= set(operation["responses"])
    if operation.get("parameters"):
        assert "422" in operation["responses"], f"{name}: its parameters may be wrong"


@every_schema
def test_every_schema_has_a_name_and_a_description(name: str) -> None:
    assert SCHEMA_NAME.fullmatch(name), name
    assert not name.endswith("Shape")
    assert SCHEMAS[name].get("description"), f"{name} needs a docstring"


@every_schema
def test_every_property_has_a_description_and_a_valid_example(name: str) -> None:
    for field, schema in SCHEMAS[name].get("properties", {}).items():
        assert_described(f"{name}.{field}", schema.get("description"), schema)


@every_schema
def test_a_seller_is_called_seller_and_nothing_else(name: str) -> None:
    assert "user_id" not in SCHEMAS[name].get("properties", {})


@every_schema
def test_no_value_may_be_a_number_or_a_text(name: str) -> None:
    for field, schema in SCHEMAS[name].get("properties", {}).items():
        kinds = {choice.get("type") for choice in _choices(schema)}
        assert not {"number", "string"} <= kinds, f"{name}.{field}: {kinds}"


def _choices(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for choice in schema.get("anyOf", [schema]):
        if "anyOf" in choice:
            yield from _choices(choice)
        else:
            yield choice


def schemas_in(reply: object) -> set[str]:
    """Return the schemas that a reply is made of, by name."""
    found: set[str] = set()
    waiting = [reply]
    while waiting:
        names = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(waiting.pop()))) - found
        found |= names
        waiting += [SCHEMAS[name] for name in names]
    return found


def test_every_answer_with_a_price_names_its_currency() -> None:
    priced = []
    for name, operation in OPERATIONS.items():
        replies = schemas_in(operation["responses"].get("200", {}))
        fields = {field for reply in replies for field in SCHEMAS[reply].get("properties", {})}
        if any(re.search(r"price_|_price|prices_sum", field) for field in fields - {"price_basis"}):
            priced.append(name)
            assert any("currency" in field for field in fields), name
    assert "GET /api/sync/products" in priced
