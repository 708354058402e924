"""Imports of what a shop already sells: from a file here, or from what a client sends."""

import csv
import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Base64Bytes, Field, model_validator

from headway.app import App
from headway.core.access import Need
from headway.core.accounts.jobs import Tier
from headway.core.catalog.intake import COLUMNS, ImportResult, read_rows
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, RequestError
from headway.operations.callers import OperatorCaller
from headway.operations.inputs import (
    NAME_CHARS_MAX,
    PLAIN,
    RequestBody,
    SellerText,
    SkuText,
    example,
)
from headway.operations.operation import operation
from headway.store.catalog.import_chunks import ImportChunks
from headway.store.catalog.products import Products
from headway.store.catalog.publishing import Publishing

TAG = "imports"
ALL = "/api/sync/imports"
PATH = ALL + "/{upload}"
# In base64 this stays below the limit on a body.
CHUNK_BYTES = 600_000
CHUNKS_MAX = 10_000
DIGEST = hashlib.sha256(b"sku\nWF338109=K3\n").hexdigest()
UploadPath = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of the whole file, in hexadecimal; or, if the import then names"
        " the file's size, 64 random hexadecimal digits.",
        examples=[DIGEST],
    ),
]
ChunkPath = Annotated[int, Field(ge=0, lt=CHUNKS_MAX, description="Its number, from 0.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportUpload:
    """How many chunks of a file the server has, from the first one on without a gap."""

    upload: str
    """The id of the upload: the SHA-256 of the file.
    Example: `9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`
    """
    chunks: int
    """Chunks that the server has, from the first on without a gap."""


class ChunkBody(RequestBody):
    """One chunk of a file, in base64."""

    model_config = example({"content": "c2t1CldGMzM4MTA5PUszCg=="})
    content: Annotated[Base64Bytes, Field(max_length=CHUNK_BYTES)]
    """The chunk in base64. Example: `c2t1LHByaWNlCg==`"""


class ImportBody(RequestBody):
    """How to import a file: rows of one seller only, and whether to leave the database as it is."""

    model_config = example({"seller": "acme", "dry_run": True})
    seller: SellerText | None = None
    """Take rows of this seller only. Example: `acme`"""
    dry_run: bool = False
    """Only answer what would be imported."""


class UploadedImportBody(ImportBody):
    """How to import a file that was sent."""

    size: Annotated[int, Field(ge=0)] | None = None
    """The file's size in bytes, if the id of the upload is not its digest."""


CellText = Annotated[str, Field(max_length=NAME_CHARS_MAX, pattern=PLAIN)]


class PartRow(RequestBody):
    """A part that the shop sells; what is left out stays as it is."""

    model_config = example({"sku": "WF338109=K3", "shop_sku": "WF338109", "family": "Hardware"})
    sku: SkuText
    seller: SellerText | None = None
    """The seller, if it is not that of the request. Example: `acme`"""
    shop_sku: CellText | None = None
    """The SKU in the shop, if it is another one. Example: `WF338109`"""
    title: CellText | None = None
    """The product's title. Example: `Washer, flat`"""
    shopify_product_id: CellText | None = None
    """The product's id in the shop. Example: `gid://shopify/Product/8123456789`"""
    shopify_variant_id: CellText | None = None
    """The variant's id in the shop. Example: `gid://shopify/ProductVariant/45123456789`"""
    shopify_inventory_item_id: CellText | None = None
    """The inventory item's id in the shop. Example: `gid://shopify/InventoryItem/47123456789`"""
    family: CellText | None = None
    """Parts of one family change together. Example: `Hardware`"""
    weight: float | None = None
    """What a minute of staleness costs, compared with other parts. Example: `2`"""
    sales: float | None = None
    """Units sold a day; may be given instead of the weight. Example: `0.5`"""
    margin: float | None = None
    """Money earned a unit; may be given instead of the weight. Example: `12.5`"""
    tier: Tier | None = None
    """The part's tier; may be given instead of the weight."""
    channels: CellText | None = None
    """Sales channels on which the part is kept visible; `none` for none.
    Example: `Online Store`
    """


class ImportPartsBody(ImportBody):
    """Parts to import: rows, or the text of a CSV file."""

    model_config = example(
        {"seller": "acme", "rows": [{"sku": "WF338109=K3"}], "dry_run": True},
        {"seller": "acme", "csv": "sku,family\nWF338109=K3,Hardware\n"},
    )
    rows: Annotated[list[PartRow], Field(min_length=1)] | None = None
    """The parts; leave out `csv`."""
    csv: Annotated[str, Field(min_length=1)] | None = None
    """A CSV file, such as the shop's own export; leave out `rows`.
    Example: `sku,family\\nWF338109=K3,Hardware\\n`
    """

    @model_validator(mode="after")
    def _has_one(self) -> "ImportPartsBody":
        if (self.rows is None) == (self.csv is None):
            raise ValueError("rows, csv: give one of them")
        return self


@operation("POST", ALL, need=Need.OPERATE, tag=TAG, name="import_parts")
def import_parts(caller: OperatorCaller, body: ImportPartsBody) -> ImportResult:
    """Import parts in one request and one transaction; rows that cannot be used are refused.

    A refused row is named by its line in `csv`, or by its place in `rows`, from 1. What is larger
    than a request may be is sent in chunks.
    """
    lines = io.BytesIO((body.csv or "").encode()) if body.rows is None else _as_csv(body.rows)
    return import_lines(
        caller.app,
        lines,
        seller=body.seller,
        is_dry_run=body.dry_run,
        header_lines=0 if body.rows is None else 1,
    )


@operation("GET", PATH, need=Need.OPERATE, tag=TAG, errors=(422,), name="get_import_upload")
def import_upload(caller: OperatorCaller, upload: UploadPath) -> ImportUpload:
    """Show how much of a file the server has, so that a client can go on from there."""
    return ImportUpload(upload=upload, chunks=ImportChunks(caller.app.pool).count(upload))


@operation("PUT", PATH + "/chunks/{number}", need=Need.OPERATE, tag=TAG, name="send_import_chunk")
def send_chunk(
    caller: OperatorCaller, upload: UploadPath, number: ChunkPath, body: ChunkBody
) -> ImportUpload:
    """Send one chunk of a file; it is kept until the import, or for a day."""
    chunks = ImportChunks(caller.app.pool)
    chunks.store(upload, number, body.content, now=caller.now)
    return ImportUpload(upload=upload, chunks=chunks.count(upload))


@operation("POST", PATH, need=Need.OPERATE, tag=TAG, errors=(409,), name="import_file")
def import_uploaded(
    caller: OperatorCaller, upload: UploadPath, body: UploadedImportBody
) -> ImportResult:
    """Import a file that was sent, in one transaction; rows that cannot be used are refused."""
    chunks = ImportChunks(caller.app.pool)
    try:
        imported = import_lines(
            caller.app,
            _lines(chunks, upload, size=body.size),
            seller=body.seller,
            is_dry_run=body.dry_run,
        )
    except RequestError:
        chunks.delete(upload)
        raise
    if not body.dry_run:  # the import itself probably follows
        chunks.delete(upload)
    return imported


def import_lines(
    app: App,
    lines: Iterable[bytes],
    *,
    seller: SellerId | None,
    is_dry_run: bool,
    header_lines: int = 0,
) -> ImportResult:
    """Import the lines of a file; raises InvalidError if it is unusable as a whole.

    Lines are counted after so many `header_lines`.
    """
    rows = read_rows(lines, only=seller, otherwise=seller or _only_seller(app))
    imported = Products(app.pool).take_in(
        (replace(row, line=row.line - header_lines) for row in rows),
        form=app.settings.shop_sku,
        policy=app.policy,
        now=app.clock.now(),
        is_rehearsal=is_dry_run,
    )
    if not is_dry_run:
        app.sellers.count_catalogs(app.clock.now(), imported.sellers)
    return imported


def _as_csv(rows: Sequence[PartRow]) -> Iterator[bytes]:
    """Yield rows as the lines of a file; a line break within a cell is a space."""
    yield _csv_line(COLUMNS)
    for row in rows:
        cells = ("" if (cell := getattr(row, name)) is None else str(cell) for name in COLUMNS)
        yield _csv_line([" ".join(cell.splitlines()) for cell in cells])


def _csv_line(cells: Sequence[str]) -> bytes:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue().encode()


def _lines(chunks: ImportChunks, upload: str, *, size: int | None) -> Iterator[bytes]:
    """Yield the lines of an upload; raises ConflictError at the end if it is not whole.

    The import reads lines inside its transaction, so that an error here stores nothing.
    """
    digest, rest, read = hashlib.sha256(), b"", 0
    for content in chunks.read(upload):
        digest.update(content)
        read += len(content)
        *lines, rest = (rest + content).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if (digest.hexdigest() != upload) if size is None else (read != size):
        raise ConflictError("the server does not have the whole file; send it again")
    if rest:
        yield rest


def _only_seller(app: App) -> SellerId | None:
    try:
        return Publishing(app.pool).seller(None)
    except RequestError:
        return None
