"""`headway import FILE --server URL` sends a file in chunks and reports the same as locally."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from tests.cli.both import LocalAndRemote
from tests.operations.sample import ACME, BEST

from headway.core.access import Role
from headway.operations.imports import CHUNK_BYTES
from headway.store.catalog.import_chunks import ImportChunks

COUNT = "SELECT count(*) FROM import_chunks"
PRODUCTS = "SELECT user_id, sku, shop_sku, title, shopify_variant_id FROM product ORDER BY 1, 2"
# More than two chunks; every padded title is different in length, so lines cross the borders.
LONG = "".join(f"P{n},{'x' * (n % 200)},\n" for n in range(15_000))
BAD = "P7,the same again,\n,no sku,\n\x07,,\nQ1,,5\nQ2,,5\n"


def rows(both: LocalAndRemote, statement: str, *, at_server: bool = True) -> list[Any]:
    with (both.pool if at_server else both.local_pool).connection() as connection:
        return connection.execute(statement).fetchall()


def import_both_ways(both: LocalAndRemote, tmp_path: Path, content: bytes, *options: str) -> Any:
    """Import a file both ways; return the server's result, which must be the same."""
    file, rejected = tmp_path / "parts.csv", tmp_path / "parts.rejected.csv"
    file.write_bytes(content)
    results, written = [], []
    for run in (both.local, both.remote):
        rejected.unlink(missing_ok=True)
        results.append(run("import", "parts.csv", *options))
        written.append(rejected.read_text(encoding="utf-8") if rejected.exists() else None)
    assert results[0] == results[1]
    assert written[0] == written[1]
    return results[1]


@pytest.mark.parametrize("form", ((), ("--json",)), ids=("text", "json"))
def test_a_long_file_is_imported_with_the_same_result_as_locally(
    both: LocalAndRemote, tmp_path: Path, form: tuple[str, ...]
) -> None:
    content = f"\ufeffsku,title,shopify_variant_id\n{LONG}{BAD}".encode()
    assert len(content) > 2 * CHUNK_BYTES
    result = import_both_ways(both, tmp_path, content, "--seller", ACME, *form)
    assert result.code == 1
    assert "sku: the part is in line 9 already" in result.out
    assert "2 parts of this file have it" in result.out
    assert "15002" in result.out  # line of the whole file, not of the chunk
    assert rows(both, PRODUCTS) == rows(both, PRODUCTS, at_server=False)
    assert rows(both, COUNT) == [(0,)]
    again = import_both_ways(both, tmp_path, content, "--seller", ACME, "--json").object()
    assert (again["added"], again["unchanged"]) == (0, 15_000)


def test_a_dry_run_changes_nothing(both: LocalAndRemote, tmp_path: Path) -> None:
    before = rows(both, PRODUCTS)
    result = import_both_ways(both, tmp_path, b"sku\nDRY\n", "--seller", ACME, "--dry-run")
    assert (result.code, "would be added    1" in result.out) == (0, True)
    assert rows(both, PRODUCTS) == before


@pytest.mark.parametrize(
    "content", (b"sku\nA\n\xff\n", b"", b"sku,color\nA,red\n", b'sku\n"A\nB\n')
)
def test_an_unusable_file_is_refused_with_the_same_message(
    both: LocalAndRemote, tmp_path: Path, content: bytes
) -> None:
    message = import_both_ways(both, tmp_path, content, "--seller", ACME).error(2)
    assert message.startswith("headway: parts.csv: ")
    assert message.endswith("nothing was imported")
    assert rows(both, COUNT) == [(0,)]


def test_an_upload_that_broke_off_continues_where_it_ended(
    both: LocalAndRemote, tmp_path: Path
) -> None:
    content = f"sku,title,family\n{LONG}".encode()
    upload = hashlib.sha256(content).hexdigest()
    # What was sent before stays as it is: were it sent again, this difference would be gone.
    ImportChunks(both.pool).store(
        upload, 0, content[:CHUNK_BYTES].replace(b"P3,", b"p3,"), now=both_now(both)
    )
    (tmp_path / "parts.csv").write_bytes(content)
    refused = both.remote("import", "parts.csv", "--seller", ACME).error(2)
    assert "does not have the whole file; send it again" in refused
    assert rows(both, "SELECT count(*) FROM product WHERE sku = 'P5'") == [(0,)]
    ImportChunks(both.pool).store(upload, 0, content[:CHUNK_BYTES], now=both_now(both))
    assert both.remote("import", "parts.csv", "--seller", ACME).code == 0
    assert rows(both, "SELECT count(*) FROM product WHERE sku LIKE 'P%'") >= [(15_000,)]


def both_now(both: LocalAndRemote) -> Any:
    ((now,),) = rows(both, "SELECT now()")
    return now


def test_only_an_operator_imports(both: LocalAndRemote, tmp_path: Path) -> None:
    (tmp_path / "parts.csv").write_text("sku\nA\n", encoding="utf-8")
    key = both.key(Role.SELLER, BEST)
    refused = both.remote("import", "parts.csv", HEADWAY_API_KEY=key).error(2)
    assert "it needs: operate" in refused


def test_providers_are_those_of_the_server(both: LocalAndRemote) -> None:
    for form in ((), ("--json",)):
        local, remote = both.local("providers", *form), both.remote("providers", *form)
        assert (remote.code, remote.err) == (0, "")
        assert "etsy" in remote.out
        assert len(remote.out.splitlines()) == len(local.out.splitlines())
