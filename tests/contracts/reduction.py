"""Reduce the platforms' own schemas to what we send, read and simulate.

Run `python -m tests.contracts.reduction` after a document changed; it needs the full schemas in
`../shared/contracts`. See `schemas/README.md`.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLSchema,
    InlineFragmentNode,
    TypeInfo,
    TypeInfoVisitor,
    Visitor,
    build_client_schema,
    get_named_type,
    introspection_from_schema,
    parse,
    print_schema,
    type_from_ast,
    visit,
)

from headway.providers.shopify.queries import Document
from headway_lab.simulators.shopify.schema import SCHEMA as SIMULATED

SCHEMAS = Path(__file__).parent / "schemas"
FULL = Path(__file__).parents[3] / "shared/contracts"
SHOPIFY, SCOPES = "shopify-admin-2026-04.graphql", "shopify-admin-2026-04-scopes.json"
ETSY, PRINTIFY = "etsy-oas3.json", "printify.json"
ETSY_OPERATIONS = (
    "getShopReceipts",
    "getShopReceipt",
    "getListingsByShop",
    "getShopPaymentAccountLedgerEntries",
    "getPayments",
    "getMe",
    "getShop",
    "tokenScopes",
)
PRINTIFY_PATHS = (
    "/shops.json",
    "/shops/{shop_id}/orders.json",
    "/shops/{shop_id}/orders/{order_id}.json",
    "/shops/{shop_id}/products.json",
)
# What only describes, and no test reads.
PROSE = frozenset({"description", "example", "summary", "tags", "externalDocs"})
Json = dict[str, Any]


class UsedNames(Visitor):
    """Collects the fields and arguments that documents name, by type."""

    def __init__(self, schema: GraphQLSchema) -> None:
        super().__init__()
        self.schema, self.info = schema, TypeInfo(schema)
        self.names: dict[str, set[str]] = defaultdict(set)

    def add(self, document: Document) -> None:
        """Collect what a document and its variables name."""
        parsed = parse(document.text)
        visit(parsed, TypeInfoVisitor(self.info, self))
        for node in parsed.definitions:
            for variable in getattr(node, "variable_definitions", None) or ():
                kind = type_from_ast(self.schema, variable.type)
                self.add_value(kind, document.variables.get(variable.variable.name.value))

    def add_value(self, kind: GraphQLInputType | None, value: object) -> None:
        """Collect the input fields in a value."""
        named = get_named_type(kind)
        assert named is not None, "the schema has every type of a variable"
        self.names[named.name].add("")
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(named, GraphQLInputObjectType) and isinstance(item, Mapping):
                for name, part in item.items():
                    self.names[named.name].add(name)
                    self.add_value(named.fields[name].type, part)

    def enter_field(self, node: FieldNode, *_: Any) -> None:
        holder = self.info.get_parent_type()
        assert holder is not None
        self.names[holder.name].add(node.name.value)
        for argument in node.arguments or ():
            self.names[holder.name].add(f"{node.name.value}({argument.name.value})")

    def enter_fragment_definition(self, node: FragmentDefinitionNode, *_: Any) -> None:
        self.names[node.type_condition.name.value].add("")

    def enter_inline_fragment(self, node: InlineFragmentNode, *_: Any) -> None:
        if node.type_condition:
            self.names[node.type_condition.name.value].add("")


def reduce_shopify(full: Json, documents: Iterable[Document]) -> tuple[str, Json]:
    """Return the schema that documents and simulator need, and the scopes of its fields."""
    used = UsedNames(build_client_schema(full["data"], assume_valid=True))
    for document in documents:
        used.add(document)
    _add_simulated(used.names)
    schema = full["data"]["__schema"]
    types = {kind["name"]: kind for kind in schema["types"]}
    kept: Json = {}
    waiting = [*used.names, "QueryRoot", "Mutation", "String", "Boolean"]
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept[name] = _reduce_type(types[name], used.names[name])
            waiting += _types_in(kept[name])
    for kind in kept.values():
        for part in ("interfaces", "possibleTypes"):
            kind[part] = [one for one in kind[part] or () if one["name"] in kept]
    directives = {directive.name for directive in SIMULATED.directives}
    reduced = {
        **schema,
        "types": [kept[name] for name in sorted(kept)],
        "subscriptionType": None,
        "directives": [one for one in schema["directives"] if one["name"] in directives],
    }
    text = print_schema(build_client_schema({"__schema": _plain(reduced)}, assume_valid=True))
    return f"{text}\n", _reduce_scopes(full["offline_scopes"]["items"], kept)


def _add_simulated(names: dict[str, set[str]]) -> None:
    """Add what the simulator has, so that a test can compare it."""
    for kind in introspection_from_schema(SIMULATED)["__schema"]["types"]:
        if kind["name"].startswith("__"):
            continue
        names[kind["name"]].add("")
        for field in kind.get("fields") or ():
            names[kind["name"]].add(field["name"])
            names[kind["name"]] |= {f"{field['name']}({arg['name']})" for arg in field["args"]}
        names[kind["name"]] |= {field["name"] for field in kind.get("inputFields") or ()}


def _reduce_type(kind: Json, names: set[str]) -> Json:
    fields = [
        {**field, "args": [arg for arg in field["args"] if _is_kept(arg, names, field["name"])]}
        for field in kind["fields"] or ()
        if field["name"] in names
    ]
    inputs = [field for field in kind["inputFields"] or () if _is_kept(field, names)]
    return {
        **kind,
        "fields": fields if kind["fields"] is not None else None,
        "inputFields": inputs if kind["inputFields"] is not None else None,
    }


def _is_kept(argument: Json, names: set[str], holder: str = "") -> bool:
    name = f"{holder}({argument['name']})" if holder else argument["name"]
    is_required = argument["type"]["kind"] == "NON_NULL" and argument["defaultValue"] is None
    return is_required or name in names


def _types_in(kind: Json) -> Iterator[str]:
    for field in (*(kind["fields"] or ()), *(kind["inputFields"] or ())):
        for part in (field, *field.get("args", ())):
            named = part["type"]
            while named.get("ofType"):
                named = named["ofType"]
            yield named["name"]


def _reduce_scopes(items: Iterable[Json], kept: Mapping[str, Json]) -> Json:
    fields = {name: {field["name"] for field in kept[name]["fields"] or ()} for name in kept}
    return {
        f"{item['typeName']}.{item.get('fieldName', '')}".removesuffix("."): item["offlineScopes"]
        for item in items
        if item["offlineScopes"]
        and item["typeName"] in kept
        and item.get("fieldName", "") in {"", *fields[item["typeName"]]}
    }


def reduce_etsy(full: Json) -> Json:
    """Return the operations that we call, and the schemas that they name."""
    paths: Json = {}
    for path, operations in full["paths"].items():
        for method, operation in operations.items():
            if isinstance(operation, dict) and operation.get("operationId") in ETSY_OPERATIONS:
                paths.setdefault(path, {})[method] = operation
    return _with_schemas(full, paths, securitySchemes=full["components"]["securitySchemes"])


def reduce_printify(full: Json) -> Json:
    """Return the replies that we read, and the schemas that they name."""
    paths = {
        path: {"get": {"responses": {"200": full["paths"][path]["get"]["responses"]["200"]}}}
        for path in PRINTIFY_PATHS
    }
    return _with_schemas(full, paths)


def _with_schemas(full: Json, paths: Json, **components: Any) -> Json:
    known, kept = full["components"]["schemas"], {}
    waiting = [*_references(paths)]
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept[name] = known[name]
            waiting += _references(known[name])
    ordered = {name: kept[name] for name in sorted(kept)}
    return {"paths": _plain(paths), "components": _plain({"schemas": ordered, **components})}


def _references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        value = list(value.values())
    for part in value if isinstance(value, list) else ():
        yield from _references(part)


def _plain(value: Any, *, is_names: bool = False) -> Any:
    """Return JSON without its prose; the names of properties stay, whatever they are."""
    if isinstance(value, dict):
        return {
            name: _plain(part, is_names=name in {"properties", "schemas", "scopes"})
            for name, part in value.items()
            if is_names or name not in PROSE
        }
    return [_plain(part) for part in value] if isinstance(value, list) else value


def our_documents() -> Iterator[Document]:
    """Yield every document that we can send, as the contract tests have them."""
    from tests.contracts.test_shopify_account_documents import ASKS  # noqa: PLC0415 - they read us
    from tests.contracts.test_shopify_documents import DOCUMENTS  # noqa: PLC0415

    from headway.providers.shopify.api import WHO  # noqa: PLC0415
    from headway.providers.shopify.read_queries import document_of  # noqa: PLC0415

    yield Document(text=WHO, variables={})
    yield from DOCUMENTS.values()
    yield from (document_of(ask) for ask in ASKS.values())


def reduce_all() -> dict[str, str]:
    """Return the reduced files by name, as far as their full schema is here."""
    files: dict[str, str] = {}
    if (path := FULL / "shopify-admin-2026-04.schema.json").exists():
        full = json.loads(path.read_text(encoding="utf-8"))
        files[SHOPIFY], scopes = reduce_shopify(full, our_documents())
        files[SCOPES] = _written(scopes)
    if (path := FULL / "etsy-oas3.json").exists():
        files[ETSY] = _written(reduce_etsy(json.loads(path.read_text(encoding="utf-8"))))
    if (path := FULL / "printify-openapi-thirdparty.yml").exists():
        files[PRINTIFY] = _written(reduce_printify(yaml.safe_load(path.read_text("utf-8"))))
    return files


def _written(value: Json) -> str:
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    for name, text in reduce_all().items():
        (SCHEMAS / name).write_text(text, encoding="utf-8")
