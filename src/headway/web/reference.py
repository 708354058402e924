"""The API's reference page, written from its OpenAPI document, so that the two cannot differ."""

from collections.abc import Iterator, Mapping
from typing import Any

HEAD = """# The API

Written by `headway api --reference`; the whole document, with every shape and an example of every
body and reply, is what `headway api --openapi` prints, and `/openapi.json` on a server.

Send a key as `Authorization: Bearer hw_...` (`headway key create NAME --role operator`). *Need*
says what a request asks of the key: `read` and `write` are about sellers' data, a seller's key
meaning that seller's alone; `oversee` and `operate` are about what belongs to no seller.

- Errors are problem details (RFC 9457): `{"title": ..., "status": ..., "detail": ...}` as
  `application/problem+json`. A detail names the field that is wrong, and says what to do.
- Lists go on from a cursor: `next_cursor` in the reply, and `Link: <...>; rel="next"`.
- A POST may carry an `Idempotency-Key`; the same request under the same key is done once.
- Instants are UTC in ISO form and need a zone; money is decimal text. Part numbers in an address
  are percent-encoded and may hold `/`, `=`, `?`, `#`, `%` and spaces. (`.` and `..` alone cannot be
  in an address, which is the web's rule; find those by `q`.)
- `/api/audit` is streamed. If the database goes away under way, its last line is of the kind
  `export_stopped` and says why; a complete export ends without one. In CSV a cell that a
  spreadsheet would take for a formula begins with an apostrophe.
- `/metrics` names no part and no seller. With `HEADWAY_METRICS_OPEN` it needs no key on this very
  host; a request that came through a proxy is not from this host.
"""


def reference(document: Mapping[str, Any]) -> str:
    """Return the page."""
    sections: dict[str, list[str]] = {}
    for path, method, operation in _operations(document):
        tag = (operation.get("tags") or ["other"])[0]
        need = operation.get("x-headway-need", "none")
        first = str(operation.get("description", "")).partition("\n")[0]
        row = f"| `{method} {path}` | {need} | {first} |"
        sections.setdefault(tag, []).append(row)
    tables = [
        f"## {tag.capitalize()}\n\n| request | need | what it does |\n|---|---|---|\n"
        + "\n".join(rows)
        for tag, rows in sections.items()
    ]
    return "\n\n".join([HEAD.strip(), *tables]) + "\n"


def _operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation
