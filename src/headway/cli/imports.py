"""`headway import` and `headway backfill`: bring in what a shop already sells."""

from __future__ import annotations

import csv
import hashlib
import os
import shutil
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from headway.cli.output import AsJson, emit, facts, say, table
from headway.cli.progress import Advance, progress
from headway.cli.target import Client, Server, Target, open_client, open_target
from headway.core.catalog.intake import COLUMNS, NOTES, seller_of
from headway.errors import InvalidError

if TYPE_CHECKING:
    from headway.core.catalog.intake import ImportResult, RefusedRow
    from headway.operations import imports

IMPORT_EXAMPLES = """Examples:

headway import parts.csv --seller acme

headway import parts.csv --dry-run --json

headway import - --seller acme < parts.csv

headway import parts.csv --seller acme --server https://headway.example.com
"""
BACKFILL_EXAMPLES = """Examples:

headway backfill

headway backfill --seller acme --json
"""
ROWS_SHOWN = 20
CHARS_SHOWN = 40
STDIN = Path("-")
# A pipe has no folder of its own in which its refused rows could be found.
PIPED = Path("import.rejected.csv")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("import", epilog=IMPORT_EXAMPLES)(import_file)
    app.command("backfill", epilog=BACKFILL_EXAMPLES)(backfill)


def import_file(
    file: Annotated[
        Path, typer.Argument(help="A CSV file in UTF-8; its first line names columns. - is stdin.")
    ],
    *,
    seller: Annotated[
        str | None,
        typer.Option(help="The seller of the parts; rows of another seller are refused."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen, and change nothing.")
    ] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Import parts that the shop already sells, from a file.

    Columns, in any order: sku, and optionally seller, shop_sku, title, shopify_product_id,
    shopify_variant_id, shopify_inventory_item_id, family, weight or sales, margin, tier. Without
    ids, parts are found in the shop by their shop SKU. Invalid rows are left out and
    written to a file beside it (parts.csv: parts.rejected.csv) with line number and reason; the
    exit code is then 1. For a pipe, that file is import.rejected.csv in this folder. A part that
    exists already is updated, never duplicated.

    A family names the parts that change together: a manufacturer, a price list. A weight says what
    a minute of staleness costs compared with other parts, above 0 up to 1,000,000. Instead you can
    give sales (units a day), margin (money a unit) and tier (free, starter, growth, pro = 1 to 4):
    those that are there are multiplied.
    """
    from headway.operations import imports

    body = imports.UploadedImportBody(
        seller=None if seller is None else seller_of(seller), dry_run=dry_run
    )
    with _opened(file) as raw, open_target(server, creates=True) as target:
        try:
            imported = _imported(target, file, raw, body)
        except InvalidError as error:
            raise InvalidError(f"{file}: {error}; nothing was imported") from None
    rejected = _write_rejected(file, imported.refused)
    if as_json:
        details = {"is_dry_run": dry_run, "rejected_file": rejected and str(rejected)}
        emit(_summary(imported) | details)
    else:
        _print(imported, rejected, is_rehearsal=dry_run)
    if imported.refused:
        raise typer.Exit(1)


def backfill(
    *,
    seller: Annotated[str | None, typer.Option(help="Only this seller's products.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Schedule every product that has no slot yet.

    Such a product is in the shop, and nothing keeps it up to date. First
    reads are spread over the day as the policy places them.
    """
    from headway.operations import listings

    user_id = None if seller is None else seller_of(seller)
    with open_client(server) as client:
        page = client.call(listings.backfill, listings.BackfillBody(seller=user_id))
        added = page.added
        with progress("backfilling", page.count or 0) as advance:
            advance(page.read)
            while page.next_cursor is not None:
                body = listings.BackfillBody(seller=user_id, cursor=page.next_cursor)
                page = client.call(listings.backfill, body)
                added += page.added
                advance(page.read)
    if as_json:
        emit({"added": added})
    else:
        say(f"{added:,} products have a slot now" if added else "every product has its slot")


def _opened(file: Path) -> BinaryIO:
    try:
        return sys.stdin.buffer if file == STDIN else file.open("rb")
    except OSError as error:
        raise InvalidError(f"cannot read {file}: {error.strerror}") from None


def _imported(
    target: Target, file: Path, raw: BinaryIO, body: imports.UploadedImportBody
) -> ImportResult:
    from headway.operations import imports

    if target.session is not None:
        with progress(f"importing {file.name}", os.fstat(raw.fileno()).st_size) as advance:
            return imports.import_lines(
                target.session.app,
                _counted_lines(raw, advance),
                seller=body.seller,
                is_dry_run=body.dry_run,
            )
    if raw.seekable():
        return _sent(target.client, file, raw, body)
    with tempfile.TemporaryFile() as copy:  # the digest of a pipe needs a second reading
        shutil.copyfileobj(raw, copy)
        copy.seek(0)
        return _sent(target.client, file, copy, body)


def _sent(
    client: Client, file: Path, raw: BinaryIO, body: imports.UploadedImportBody
) -> ImportResult:
    """Send a file in chunks and import it; an upload that broke off goes on where it ended."""
    from headway.operations import imports

    digest = hashlib.sha256()
    while content := raw.read(imports.CHUNK_BYTES):
        digest.update(content)
    upload, size = digest.hexdigest(), raw.tell()
    first = client.call(imports.import_upload, upload).chunks
    raw.seek(min(size, first * imports.CHUNK_BYTES))
    with progress(f"sending {file.name}", size) as advance:
        advance(raw.tell())
        for number in range(first, -(-size // imports.CHUNK_BYTES)):
            content = raw.read(imports.CHUNK_BYTES)
            chunk = imports.ChunkBody(content=b64encode(content))
            client.call(imports.send_chunk, upload, number, chunk)
            advance(len(content))
    return client.call(imports.import_uploaded, upload, body)


def _counted_lines(raw: Iterable[bytes], advance: Advance) -> Iterator[bytes]:
    for line in raw:
        advance(len(line))
        yield line


def _write_rejected(file: Path, refused: Sequence[RefusedRow]) -> Path | None:
    if not refused:
        return None
    path = file.with_suffix(".rejected.csv") if file.is_file() else PIPED
    try:
        with path.open("w", encoding="utf-8", newline="") as opened:
            writer = csv.writer(opened)
            writer.writerow((*NOTES, *COLUMNS))
            for row in refused:
                cells = (row.cells.get(column, "") for column in COLUMNS)
                writer.writerow((row.line, row.reason, *cells))
    except OSError as error:
        print(f"headway: cannot write {path}: {error.strerror}", file=sys.stderr)
        return None
    return path


def _summary(imported: ImportResult) -> dict[str, object]:
    return {
        "added": imported.added,
        "updated": imported.updated,
        "unchanged": imported.unchanged,
        "refused": len(imported.refused),
        "first_refused": imported.refused[:ROWS_SHOWN],
    }


def _print(imported: ImportResult, rejected: Path | None, *, is_rehearsal: bool) -> None:
    refused = imported.refused
    if refused:
        # A refused row may hold anything, even terminal control characters.
        rows = [
            (row.line, _shown(row.cells.get("sku", "")), row.reason) for row in refused[:ROWS_SHOWN]
        ]
        more = f", the first {ROWS_SHOWN}" if len(refused) > ROWS_SHOWN else ""
        table(("line", "part", "reason"), rows, title=f"Refused{more}")
        say()
    would = "would be " if is_rehearsal else ""
    facts(
        [
            (f"{would}added", f"{imported.added:,}"),
            (f"{would}updated", f"{imported.updated:,}"),
            ("unchanged", f"{imported.unchanged:,}"),
            ("refused", f"{len(refused):,}" + (f", all of them in {rejected}" if rejected else "")),
        ]
    )


def _shown(sku: str) -> str:
    return sku[:CHARS_SHOWN] if sku.isprintable() else ascii(sku[:CHARS_SHOWN])
