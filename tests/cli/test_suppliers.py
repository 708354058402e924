"""`headway supplier` as a person types it, here and at a server; no secret is ever shown."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.cli.both import Both

from headway.app.providers import stored_secrets
from headway.config import Settings
from headway.core.catalog.listings import SupplierName
from headway.store.catalog.suppliers import Suppliers

Headway = Callable[..., Any]
SECRETS = ("s3cret-of-the-client", "s3cret-word")
ADD = ("supplier", "add", "east", "--client-id", "east-id", "--username", "us")


@pytest.fixture
def secrets(tmp_path: Path) -> tuple[str, str]:
    path = tmp_path / "secrets"
    path.write_text("\n".join(SECRETS) + "\n")
    return "--secrets-file", str(path)


def kept(pool: ConnectionPool, data_dir: Path) -> tuple[str, str]:
    row = Suppliers(pool).find(SupplierName("east"))
    stored = stored_secrets(row.name, Settings(data_dir=data_dir), pool)
    return stored["client_secret"], stored["password"]


def test_a_supplier_is_added_listed_given_and_removed(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path, secrets: tuple[str, str]
) -> None:
    added = on_database(*ADD, *secrets, "--url", "https://east.example")
    assert (added.code, "east is added, and asked at https://east.example" in added.out) == (
        0,
        True,
    )
    assert kept(pool, tmp_path / "none") == SECRETS
    again = on_database(*ADD, *secrets)
    assert "its new secrets are used from the next sign-in on" in again.out
    once_more = on_database(*ADD, *secrets, "--json").object()
    assert (once_more["url"], once_more["is_new"]) == ("https://east.example", False)
    given = on_database("supplier", "give", "east", "--seller", "acme", "--json").object()
    assert given == {"supplier": "east", "seller": "acme", "moved": 0}
    listed = on_database("supplier", "list")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["name", "main", "east"]
    few = on_database("supplier", "list", "--limit", "1")
    assert "and more; show them with --limit 10" in few.out
    told = on_database("supplier", "list", "--json").object()
    assert [each["sellers"] for each in told["suppliers"]] == [0, 1]
    used = on_database("supplier", "remove", "east").complaint(2)
    assert "headway supplier give main --seller acme" in used
    on_database("supplier", "give", "main", "--seller", "acme")
    gone = on_database("supplier", "remove", "east")
    assert gone.out == "east is removed, and its secrets are forgotten\n"
    said = "".join(each.out + each.err for each in (added, again, listed, gone))
    assert not any(secret in said for secret in SECRETS)


def test_slips_are_refused_by_name(on_database: Headway, tmp_path: Path, secrets: Any) -> None:
    assert "NAME: a supplier's name is" in on_database(
        "supplier", "add", "East", *ADD[3:], *secrets
    ).complaint(2)
    assert "--secrets-file FILE" in on_database(*ADD).complaint(2)
    (tmp_path / "one").write_text("alone")
    one = on_database(*ADD, "--secrets-file", str(tmp_path / "one")).complaint(2)
    assert ("two lines" in one, "alone" in one) == (True, False)
    assert "No such file" in on_database(*ADD, "--secrets-file", "none").complaint(2)
    assert "url must be" in on_database(*ADD, *secrets, "--url", "east").complaint(2)
    missing = on_database("supplier", "give", "east", "--seller", "acme").complaint(2)
    assert "there is no supplier east" in missing


def test_secrets_may_be_typed_and_are_not_seen(
    database: str, pool: ConnectionPool, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    settings = {"DATABASE_URL": database, "HEADWAY_DATA_DIR": str(tmp_path)}
    with subprocess.Popen(
        [Path(sys.executable).with_name("headway"), *ADD],
        env={**os.environ, **settings},
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # no terminal of its own but what stdin is
    ) as running:
        assert running.stderr is not None
        for question, secret in zip(("Client secret: ", "Password: "), SECRETS, strict=True):
            asked = ""
            while not asked.endswith(question) and (letter := running.stderr.read(1)):
                asked += letter
            os.write(ours, f"{secret}\n".encode())
        said = "".join(running.communicate())
    echoed = os.read(ours, 1000) if select.select([ours], [], [], 0)[0] else b""
    os.close(theirs)
    os.close(ours)
    assert running.returncode == 0, said
    assert not any(secret in said + echoed.decode() for secret in SECRETS)
    assert kept(pool, tmp_path) == SECRETS


def test_suppliers_are_the_same_here_and_at_a_server(both: Both, secrets: tuple[str, str]) -> None:
    for words in (
        (*ADD, *secrets),
        (*ADD, *secrets, "--json"),
        ("supplier", "give", "east", "--seller", "acme"),
        ("supplier", "list"),
        ("supplier", "list", "--json"),
        ("pause", "--supplier", "east", "--reason", "its list is wrong"),
        ("pause",),
        ("pause", "--supplier", "west"),
        ("pause", "--supplier", "east", "main"),
        ("resume", "--supplier"),
        ("resume", "--supplier", "east"),
        ("supplier", "remove", "east"),
        ("supplier", "give", "main", "--seller", "acme"),
        ("supplier", "remove", "east", "--json"),
        ("supplier", "remove", "west"),
    ):
        here, there = both.local(*words), both.remote(*words)
        assert (here.code, here.out, here.err) == (there.code, there.out, there.err), words


def test_a_price_list_is_added_with_its_columns(on_database: Headway, tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("PartNo,price,quantity\nA1,5,1\n")
    add = ("supplier", "add", "list", "--kind", "feed", "--url", str(path), "--currency", "USD")
    added = on_database(*add, "--column", "sku=PartNo", "--interval", "30m", "--json").object()
    assert (added["kind"], added["url"], added["is_new"]) == ("feed", str(path), True)
    assert added["options"] == {
        "columns": {"sku": "PartNo"}, "currency": "USD", "interval": "30m",
    }  # fmt: skip
    assert "no price list is held" in on_database("supplier", "accept", "list").complaint(2)
    wrong = on_database(*add, "--interval", "soon").complaint(2)
    assert "interval: write a time from 1m to 24h" in wrong
    assert "--column: write each name once" in on_database(*add, "--column", "sku").complaint(2)
    plain = on_database(*add[:5], "--url", "http://parts.example/p.csv").complaint(2)
    assert "use https" in plain
