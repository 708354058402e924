"""The command supplier, locally and at a server; no secret is ever shown."""

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
from tests.cli.both import LocalAndRemote

from headway.app.providers import stored_secrets
from headway.config import Settings
from headway.core.catalog.listings import SupplierName
from headway.store.catalog.suppliers import Suppliers

Headway = Callable[..., Any]
NEW_SELLER = "INSERT INTO profiles (user_id, created_at, updated_at) VALUES ('acme', now(), now())"
SECRETS = ("s3cret-of-the-client", "s3cret-word")
ADD = ("supplier", "add", "east", "--client-id", "east-id", "--username", "us")


@pytest.fixture
def secrets(tmp_path: Path) -> tuple[str, str]:
    path = tmp_path / "secrets"
    path.write_text("\n".join(SECRETS) + "\n")
    return "--secrets-file", str(path)


def stored_pair(pool: ConnectionPool, data_dir: Path) -> tuple[str, str]:
    row = Suppliers(pool).find(SupplierName("east"))
    stored = stored_secrets(row.name, Settings(data_dir=data_dir), pool)
    return stored["client_secret"], stored["password"]


def test_a_supplier_is_added_listed_assigned_and_removed(
    on_database: Headway,
    pool: ConnectionPool,
    tmp_path: Path,
    secrets: tuple[str, str],
    execute: Callable[..., None],
) -> None:
    execute(NEW_SELLER)
    added = on_database(*ADD, *secrets, "--url", "https://east.example")
    assert (added.code, "east is added, and asked at https://east.example" in added.out) == (
        0,
        True,
    )
    assert stored_pair(pool, tmp_path / "none") == SECRETS
    again = on_database(*ADD, *secrets)
    assert "its new secrets are used from the next sign-in on" in again.out
    once_more = on_database(*ADD, *secrets, "--json").object()
    assert (once_more["url"], once_more["is_new"]) == ("https://east.example", False)
    assigned = on_database("supplier", "give", "east", "--seller", "acme", "--json").object()
    assert assigned == {"supplier": "east", "seller": "acme", "moved": 0}
    listed = on_database("supplier", "list")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["name", "main", "east"]
    first_page = on_database("supplier", "list", "--limit", "1")
    assert "and more; show them with --limit 10" in first_page.out
    listing = on_database("supplier", "list", "--json").object()
    assert [supplier["sellers"] for supplier in listing["suppliers"]] == [0, 1]
    message = on_database("supplier", "remove", "east").error(2)
    assert "headway supplier give main --seller acme" in message
    on_database("supplier", "give", "main", "--seller", "acme")
    removed = on_database("supplier", "remove", "east")
    assert removed.out == "east is removed, and its secrets are forgotten\n"
    output = "".join(result.out + result.err for result in (added, again, listed, removed))
    assert not any(secret in output for secret in SECRETS)


def test_invalid_arguments_are_refused_by_name(
    on_database: Headway, tmp_path: Path, secrets: Any, execute: Callable[..., None]
) -> None:
    assert "NAME: a supplier's name is" in on_database(
        "supplier", "add", "East", *ADD[3:], *secrets
    ).error(2)
    assert "--secrets-file FILE" in on_database(*ADD).error(2)
    (tmp_path / "one").write_text("alone")
    one = on_database(*ADD, "--secrets-file", str(tmp_path / "one")).error(2)
    assert ("two lines" in one, "alone" in one) == (True, False)
    assert "No such file" in on_database(*ADD, "--secrets-file", "none").error(2)
    assert "url must be" in on_database(*ADD, *secrets, "--url", "east").error(2)
    give = ("supplier", "give", "east", "--seller")
    assert "there is no seller acem" in on_database(*give, "acem").error(2)
    execute(NEW_SELLER)
    assert "there is no seller acem; did you mean acme?" in on_database(*give, "acem").error(2)
    assert "there is no supplier east" in on_database(*give, "acme").error(2)


def test_secrets_can_be_typed_and_are_not_echoed(
    database: str, pool: ConnectionPool, tmp_path: Path
) -> None:
    terminal, stdin = pty.openpty()
    settings = {"DATABASE_URL": database, "HEADWAY_DATA_DIR": str(tmp_path)}
    with subprocess.Popen(
        [Path(sys.executable).with_name("headway"), *ADD],
        env={**os.environ, **settings},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # no terminal of its own but what stdin is
    ) as process:
        assert process.stderr is not None
        for question, secret in zip(("Client secret: ", "Password: "), SECRETS, strict=True):
            prompt = ""
            while not prompt.endswith(question) and (character := process.stderr.read(1)):
                prompt += character
            os.write(terminal, f"{secret}\n".encode())
        output = "".join(process.communicate())
    echoed = os.read(terminal, 1000) if select.select([terminal], [], [], 0)[0] else b""
    os.close(stdin)
    os.close(terminal)
    assert process.returncode == 0, output
    assert not any(secret in output + echoed.decode() for secret in SECRETS)
    assert stored_pair(pool, tmp_path) == SECRETS


def test_supplier_commands_print_the_same_locally_and_remotely(
    both: LocalAndRemote, secrets: tuple[str, str]
) -> None:
    for arguments in (
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
        local, remote = both.local(*arguments), both.remote(*arguments)
        assert (local.code, local.out, local.err) == (remote.code, remote.out, remote.err), (
            arguments
        )


def test_a_price_list_is_added_with_its_columns(on_database: Headway, tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_text("PartNo,price,quantity\nA1,5,1\n")
    add = ("supplier", "add", "list", "--kind", "feed", "--url", str(path), "--currency", "USD")
    added = on_database(*add, "--column", "sku=PartNo", "--interval", "30m", "--json").object()
    assert (added["kind"], added["url"], added["is_new"]) == ("feed", str(path), True)
    assert added["options"] == {
        "columns": {"sku": "PartNo"}, "currency": "USD", "interval": "30m",
    }  # fmt: skip
    assert "no price list is held" in on_database("supplier", "accept", "list").error(2)
    wrong = on_database(*add, "--interval", "soon").error(2)
    assert "interval: write a time from 1m to 24h" in wrong
    assert "--column: write each name once" in on_database(*add, "--column", "sku").error(2)
    plain = on_database(*add[:5], "--url", "http://parts.example/p.csv").error(2)
    assert "use https" in plain
