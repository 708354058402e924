"""`/docs`: the reference of the API, drawn by this server from its own OpenAPI document.

It needs no script and nothing from another host, and follows the login and the policy of the page.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse
from jinja2 import Environment

from headway.web.field_descriptions import Schema
from headway.web.live import PanelKey
from headway.web.login import PageRoute
from headway.web.openapi import PROBLEM
from headway.web.pages import principal_of, show
from headway.web.problems import problem

BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "maxLength": "up to {} characters",
    "minItems": "{} or more",
    "maxItems": "{} or fewer",
}
FORMATS = {"date-time": "time", "decimal": "decimal text", "base64": "base64 text"}
KINDS = {"string": "text", "boolean": "true or false", "null": "null", "object": "object"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiField:
    """A parameter, or a property of a schema, in words."""

    name: str
    kind: str
    schema: str
    note: str
    description: str
    example: str
    is_required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAnswer:
    """What an operation may answer with one status."""

    status: str
    description: str
    schema: str
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """An operation, as its part of a page shows it."""

    id: str
    method: str
    path: str
    need: str
    summary: str
    description: str
    parameters: tuple[ApiField, ...]
    body_schema: str
    body: tuple[ApiField, ...]
    curl: str
    answers: tuple[ApiAnswer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSchema:
    """A schema that the operations of a page use."""

    name: str
    description: str
    values: tuple[str, ...]
    fields: tuple[ApiField, ...]


def router(pages: Environment) -> APIRouter:
    """Make the routes."""
    routes = APIRouter(include_in_schema=False, route_class=PageRoute)

    @routes.get("/docs", response_class=HTMLResponse)
    def index(request: Request) -> Response:
        """List every operation by subject."""
        document = request.app.openapi()
        groups = [(tag, list(requests_of(document, tag["name"]))) for tag in document["tags"]]
        template = pages.get_template("api_index.html")
        still = template.render(about=document["info"]["description"], groups=groups)
        key = PanelKey(view="api", seller=principal_of(request).seller)
        return show(request, key, title="API reference", still=still)

    @routes.get("/docs/{name}", response_class=HTMLResponse)
    def subject(request: Request, name: str) -> Response:
        """Show the operations of one subject, and the schemas that they use."""
        document = request.app.openapi()
        tag = next((tag for tag in document["tags"] if tag["name"] == name), None)
        if tag is None:
            return problem(404, "there is no such subject; see /docs")
        requests = list(requests_of(document, name))
        template = pages.get_template("api_subject.html")
        still = template.render(
            tag=tag, requests=requests, schemas=list(schemas_of(document, requests))
        )
        key = PanelKey(view="api", seller=principal_of(request).seller)
        return show(request, key, title=f"API: {name}", still=still)

    return routes


def requests_of(document: Schema, tag: str) -> Iterator[ApiRequest]:
    """Yield the operations with a tag."""
    schemas = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield _request(method.upper(), path, operation, schemas)


def schemas_of(document: Schema, requests: list[ApiRequest]) -> Iterator[ApiSchema]:
    """Yield every schema that these operations use, directly or not, in alphabetical order."""
    schemas, known = document["components"]["schemas"], set[str]()
    pending = [request.body_schema for request in requests]
    pending += [answer.schema for request in requests for answer in request.answers]
    while pending:
        name = pending.pop()
        if name in schemas and name not in known:
            known.add(name)
            pending += [_name_in(field) for field in schemas[name].get("properties", {}).values()]
    for name in sorted(known):
        schema = schemas[name]
        yield ApiSchema(
            name=name,
            description=schema.get("description", ""),
            values=tuple(map(str, schema.get("enum", ()))),
            fields=tuple(_fields(schema)),
        )


def _request(
    method: str, path: str, operation: Schema, schemas: Mapping[str, Schema]
) -> ApiRequest:
    contents: dict[str, Schema] = operation.get("requestBody", {}).get("content", {})
    media: Schema = next(iter(contents.values()), {})
    body = _name_in(media.get("schema", {}))
    parameters = operation.get("parameters", ())
    return ApiRequest(
        id=operation["operationId"],
        method=method,
        path=path,
        need=operation.get("x-headway-need", ""),
        summary=operation["summary"],
        description=operation["description"],
        parameters=tuple(
            _field(one["name"], {"description": one["description"], **one["schema"]}, one)
            for one in parameters
        ),
        body_schema=body,
        body=tuple(_fields(schemas[body])) if body in schemas else (),
        curl=_curl(method, path, parameters, media.get("example")),
        answers=tuple(_answer(status, reply) for status, reply in operation["responses"].items()),
    )


def _curl(method: str, path: str, parameters: Any, body: object) -> str:  # noqa: ANN401 - from JSON
    for parameter in parameters:
        if parameter["in"] == "path":
            example = str(parameter["schema"]["examples"][0])
            path = path.replace(f"{{{parameter['name']}}}", example.replace("=", "%3D"))
    verb = [] if method == "GET" else [f"-X {method}"]
    lines = [" ".join(["curl", *verb, '-H "Authorization: Bearer $HEADWAY_API_KEY"'])]
    if body is not None:
        shown = json.dumps(body, ensure_ascii=False).replace("'", "'\\''")
        lines += ['-H "Content-Type: application/json"', f"-d '{shown}'"]
    return " \\\n  ".join([*lines, f'"$HEADWAY_SERVER{path}"'])


def _answer(status: str, reply: Schema) -> ApiAnswer:
    contents: dict[str, Schema] = reply.get("content", {})
    media, content = next(iter(contents.items()), ("", {}))
    example = content.get("example")
    is_shown = example is not None and media != PROBLEM
    shown = example if isinstance(example, str) else json.dumps(example, indent=2)
    return ApiAnswer(
        status=status,
        description=reply["description"],
        schema=_name_in(content.get("schema", {})),
        example=shown if is_shown else "",
    )


def _fields(schema: Schema) -> Iterator[ApiField]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        yield _field(name, field, {"required": name in required})


def _field(name: str, schema: Schema, place: Schema) -> ApiField:
    choices: list[Schema] = schema.get("anyOf", [schema])
    bounds = [
        text.format(one[key]) for one in choices for key, text in BOUNDS.items() if key in one
    ]
    if schema.get("default"):
        bounds.append(f"default {json.dumps(schema['default'])}")
    examples = schema.get("examples", ())
    return ApiField(
        name=name,
        kind=" or ".join(dict.fromkeys(_kind(one) for one in choices)),
        schema=_name_in(schema),
        note=", ".join([*([place["in"]] if "in" in place else []), *bounds]),
        description=schema.get("description", ""),
        example=json.dumps(examples[0], ensure_ascii=False) if examples else "",
        is_required=bool(place.get("required")),
    )


def _kind(schema: Schema) -> str:
    """Return the type of a value in words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " or ".join(json.dumps(value) for value in values)
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    kind = str(schema.get("type", "any"))
    return FORMATS.get(schema.get("format", ""), KINDS.get(kind, kind))


def _name_in(schema: object) -> str:
    """Return the name of the schema that a value is, or is made of; empty if there is none."""
    if isinstance(schema, list):
        return next(filter(None, map(_name_in, schema)), "")
    if not isinstance(schema, dict):
        return ""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    parts = ("anyOf", "oneOf", "items", "additionalProperties")
    return next(filter(None, (_name_in(schema.get(part)) for part in parts)), "")
