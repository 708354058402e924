"""Descriptions and examples of every field, parameter and schema of the OpenAPI document.

A field is described where it is declared: by the string below it in its class, or by the `Field` of
its type. What means the same in every class is described once, in COMMON.

    reason: str
    \"\"\"Why the change is held. Example: `the price would rise by 127 %`\"\"\"
"""

import ast
import dataclasses
import inspect
import json
import textwrap
import typing
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from headway.core.dispatch import STOREFRONT

Schema = dict[str, Any]
EXAMPLE = " Example: `"
DEPRECATED = "Deprecated"
AN_ID = "6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11"
AN_INSTANT = "2026-03-04T12:00:00Z"


class FieldDoc(NamedTuple):
    """What a field means, and an example of it; None where its type alone gives one."""

    description: str
    example: Any = None


COMMON: Mapping[str, FieldDoc] = {
    "seller": FieldDoc("The seller's name.", "acme"),
    "sku": FieldDoc("The supplier's part number.", "WF338109=K3"),
    "shop": FieldDoc("The shop's address, or its id at its platform.", "acme.myshopify.com"),
    "platform": FieldDoc("The platform, as `headway providers` lists it.", str(STOREFRONT)),
    "supplier": FieldDoc("The supplier's name; `main` is the one of the settings.", "main"),
    "now": FieldDoc("The server's time of this answer."),
    "items": FieldDoc("The rows of this page."),
    "next_cursor": FieldDoc(
        "Pass it as `cursor` to get the next page; null on the last one.", "WyJhY21lIiwgIldGIl0"
    ),
    "is_estimate": FieldDoc("True if counts are estimates, as there are very many rows."),
    "supplier_price": FieldDoc("What the supplier asks; null if it is unknown.", "118.00"),
    "shop_price": FieldDoc("What the shop asks; null if it is unknown.", "129.90"),
    "desired_price": FieldDoc("What the shop should ask; null if it is unknown.", "129.90"),
    "version": FieldDoc("Differs if the change differs.", "5f0c1e2ab94d7733"),
    "currency": FieldDoc("The currency of the shop's prices, as an ISO 4217 code.", "USD"),
    "due_at": FieldDoc("When it is due; null if it is not."),
    "priority": FieldDoc("Why the listing is in a call."),
    "failures": FieldDoc("How often it failed in a row."),
    "last_error": FieldDoc("Why it failed last; empty if it did not.", "the supplier timed out"),
    "paused_until": FieldDoc("Until when no call is made; null if calls are made."),
    "pause_reason": FieldDoc("Why no call is made; empty if calls are made.", "rate limited"),
    "price_old": FieldDoc("The price before; null if there is none.", "118.00"),
    "price_new": FieldDoc("The price after; null if there is none.", "129.90"),
    "price_now": FieldDoc("What the supplier asks by now; null if it is unknown.", "129.90"),
    "stock_old": FieldDoc("The stock before; null if it is unknown."),
    "stock_new": FieldDoc("The stock after; null if it is unknown."),
    "tier": FieldDoc("The tier of the seller."),
    "role": FieldDoc("What the key or session may do."),
    "actor": FieldDoc("Who did it.", "ada"),
    "created_at": FieldDoc("When it was created."),
    "expires_at": FieldDoc("When it expires."),
    "is_in_rehearsal": FieldDoc("True if Headway reads the shop and writes nothing to it."),
    "client_id": FieldDoc(
        "The client id of the credential; empty if none is used.", "7f0c1b9e4a4e"
    ),
    "username": FieldDoc("The user name at the supplier; empty if none is used.", "acme-buyer"),
    "url": FieldDoc("The supplier's address; empty for the usual one.", "https://api.example.com"),
    "options": FieldDoc("What the provider lets an operator choose.", {"file": "prices.csv"}),
}

PARAMETERS: Mapping[str, FieldDoc] = {
    "Idempotency-Key": FieldDoc("", "order-1042"),
    "cursor": FieldDoc("", "WyJhY21lIiwgIldGIl0"),
    "q": FieldDoc("", "washer"),
    "kind": FieldDoc("Only events of these kinds; may be given several times.", ["price_changed"]),
    "state": FieldDoc("Only listings in this state."),
    "status": FieldDoc("Only jobs with this status."),
    "format": FieldDoc("The form of the export: CSV, or one JSON object a line."),
    "job": FieldDoc("The job's id, or its name: seller, platform and kind.", "acme/etsy/orders"),
    "account_id": FieldDoc("The account's id.", AN_ID),
    "batch_id": FieldDoc("The id of the batch.", AN_ID),
    "run_id": FieldDoc("The run's id.", AN_ID),
    "key_id": FieldDoc("The key's id.", AN_ID),
    "session_id": FieldDoc("The session's id.", AN_ID),
    "permit_id": FieldDoc("The permit's id.", AN_ID),
}


def complete(schemas: Mapping[str, Schema], kinds: Iterable[object]) -> None:
    """Give every schema and each of its properties a description, and each property an example."""
    by_name = {kind.__name__: kind for kind in _classes(kinds)}
    for name, schema in schemas.items():
        kind = by_name.get(name)
        documented = {} if kind is None else attribute_docs(kind)
        for field, declared in schema.get("properties", {}).items():
            if kind is not None and _is_decimal(kind, field):
                declared.get("anyOf", [declared])[0]["format"] = "decimal"
            describe(field, declared, documented.get(field), schemas)


def describe(
    name: str, schema: Schema, doc: FieldDoc | None, schemas: Mapping[str, Schema]
) -> None:
    """Give one property or parameter its description and example, if it has none of its own."""
    common = COMMON.get(name, FieldDoc(""))
    doc = doc or common
    if doc.description.startswith(DEPRECATED):
        schema["deprecated"] = True
    if description := schema.get("description") or doc.description or common.description:
        schema["description"] = description
    if "examples" in schema or _holds_objects(schema, schemas):
        return
    example = None if doc.example is None else _typed(doc.example, schema)
    if example is None:
        example = _of_type(schema, schemas)
    if example is None and common.example is not None:
        example = _typed(common.example, schema)
    if example is not None:
        schema["examples"] = [example]


@cache
def attribute_docs(kind: type) -> Mapping[str, FieldDoc]:
    """Return the strings below the fields of a class and its bases, by the fields' names."""
    docs: dict[str, FieldDoc] = {}
    for base in reversed(kind.__mro__[:-1]):
        if not base.__module__.startswith("headway."):
            continue
        (parsed,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(parsed, ast.ClassDef)
        for field, below in zip(parsed.body, parsed.body[1:], strict=False):
            match field, below:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    docs[_alias(base, name)] = _read(text)
    return docs


def _read(text: str) -> FieldDoc:
    description, _, example = " ".join(text.split()).partition(EXAMPLE)
    return FieldDoc(description, example.removesuffix("`") or None)


def _alias(kind: type, name: str) -> str:
    """Return the name that a field has in JSON."""
    annotation = _hints(kind).get(name)
    metadata = typing.get_args(annotation)[1:]
    aliases = [item.alias for item in metadata if isinstance(item, FieldInfo) and item.alias]
    return aliases[0] if aliases else name


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _is_decimal(kind: type, field: str) -> bool:
    annotation = _hints(kind).get(field)
    return Decimal in (annotation, *typing.get_args(annotation))


def _classes(kinds: Iterable[object]) -> set[type]:
    """Return every class with fields, and every enumeration, that these types refer to."""
    found: set[type] = set()
    pending = list(kinds)
    while pending:
        kind = pending.pop()
        pending += typing.get_args(kind)
        if not isinstance(kind, type) or kind in found:
            continue
        has_fields = dataclasses.is_dataclass(kind) or issubclass(kind, BaseModel)
        if has_fields or issubclass(kind, Enum):
            found.add(kind)
        if has_fields:
            pending += _hints(kind).values()
    return found


def _holds_objects(schema: Schema, schemas: Mapping[str, Schema]) -> bool:
    """Return True if a value is made of objects whose fields have examples of their own."""
    names = (name.rpartition("/")[2] for name in _references(schema))
    return any("properties" in schemas[name] for name in names if name in schemas)


def _references(schema: object) -> Iterator[str]:
    """Yield what a schema, and what it is made of, refers to."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"]
        for part in ("anyOf", "oneOf", "items", "additionalProperties"):
            yield from _references(schema.get(part))
    elif isinstance(schema, list):
        for choice in schema:
            yield from _references(choice)


def _typed(value: object, schema: Schema) -> object:
    """Return an example that was written as text as a value of its schema; None if it is none."""
    choices = schema.get("anyOf") or schema.get("oneOf") or [schema]
    is_text = any("$ref" in choice or choice.get("type") == "string" for choice in choices)
    if not isinstance(value, str) or (is_text and value != "null"):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return None


def _of_type(schema: Schema, schemas: Mapping[str, Schema]) -> object:
    """Return an example that a type declares, or that follows from it; None if there is none."""
    if "examples" in schema:
        return schema["examples"][0]
    if "$ref" in schema:
        return _of_type(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if choices:
        return _of_type(choices[0], schemas)
    if schema.get("type") == "array":
        item = _of_type(schema.get("items", {}), schemas)
        return None if item is None else [item]
    first = next(iter(schema.get("enum", ())), None)
    is_instant = schema.get("format") == "date-time"
    by_type = {
        "integer": 3,
        "number": 0.5,
        "boolean": True,
        "string": AN_INSTANT if is_instant else None,
    }
    return schema.get("const", first or by_type.get(str(schema.get("type"))))
