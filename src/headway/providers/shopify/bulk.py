"""Prices in bulk: a file is uploaded, the shop works through it, its answers are fetched.

The texts, the values and how replies are read. The file's hosts are not the shop's, so nothing of
the shop's credentials goes there.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headway.core.catalog.storefront import Gid, PriceWrite, UploadTarget, WriteResult, WriteVerdict
from headway.errors import PermanentError
from headway.providers.shopify.queries import Document, by_product, product_prices
from headway.providers.shopify.replies import (
    PROVIDER,
    ShopReply,
    ShopUserError,
    share,
    unreadable,
    user_faults,
)

FILE_BYTES_MAX = 100_000_000
LINE_BYTES_MAX = 5_000_000
BULKS_LOOKED_AT = 50
OVER = frozenset({"COMPLETED", "FAILED", "CANCELED", "EXPIRED"})
# Nothing was started, and later it may be.
NOT_NOW = frozenset({"OPERATION_IN_PROGRESS", "LIMIT_REACHED", "INTERNAL_FILE_SERVER_ERROR"})

STAGE_UPLOAD = """
mutation StageUpload($input: [StagedUploadInput!]!) {
  stagedUploadsCreate(input: $input) {
    stagedTargets { url parameters { name value } }
    userErrors { field message }
  }
}
"""
RUN_BULK = """
mutation RunBulk($mutation: String!, $path: String!, $client: String!) {
  bulkOperationRunMutation(
    mutation: $mutation, stagedUploadPath: $path, clientIdentifier: $client
  ) {
    bulkOperation { id }
    userErrors { code field message }
  }
}
"""
FACTS = "id status errorCode objectCount url partialDataUrl"
BULK_STATUS = f"query BulkStatus($id: ID!) {{ bulkOperation(id: $id) {{ {FACTS} }} }}"
FIND_BULK = f"""
query FindBulk($first: Int!, $search: String!) {{
  bulkOperations(first: $first, query: $search) {{ nodes {{ query {FACTS} }} }}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """The status of a bulk operation; `url` is where its results are, all of them or a part."""

    id: Gid
    status: str
    error: str = ""
    count: int = 0
    url: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more will be done."""
        return self.status in OVER


def stage_upload(name: str) -> Document:
    """Return the request for an address to upload a file of variables."""
    fields = {
        "resource": "BULK_MUTATION_VARIABLES",
        "filename": name,
        "mimeType": "text/jsonl",
        "httpMethod": "POST",
    }
    return Document(text=STAGE_UPLOAD, variables={"input": [fields]})


def price_lines(writes: Sequence[PriceWrite]) -> bytes:
    """Write the file of a bulk price change: a line per product, as `by_product` groups."""
    lines = (json.dumps(product_prices(writes, places)) for places in by_product(writes))
    return "".join(f"{line}\n" for line in lines).encode()


def bulk_mutation(key: str) -> str:
    """Return the mutation to run for each line; its name identifies the intent.

    No filter of the API supports our identifier, but an operation always shows its text.
    """
    assert re.fullmatch(r"[A-Za-z0-9-]+", key), f"{key!r} cannot be part of a name"
    return (
        f"mutation push_{key.replace('-', '_')}"
        "($productId: ID!, $variants: [ProductVariantsBulkInput!]!) {"
        " productVariantsBulkUpdate(productId: $productId, variants: $variants) {"
        " userErrors { code field message } } }"
    )


def run_bulk(path: str, *, key: str) -> Document:
    """Return the mutation that starts a bulk price change on an uploaded file."""
    variables = {"mutation": bulk_mutation(key), "path": path, "client": key}
    return Document(text=RUN_BULK, variables=variables)


def bulk_status(operation: Gid) -> Document:
    """Return the query for the status of a bulk operation."""
    return Document(text=BULK_STATUS, variables={"id": operation})


def find_bulk() -> Document:
    """Return the query for the newest bulk mutations, to find one after its reply was lost."""
    variables = {"first": BULKS_LOOKED_AT, "search": "operation_type:mutation"}
    return Document(text=FIND_BULK, variables=variables)


def read_target(reply: ShopReply) -> UploadTarget:
    """Read the upload target."""
    _refuse(reply.faults_of("stagedUploadsCreate"))
    targets = reply.payload("stagedUploadsCreate").get("stagedTargets")
    target = targets[0] if isinstance(targets, list) and targets else {}
    try:
        parameters = tuple(
            (str(parameter["name"]), str(parameter["value"])) for parameter in target["parameters"]
        )
        url = str(target["url"])
    except (KeyError, TypeError):
        unreadable("no upload target")
    if "key" not in dict(parameters):
        unreadable("an upload target without a key")
    return UploadTarget(url=url, parameters=parameters)


def read_started(reply: ShopReply) -> Gid | None:
    """Return the operation that was started; None if the shop cannot start one now."""
    faults = reply.faults_of("bulkOperationRunMutation")
    if faults and faults[0].code in NOT_NOW:
        return None
    _refuse(faults)
    return read_bulk(reply.payload("bulkOperationRunMutation").get("bulkOperation")).id


def read_bulk(node: object) -> Bulk:
    """Read the status of one operation."""
    facts: dict[str, Any] = node if isinstance(node, dict) else {}
    if not isinstance(facts.get("id"), str):
        unreadable("no bulk operation")
    count = str(facts.get("objectCount") or 0)
    url = facts.get("url") or facts.get("partialDataUrl")
    return Bulk(
        id=Gid(facts["id"]),
        status=str(facts.get("status") or ""),
        error=str(facts.get("errorCode") or ""),
        count=int(count) if re.fullmatch(r"[0-9]{1,18}", count) else 0,
        url=url if isinstance(url, str) else None,
    )


def read_bulk_of(reply: ShopReply, key: str) -> Bulk | None:
    """Return the operation that runs this intent, if there is one."""
    page = reply.whole("bulkOperations")
    nodes = page.get("nodes") if isinstance(page, dict) else None
    if not isinstance(nodes, list):
        unreadable("no list of bulk operations")
    name = bulk_mutation(key).partition("(")[0]
    for node in nodes:
        text = node.get("query") if isinstance(node, dict) else None
        if isinstance(text, str) and text.strip().partition("(")[0].strip() == name:
            return read_bulk(node)
    return None


def read_results(lines: Iterable[bytes], writes: Sequence[PriceWrite]) -> list[WriteResult]:
    """Return the result of each write; a write without one is sent again."""
    lost = WriteResult(
        verdict=WriteVerdict.AGAIN, reason="not done: the bulk operation gave no answer for it"
    )
    results = [lost] * len(writes)
    groups = by_product(writes)
    for line in lines:
        answer = _json_object(line)
        number = answer.get("__lineNumber")
        if not isinstance(number, int) or not 0 <= number < len(groups):
            continue
        data = answer.get("data")
        faults = user_faults(
            data.get("productVariantsBulkUpdate") if isinstance(data, dict) else None
        )
        if faults is not None:
            for at, result in zip(groups[number], share(faults, len(groups[number])), strict=True):
                results[at] = result
    return results


def split_lines(chunks: Iterable[bytes]) -> Iterable[bytes]:
    """Yield the lines of a file that comes in chunks; raises UnreadableError on too much."""
    rest, total = b"", 0
    for chunk in chunks:
        total += len(chunk)
        if total > FILE_BYTES_MAX:
            unreadable("a result file of more than 100 MB")
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            unreadable("a result file with an absurd line")
        yield from lines
    if rest:
        yield rest


def _refuse(faults: Sequence[ShopUserError]) -> None:
    if faults:
        raise PermanentError(f"no bulk operation: {faults[0].reason}", provider=PROVIDER)


def _json_object(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
