"""The OpenAPI document: FastAPI's own, adapted to the replies that we send.

Errors are problem details under their own media type, and every body and reply has an example: the
one that its shape declares, or one made of what each field is.
"""

from collections.abc import Iterator, Mapping
from typing import Any, get_type_hints

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from headway.operations.registry import OPERATIONS
from headway.web.field_descriptions import PARAMETERS, Schema, complete, describe
from headway.web.problems import DESCRIPTIONS, Shape

PROBLEM, PLAIN_JSON = "application/problem+json", "application/json"
OURS = {"$ref": "#/components/schemas/Problem"}
FASTAPIS = ("HTTPValidationError", "ValidationError")
FASTAPI_SAYS = ("", "Successful Response")
REFUSED = 400
DEEP_MAX = 8
PLAIN: Mapping[object, object] = {"integer": 3, "number": 0.5, "boolean": True, "string": "text"}
DESCRIPTION = """\
Headway keeps a storefront in line with a supplier that may be called only twice a minute, and keeps
sellers' order data up to date with the platforms they sell on.

Send an API key as `Authorization: Bearer hw_...`; `x-headway-need` is the permission that a request
needs. Errors are problem details (RFC 9457) that name the field and say what to do. Times are UTC
in ISO 8601. Money is decimal text, such as `"129.90"`; the `currency` beside it is an ISO 4217
code. Lists are pages: pass `next_cursor` as `cursor` to get the next one.

A key of an owner with several shops acts for one of them with the header `Headway-Seller`; see
`GET /api/me/shops`.
"""
TAGS: Mapping[str, str] = {
    "status": "The deployment at a glance: the next call, what is up to date, and what is not.",
    "products": "Listings: search, explanation, price history, slots, and reading a part now.",
    "imports": "Files of products and price lists, sent in chunks.",
    "events": "The history: of one part, and of everything as an export.",
    "changes": "Price changes that are held for review, and rolling prices back.",
    "pauses": "Stopping everything, a supplier, a seller or parts, and resuming them.",
    "publishing": "Parts to be created in a seller's shop.",
    "accounts": "Sellers' accounts at platforms, their jobs, and listings that are missing there.",
    "records": "Orders, listings, buyers and payments, read by a cursor over their changes.",
    "privacy": "Privacy: erasures with their proof, and customers' requests for their data.",
    "shops": "Shops: connecting, rehearsal, tiers, and terms such as the price rule.",
    "suppliers": "Suppliers, their credentials, and the sellers who buy there.",
    "monitoring": "Freshness, alerts, laws, and notifications.",
    "limits": "Rate limits, their ledger of calls, and permits for other programs.",
    "runs": "Simulations and capacity plans.",
    "access": "API keys, login links and sessions.",
    "health": "Probes and metrics for the machinery that runs Headway.",
    "endpoints": "Outgoing webhooks: endpoints of yours, and what was sent to them.",
    "webhooks": "What platforms send.",
}


def document(site: FastAPI) -> dict[str, Any]:
    """Return the document of a site, made once."""
    if site.openapi_schema is None:
        spec = get_openapi(
            title=site.title,
            version=site.version,
            description=DESCRIPTION,
            routes=site.routes,
            tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        )
        schemas = spec.setdefault("components", {}).setdefault("schemas", {})
        for name in FASTAPIS:
            schemas.pop(name, None)
        _require_reply_fields(spec, schemas)
        complete(schemas, _types())
        for operation in operations(spec):
            operation["responses"] = dict(sorted(operation["responses"].items()))
            operation["summary"] = operation["summary"].capitalize()
            _describe_problems(operation)
            _describe_success(operation, schemas)
            _describe_parameters(operation, schemas)
            _give_examples(operation, schemas)
        site.openapi_schema = spec
    return site.openapi_schema


def _types() -> Iterator[object]:
    """Yield the types of every body, parameter and reply."""
    yield from Shape.__subclasses__()
    for declared in OPERATIONS:
        yield from get_type_hints(declared.function, include_extras=True).values()


def _describe_parameters(operation: Schema, schemas: Mapping[str, Schema]) -> None:
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        describe(parameter["name"], schema, PARAMETERS.get(parameter["name"]), schemas)
        if text := parameter.get("description") or schema.get("description"):
            parameter["description"] = text
        schema.pop("description", None)


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
                reply["description"] = DESCRIPTIONS[422]


def _describe_success(operation: Schema, schemas: Mapping[str, Schema]) -> None:
    """Describe a reply by the docstring of what it returns."""
    for reply in operation["responses"].values():
        content = reply.get("content", {}).get(PLAIN_JSON, {}).get("schema", {})
        schema = schemas.get(content.get("$ref", "").rpartition("/")[2], {})
        if reply["description"] in FASTAPI_SAYS and "description" in schema:
            reply["description"] = schema["description"].partition("\n\n")[0].replace("\n", " ")


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


def example_of(schema: Schema, schemas: Mapping[str, Schema], deep: int = 0) -> Any:  # noqa: ANN401
    """Return an example of a schema: a declared one, or one made of the examples of its fields."""
    if "$ref" in schema and "examples" not in schema:
        return example_of(schemas[schema["$ref"].rpartition("/")[2]], schemas, deep)
    for keyword in ("examples", "example", "const"):
        if keyword in schema:
            return schema[keyword][0] if keyword == "examples" else schema[keyword]
    choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if choices:
        first: Schema = next((one for one in choices if one.get("type") != "null"), {})
        return example_of(first, schemas, deep)
    if schema.get("type") == "object" or "properties" in schema:
        return _of_object(schema, schemas, deep)
    if schema.get("type") == "array":
        is_leaf = deep > DEEP_MAX
        return [] if is_leaf else [example_of(schema.get("items", {}), schemas, deep + 1)]
    return schema["enum"][0] if "enum" in schema else PLAIN.get(schema.get("type"))


def _of_object(schema: Schema, schemas: Mapping[str, Schema], deep: int) -> Schema:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    return {
        name: example_of(field_schema, schemas, deep + 1)
        for name, field_schema in properties.items()
        if name in required or not required
    }
