"""The page of records, written from the API's document, so that the two cannot differ."""

from collections.abc import Iterator, Mapping
from typing import Any

from headway.operations.record_fields import SCHEMA
from headway.operations.records import LISTS, RECORDS

HEAD = f"""# Records

Written by `headway api --records`. These are the fields of schema {SCHEMA}: of
`GET /api/records/...`, of the files that `headway records export` writes, and of the views
`records_v1_...` in the database. Fields may be added to a schema; none is renamed, removed or given
another meaning. How to keep a copy: [Read records](../how-to/read-records.md).

In a record that is deleted, every field but the first six and `order_id` is null. Money is decimal
text, such as `"129.90"`. Times are UTC.
"""


def record_reference(document: Mapping[str, Any]) -> str:
    """Return the page."""
    schemas = document["components"]["schemas"]
    sections = [HEAD.strip()]
    for name in LISTS:
        fields = schemas[RECORDS[name].__name__]["properties"]
        rows = "\n".join(_rows(fields, schemas))
        sections.append(
            f"## {name.replace('_', ' ').capitalize()}\n\n`/api/records/{name}`,"
            f" `records_v1_{name}`\n\n| field | type | meaning |\n|---|---|---|\n{rows}"
        )
    return "\n\n".join(sections) + "\n"


def _rows(fields: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    for name, field in fields.items():
        kinds = [_kind(choice, schemas) for choice in field.get("anyOf", [field])]
        named = next(kind for kind in kinds if kind != "null")
        yield f"| `{name}` | {named} | {field.get('description', '')} |"


def _kind(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """Return the type of a field in a word."""
    if "$ref" in schema:
        return _kind(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    if schema.get("format") == "date-time":
        return "time"
    if schema.get("format") == "decimal":
        return "money"
    return str(schema.get("type", "text")).replace("string", "text")
