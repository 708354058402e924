"""Imports of what a shop already sells: from a file here, or from one that a client sends."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import Base64Bytes, Field

from headway.app import App
from headway.core.access import Need
from headway.core.catalog.intake import Imported, read_rows
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, RequestError
from headway.operations.callers import OperatorCaller
from headway.operations.inputs import RequestBody, SellerText, example
from headway.operations.operation import operation
from headway.store.catalog.import_chunks import ImportChunks
from headway.store.catalog.products import Products
from headway.store.catalog.publishing import Publishing

TAG = "imports"
PATH = "/api/sync/imports/{upload}"
# In base64 this stays below the limit on a body.
CHUNK_BYTES = 600_000
CHUNKS_MAX = 10_000
DIGEST = hashlib.sha256(b"sku\nWF338109=K3\n").hexdigest()
UploadPath = Annotated[
    str,
    Field(
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of the whole file, in hexadecimal.",
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
def import_uploaded(caller: OperatorCaller, upload: UploadPath, body: ImportBody) -> Imported:
    """Import a file that was sent, in one transaction; rows that cannot be used are refused."""
    chunks = ImportChunks(caller.app.pool)
    try:
        imported = import_lines(
            caller.app, _lines(chunks, upload), seller=body.seller, is_dry_run=body.dry_run
        )
    except RequestError:
        chunks.delete(upload)
        raise
    if not body.dry_run:  # the import itself probably follows
        chunks.delete(upload)
    return imported


def import_lines(
    app: App, lines: Iterable[bytes], *, seller: SellerId | None, is_dry_run: bool
) -> Imported:
    """Import the lines of a file; raises InvalidError if it is unusable as a whole."""
    imported = Products(app.pool).take_in(
        read_rows(lines, only=seller, otherwise=seller or _only_seller(app)),
        form=app.settings.shop_sku,
        policy=app.policy,
        now=app.clock.now(),
        is_rehearsal=is_dry_run,
    )
    if not is_dry_run:
        app.sellers.count_catalogs(app.clock.now(), imported.sellers)
    return imported


def _lines(chunks: ImportChunks, upload: str) -> Iterator[bytes]:
    """Yield the lines of an upload; raises ConflictError at the end if it is not whole.

    The import reads lines inside its transaction, so that an error here stores nothing.
    """
    digest, rest = hashlib.sha256(), b""
    for content in chunks.read(upload):
        digest.update(content)
        *lines, rest = (rest + content).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if digest.hexdigest() != upload:
        raise ConflictError("the server does not have the whole file; send it again")
    if rest:
        yield rest


def _only_seller(app: App) -> SellerId | None:
    try:
        return Publishing(app.pool).seller(None)
    except RequestError:
        return None
