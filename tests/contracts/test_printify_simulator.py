"""The simulated Printify's replies against a third party's OpenAPI, where it names a type."""

import json
from functools import cache
from typing import Any

import pytest
from tests.contracts.reduction import PRINTIFY, PRINTIFY_PATHS, SCHEMAS

from headway_lab.simulators.printify.simulator import PrintifySimulator
from headway_lab.virtual_clock import VirtualClock

TYPES: dict[str, type] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}


@cache
def contract() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((SCHEMAS / PRINTIFY).read_text(encoding="utf-8"))
    return document


def faults(value: Any, schema: dict[str, Any], where: str) -> list[str]:
    """Return where a value is not of the type in the schema."""
    if "$ref" in schema:
        schema = contract()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if not isinstance(value, TYPES[schema["type"]]):
        return [f"{where} is no {schema['type']}"]
    if isinstance(value, list):
        return [fault for row in value for fault in faults(row, schema.get("items", {}), where)]
    errors = []
    for name, part in schema.get("properties", {}).items():
        if name not in value:
            errors.append(f"{where}.{name} is missing")
        else:
            errors += faults(value[name], part, f"{where}.{name}")
    return errors


def read(path: str) -> Any:
    """Return the schema of the reply to a GET."""
    reply = contract()["paths"][path]["get"]["responses"]["200"]
    return reply["content"]["application/json"]["schema"]


@pytest.mark.parametrize("path", PRINTIFY_PATHS)
def test_every_reply_has_the_names_and_types_of_the_contract(
    path: str, clock: VirtualClock
) -> None:
    schema = read(path)
    printify = PrintifySimulator(clock)
    shop = printify.add_shop()
    order = printify.place_order(shop)
    headers = {"Authorization": f"Bearer {printify.personal_token()}", "User-Agent": "test"}
    target = f"/v1{path}".format(shop_id=shop, order_id=order)
    reply = printify.handle("GET", target, headers, b"")
    assert reply.status == 200
    assert not faults(json.loads(reply.body), schema, "reply")
