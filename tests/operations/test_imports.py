"""Import parts in one request, and files that were sent under an id of the client's own."""

import pytest
from pydantic import ValidationError
from tests.operations.sample import ACME, BEST, SampleDeployment

from headway.core.catalog.listings import Sku
from headway.errors import ConflictError, InvalidError
from headway.operations.imports import (
    ChunkBody,
    ImportPartsBody,
    PartRow,
    UploadedImportBody,
    import_parts,
    import_uploaded,
    send_chunk,
)

STORED = "SELECT sku, shop_sku, title FROM product WHERE sku LIKE 'NEW%%' ORDER BY sku"
OWN_ID = "ab" * 32


def parts(*rows: PartRow, dry_run: bool = False) -> ImportPartsBody:
    return ImportPartsBody(seller=ACME, rows=list(rows), dry_run=dry_run)


def new(sku: str, **cells: object) -> PartRow:
    return PartRow.model_validate({"sku": sku, **cells})


def test_rows_are_imported_and_refused_by_their_place(sample: SampleDeployment) -> None:
    rows = (
        new("NEW 1/10L", title='A "flat" washer,\nplain', weight=2.5),
        new("new1/10l"),
        new("NEW2=K3", shop_sku="NEW2", seller=BEST),
        new("NEW3", tier="pro"),
    )
    for dry_run in (True, False):
        imported = import_parts(sample.operator, parts(*rows, dry_run=dry_run))
        assert imported.added == 2
        assert [row.line for row in imported.refused] == [2, 3]
        assert [row.reason.partition(" ")[0] for row in imported.refused] == ["sku:", "seller:"]
        assert "NEW 1/10L in line 1" in imported.refused[0].reason
        stored = [] if dry_run else [
            ("NEW 1/10L", "NEW 1/10L", 'A "flat" washer, plain'), ("NEW3", "NEW3", "")
        ]  # fmt: skip
        assert sample.execute(STORED) == stored
    again = import_parts(sample.operator, parts(*rows))
    assert (again.added, again.updated, again.unchanged) == (0, 0, 2)


def test_the_text_of_a_shop_export_is_imported(sample: SampleDeployment) -> None:
    text = "Handle;Title;Option1 Value;Variant SKU\nwasher;Washer;Steel;NEW1\nwasher;;Brass;NEW2\n"
    imported = import_parts(sample.operator, ImportPartsBody(seller=BEST, csv=text))
    assert (imported.added, imported.refused, imported.sellers) == (2, [], [BEST])
    assert [sku for sku, *_ in sample.execute(STORED)] == ["NEW1", "NEW2"]
    with pytest.raises(InvalidError, match=r"^seller: whose parts are these"):
        import_parts(sample.operator, ImportPartsBody(csv="sku\nNEW3\n"))


def test_a_request_gives_either_rows_or_a_file() -> None:
    for body in ({}, {"csv": "sku\nA\n", "rows": [{"sku": "A"}]}):
        with pytest.raises(ValidationError, match="rows, csv: give one of them"):
            ImportPartsBody.model_validate(body)


def test_a_file_under_an_id_of_its_own_is_imported_only_if_it_is_whole(
    sample: SampleDeployment,
) -> None:
    caller, content = sample.operator, b"sku\nNEW1\nNEW2\n"
    for number, chunk in enumerate((b"c2t1CkZFVzEK", b"TkVXMgo=")):
        send_chunk(caller, OWN_ID, number, ChunkBody(content=chunk))
    send_chunk(caller, OWN_ID, 0, ChunkBody(content=b"c2t1Ck5FVzEK"))
    with pytest.raises(ConflictError, match="whole file"):
        import_uploaded(caller, OWN_ID, UploadedImportBody(seller=ACME, size=len(content) + 1))
    for number, chunk in enumerate((b"c2t1Ck5FVzEK", b"TkVXMgo=")):
        send_chunk(caller, OWN_ID, number, ChunkBody(content=chunk))
    body = UploadedImportBody(seller=ACME, size=len(content))
    assert import_uploaded(caller, OWN_ID, body).added == 2
    assert [Sku(sku) for sku, *_ in sample.execute(STORED)] == ["NEW1", "NEW2"]
