"""The API's reference page, written from its OpenAPI document, so that the two cannot differ."""

from collections.abc import Iterator, Mapping
from typing import Any

HEAD = """# The API

Written by `headway api --reference`. Your server shows every field with an example at `/docs`, and
has the OpenAPI document at `/openapi.json`: the same as [openapi.json](openapi.json), which
`headway api --openapi` prints. To call the API from your own program, see
[Use the API](../how-to/use-the-api.md).

Send an API key as `Authorization: Bearer hw_...` (`headway key create NAME --role operator`).
*Need* is the permission that a request needs: `read` and `write` concern sellers' data, and a
seller's key reaches that seller's data only; `oversee` and `operate` concern what belongs to no
seller. *Name* is the request's operation id, which generated clients use for their functions.

- Errors are problem details (RFC 9457): `{"title": ..., "status": ..., "detail": ...}` as
  `application/problem+json`. The detail names the field that is wrong and says what to do.
- Lists are pages: pass `next_cursor` as `cursor` to get the next one, or follow the header
  `Link: <...>; rel="next"`.
- A POST may carry an `Idempotency-Key`; the same request under the same key is done once.
- Times are UTC in ISO 8601, and need a zone. Money is decimal text such as `"129.90"`; the
  `currency` beside it is an ISO 4217 code. Shares such as a markup are decimal text, too.
- Part numbers in an address are percent-encoded and may hold `/`, `=`, `?`, `#`, `%` and spaces.
  (`.` and `..` alone cannot be in an address, by the rules of the web; find those parts by `q`.)
- `/api/audit` is streamed. If the database goes away meanwhile, its last line is of the kind
  `export_stopped` and says why; a complete export ends without one. In CSV a cell that a
  spreadsheet would take for a formula begins with an apostrophe.
- `/metrics` names no part and no seller. With `HEADWAY_METRICS_OPEN` it needs no key on this very
  host; a request that came through a proxy is not from this host.
"""


def reference(document: Mapping[str, Any]) -> str:
    """Return the page."""
    sections: dict[str, list[str]] = {tag["name"]: [] for tag in document["tags"]}
    about = {tag["name"]: tag["description"] for tag in document["tags"]}
    for path, method, operation in _operations(document):
        need = operation.get("x-headway-need", "none")
        first = str(operation.get("description", "")).partition("\n")[0]
        row = f"| `{method} {path}` | `{operation['operationId']}` | {need} | {first} |"
        sections[operation["tags"][0]].append(row)
    tables = [
        f"## {tag.capitalize()}\n\n{about[tag]}\n\n"
        f"| request | name | need | what it does |\n|---|---|---|---|\n" + "\n".join(rows)
        for tag, rows in sections.items()
    ]
    return "\n\n".join([HEAD.strip(), *tables]) + "\n"


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation
