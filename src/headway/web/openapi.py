"""The OpenAPI document: FastAPI's own, adapted to the replies that we send.

Errors are problem details under their own media type, and every body and reply has an example: the
one that its shape declares, or one made of what each field is.
"""

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from headway.core.dispatch import STOREFRONT

PROBLEM, PLAIN_JSON = "application/problem+json", "application/json"
OURS = {"$ref": "#/components/schemas/ProblemShape"}
FASTAPIS = ("HTTPValidationError", "ValidationError")
REFUSED = 400
DEEP_MAX = 8
DESCRIPTION = (
    "Keeps a storefront true to a supplier that may be asked only twice a minute. Send a key as"
    " `Authorization: Bearer hw_...`; `x-headway-need` says what a request needs of it. Errors are"
    " RFC 9457 problem details. Instants are UTC, money is decimal text."
)
WORDS: dict[str, Any] = {
    "sku": "WF338109=K3",
    "shop_sku": "WF338109",
    "seller": "acme",
    "user_id": "acme",
    "title": "Washer, flat",
    "shop": "acme.myshopify.com",
    "next_cursor": None,
    "slot": "06:30",
    "reason": "the price would rise by 127 %",
    "sentence": "Due since 11:59 UTC; it has a seat in the next call, which may leave at 12:00:30.",
    "currency": "USD",
    "priority": "scheduled",
    "progress": 0.42,
    "hour": 6,
    "minute": 30,
    "detail": "there is no such thing; see /api/limits",
    "status": 404,
    "old": {"price": "118.00"},
    "new": {"price": "129.90"},
    "actor": "ada",
    "last_error": "",
    "error": "",
    "version": "0.1.0",
    "prefix": "hw_1f0c9a2b",
    "address": "192.0.2.7",
    "role": "seller",
    "link": "/changes",
    "platform": str(STOREFRONT),
}
ENDINGS: dict[str, Any] = {
    "_at": "2026-03-04T12:00:00Z",
    "_until": "2026-03-04T12:00:30Z",
    "_id": "6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11",
    "_price": "129.90",
    "_share": 0.98,
}


def document(site: FastAPI) -> dict[str, Any]:
    """Return the document of a site, made once."""
    if site.openapi_schema is None:
        spec = get_openapi(
            title=site.title,
            version=site.version,
            description=DESCRIPTION,
            routes=site.routes,
        )
        schemas = spec.setdefault("components", {}).setdefault("schemas", {})
        _require_reply_fields(spec, schemas)
        for operation in operations(spec):
            _describe_problems(operation)
            _give_examples(operation, schemas)
        for name in FASTAPIS:
            schemas.pop(name, None)
        site.openapi_schema = spec
    return site.openapi_schema


def operations(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every operation of a document."""
    for path in spec["paths"].values():
        yield from (operation for operation in path.values() if isinstance(operation, dict))


def _require_reply_fields(spec: dict[str, Any], schemas: dict[str, Any]) -> None:
    """Mark every field of a reply as required: a reply holds all of them, defaults too."""
    bodies = _referred([operation.get("requestBody") for operation in operations(spec)], schemas)
    for name, schema in schemas.items():
        if name not in bodies and "properties" in schema:
            schema["required"] = list(schema["properties"])


def _referred(value: object, schemas: dict[str, Any]) -> set[str]:
    """Return the names of all schemas that a value refers to, directly or not."""
    names: set[str] = set()
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            name = str(current.get("$ref", "")).rpartition("/")[2]
            if name in schemas and name not in names:
                names.add(name)
                pending.append(schemas[name])
            pending += current.values()
        elif isinstance(current, list):
            pending += current
    return names


def _describe_problems(operation: dict[str, Any]) -> None:
    for status, reply in operation["responses"].items():
        content = reply.get("content", {})
        schema = content.get(PLAIN_JSON, {}).get("schema", {})
        is_fastapis = schema.get("$ref", "").rpartition("/")[2] in FASTAPIS
        if int(status) >= REFUSED and (schema == OURS or is_fastapis):
            reply["content"] = {PROBLEM: {"schema": OURS}}
            if is_fastapis:
                reply["description"] = "Malformed; the detail names the field."


def _give_examples(operation: dict[str, Any], schemas: dict[str, Any]) -> None:
    bodies = [operation.get("requestBody", {}).get("content", {})]
    replies = [(int(status), reply) for status, reply in operation["responses"].items()]
    for status, reply in replies:
        for media in reply.get("content", {}).values():
            if "example" not in media and "schema" in media:
                media["example"] = example_of(media["schema"], schemas)
                if status >= REFUSED and "status" in media["example"]:
                    media["example"] = _problem(status, str(reply.get("description", "")))
    for content in bodies:
        for media in content.values():
            if "example" not in media and "schema" in media:
                media["example"] = example_of(media["schema"], schemas)


def _problem(status: int, description: str) -> dict[str, Any]:
    return {
        "title": description.partition(";")[0].rstrip("."),
        "status": status,
        "detail": description,
    }


def example_of(
    schema: dict[str, Any], schemas: dict[str, Any], name: str = "", deep: int = 0
) -> Any:  # noqa: ANN401
    """Return an example of a schema: a declared one, or one made of what it is and is called."""
    if "$ref" in schema:
        return example_of(schemas[schema["$ref"].rpartition("/")[2]], schemas, name, deep)
    for keyword in ("examples", "example", "const"):
        if keyword in schema:
            return schema[keyword][0] if keyword == "examples" else schema[keyword]
    choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if choices:
        return _of_choices(choices, schemas, name, deep)
    if schema.get("type") == "object" or "properties" in schema:
        return _of_object(schema, schemas, deep)
    if schema.get("type") == "array":
        is_leaf = deep > DEEP_MAX
        return [] if is_leaf else [example_of(schema.get("items", {}), schemas, name, deep + 1)]
    return schema["enum"][0] if "enum" in schema else _of_name(schema, name)


def _of_choices(
    choices: list[dict[str, Any]], schemas: dict[str, Any], name: str, deep: int
) -> Any:  # noqa: ANN401
    if name in WORDS and any(choice.get("type") == "null" for choice in choices):
        is_text = any(choice.get("type") == "string" for choice in choices)
        if WORDS[name] is None or (is_text and isinstance(WORDS[name], str)):
            return WORDS[name]
    first = next((choice for choice in choices if choice.get("type") != "null"), {})
    return example_of(first, schemas, name, deep)


def _of_object(schema: dict[str, Any], schemas: dict[str, Any], deep: int) -> dict[str, Any]:
    properties = schema.get("properties", {})
    needed = schema.get("required", [])
    chosen = {
        name: field_schema
        for name, field_schema in properties.items()
        if name in needed or not needed
    }
    return {
        name: example_of(field_schema, schemas, name, deep + 1)
        for name, field_schema in chosen.items()
    }


def _of_name(schema: dict[str, Any], name: str) -> Any:  # noqa: ANN401
    kind = schema.get("type")
    word = WORDS.get(name)
    if isinstance(word, str) and kind == "string" and schema.get("format") != "date-time":
        return word
    if isinstance(word, int | float) and kind in {"integer", "number"}:
        return word
    for ending, value in ENDINGS.items():
        if name.endswith(ending) and kind in {"string", None}:
            return value
    if schema.get("format") == "date-time":
        return ENDINGS["_at"]
    plain: dict[str | None, Any] = {"integer": 3, "number": 0.5, "boolean": True, "string": name}
    return plain.get(kind)
