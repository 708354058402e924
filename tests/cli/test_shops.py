"""The commands connect, disconnect, shops, terms and tier; no token is ever shown."""

import json
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

from headway.app.accounts import connect_account
from headway.clock import SystemClock
from headway.core.catalog.listings import LimitKey, SellerId
from headway.providers.shopify.storefront import shop_limit_key
from headway.providers.vault import open_vault
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.credentials import Credentials
from headway_lab.platforms import ETSY, PRINTIFY
from headway_lab.simulators.shopify.apps import OwnApp
from headway_lab.simulators.shopify.shop import SCOPES, ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import serve

Headway = Callable[..., Any]
Execute = Callable[..., None]
FOO = "foo.myshopify.com"
SECRET = "shpat_0123456789abcdef"
CONNECT = ("connect", FOO, "--seller", "acme", "--no-check")
APP = {"HEADWAY_SHOPIFY_CLIENT_ID": "app7", "HEADWAY_SHOPIFY_CLIENT_SECRET": "quiet"}


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    return path


def tokens(pool: ConnectionPool, tmp_path: Path, client_id: str = "") -> dict[str, str]:
    """Return the valid tokens of the shop as a connector reads them."""
    vault, now = open_vault(None, tmp_path / "none"), SystemClock().now()
    stored = Credentials(pool).load(shop_limit_key(client_id, FOO))
    return {token.name: vault.decrypt(token.secret) for token in stored if token.expires_at > now}


def test_connect_stores_the_token_encrypted_and_never_shows_it(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path, token_file: Path
) -> None:
    url = "https://Foo.myshopify.com/admin"
    result = on_database(
        "connect", url, "--seller", "acme", "--no-check", "--token-file", str(token_file)
    )
    assert result.code == 0
    assert "it tells its locations, and whether the token is good, when headway runs" in result.out
    assert SECRET not in result.out + result.err
    assert tokens(pool, tmp_path) == {"access": SECRET}
    with pool.connection() as connection:
        rows = connection.execute("SELECT secret FROM credential").fetchall()
    assert SECRET.encode() not in bytes(rows[0][0])
    reply = on_database(*CONNECT, "--token-file", str(token_file), "--json")
    assert (reply.object()["shop"], reply.object()["status"]) == (FOO, "connected")
    assert SECRET not in reply.out


def test_connect_reads_the_locations_of_the_shop_and_names_missing_ones(
    on_database: Headway, token_file: Path
) -> None:
    clock = SystemClock()
    setup = ShopSetup(domain=FOO, locations=("Miami FL", "Attic"), access_token=SECRET)
    simulator = ShopifySimulator(clock, shops=[setup], delay_s=(0, 0))
    connect = ("connect", FOO, "--seller", "acme", "--token-file", str(token_file))
    with serve(simulator.handle, clock) as server:
        url = {"HEADWAY_SHOPIFY_URL": server.url + "/{shop}"}
        result = on_database(*connect, **url)
        assert (result.code, simulator.calls["locations"]) == (0, 1)
        assert "2 known, none named Chicago IL, Dallas Central, Goodyear AZ" in result.out
        simulator.tokens(FOO).revoke()
        refused = on_database(*connect, **url)
    assert refused.code == 1
    assert "this token has expired or was revoked; connect with client id" in refused.out
    assert SECRET not in result.out + refused.out + refused.err


def test_connect_shops_and_doctor_name_the_scopes_that_a_shop_has_not_granted(
    on_database: Headway, token_file: Path
) -> None:
    clock = SystemClock()
    granted = [scope for scope in SCOPES if scope not in {"read_orders", "write_publications"}]
    setup = ShopSetup(domain=FOO, scopes=granted, access_token=SECRET)
    simulator = ShopifySimulator(clock, shops=[setup], delay_s=(0, 0))
    connect = ("connect", FOO, "--seller", "acme", "--token-file", str(token_file))
    with serve(simulator.handle, clock) as server:
        url = {"HEADWAY_SHOPIFY_URL": server.url + "/{shop}"}
        result = on_database(*connect, **url)
        as_json = on_database(*connect, "--json", **url).object()
    orders = "read_orders (read orders with their lines, shipments, refunds and payments)"
    missing = f"has not granted write_publications (put products on sales channels), {orders}"
    assert result.code == 0
    assert missing in " ".join(result.out.split())
    assert "Dev Dashboard" in result.out
    assert [scope["name"] for scope in as_json["missing_scopes"]] == [
        "write_publications",
        "read_orders",
    ]
    listed = " ".join(on_database("shops").out.split())
    assert missing in listed
    fixes = f"https://dev.shopify.com/dashboard; a new version|https://{FOO}/admin/settings/apps"
    for fix in (*fixes.split("|"), f"then run: headway connect {FOO} --seller acme"):
        assert fix in listed
    app = {"HEADWAY_SHOPIFY_CLIENT_ID": "app", "HEADWAY_SHOPIFY_CLIENT_SECRET": "secret"}
    link = f"link of: headway connect {FOO} --seller acme --link"
    assert link not in listed
    assert link in " ".join(on_database("shops", **app).out.split())
    version = {"HEADWAY_SHOPIFY_API_VERSION": "2024-10"}
    lines = on_database("doctor", "--json", **version).object()["lines"]
    [ended] = [line for line in lines if "2024-10 may have ended on 2025-10-01" in line["finding"]]
    assert (ended["subject"], ended["verdict"]) == ("shopify", "warn")
    [finding] = [line["finding"] for line in lines if "has not granted" in line["finding"]]
    assert missing in finding
    assert "Dev Dashboard" in finding


def test_connect_names_the_scope_without_which_no_location_is_shown(
    on_database: Headway, token_file: Path
) -> None:
    clock = SystemClock()
    granted = [scope for scope in SCOPES if scope != "read_locations"]
    setup = ShopSetup(domain=FOO, scopes=granted, access_token=SECRET)
    simulator = ShopifySimulator(clock, shops=[setup], delay_s=(0, 0))
    with serve(simulator.handle, clock) as server:
        url = {"HEADWAY_SHOPIFY_URL": server.url + "/{shop}"}
        connect = ("connect", FOO, "--seller", "acme", "--token-file", str(token_file))
        refused = on_database(*connect, **url)
    assert refused.code == 1
    assert "needs read_locations (read the names of the locations)" in refused.out
    assert "Dev Dashboard" in refused.out


def test_a_token_that_was_entered_alone_does_not_count_as_permanent(
    on_database: Headway, token_file: Path
) -> None:
    note = "how long this token lasts is unknown"
    connected = on_database(*CONNECT, "--token-file", str(token_file))
    assert note in connected.out
    lines = on_database("doctor", "--json").object()["lines"]
    (line,) = [line for line in lines if note in line["finding"]]
    assert (line["subject"], FOO in line["finding"]) == ("tokens", True)
    app = (*CONNECT, "--client-id", "app7", "--client-secret-file", str(token_file))
    assert note not in on_database(*app).out
    assert note not in on_database("doctor").out


def test_connect_with_client_id_and_secret_fetches_tokens_itself(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path
) -> None:
    clock, app = SystemClock(), OwnApp(client_secret="hush-own-secret")
    setup = ShopSetup(domain=FOO, own_app=app, access_token="")
    simulator = ShopifySimulator(clock, shops=[setup], delay_s=(0, 0))
    (tmp_path / "secret").write_text(f"{app.client_secret}\n")
    connect = ("connect", FOO, "--seller", "acme", "--client-id", app.client_id)
    from_file = (*connect, "--client-secret-file", str(tmp_path / "secret"))
    with serve(simulator.handle, clock) as server:
        url = {"HEADWAY_SHOPIFY_URL": server.url + "/{shop}"}
        result = on_database(*from_file, **url)
        assert result.code == 0
        assert "is connected to acme: 2 known" in result.out
        stored = tokens(pool, tmp_path)
        assert stored["client"] == f"{app.client_id}:{app.client_secret}"
        assert stored["access"].startswith("shpat_")
        settings = {
            "HEADWAY_SHOPIFY_CLIENT_ID": app.client_id,
            "HEADWAY_SHOPIFY_CLIENT_SECRET": app.client_secret,
        }
        from_environment = on_database(*connect, **url, **settings)
        (tmp_path / "secret").write_text("wrong")
        refused = on_database(*from_file, **url)
    assert from_environment.code == 0
    assert refused.code == 1
    assert "refuses the app's client id or secret; copy both" in refused.out
    assert app.client_secret not in result.out + result.err + refused.out
    assert on_database("disconnect", "--seller", "acme").code == 0
    vault = open_vault(None, tmp_path / "none")
    secrets = [vault.decrypt(row.secret) for row in Credentials(pool).load(shop_limit_key("", FOO))]
    assert set(secrets) == {"forgotten"}


def test_access_and_refresh_tokens_come_from_two_files(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path, token_file: Path
) -> None:
    (tmp_path / "refresh").write_text("shprt_1")
    files = ("--token-file", str(token_file), "--refresh-token-file", str(tmp_path / "refresh"))
    assert on_database(*CONNECT, *files, **APP).code == 0
    stored = tokens(pool, tmp_path, "app7")
    assert stored == {"access": SECRET, "refresh": "shprt_1"}


@pytest.fixture
def start_with_stdin(database: str, tmp_path: Path) -> Callable[..., "subprocess.Popen[str]"]:
    """Start a command with this stdin."""

    def start(*arguments: str, stdin: int) -> "subprocess.Popen[str]":
        settings = {"DATABASE_URL": database, "HEADWAY_DATA_DIR": str(tmp_path / "none")}
        return subprocess.Popen(
            [Path(sys.executable).with_name("headway"), *arguments],
            env={**os.environ, **settings},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # no terminal of its own but what stdin is
        )

    return start


def test_a_token_can_be_read_from_stdin(
    start_with_stdin: Callable[..., Any], pool: ConnectionPool, tmp_path: Path
) -> None:
    with start_with_stdin(*CONNECT, "--token-file", "-", stdin=subprocess.PIPE) as process:
        output = "".join(process.communicate(f"{SECRET}\n"))
    assert process.returncode == 0, output
    assert SECRET not in output
    assert tokens(pool, tmp_path) == {"access": SECRET}


def test_a_token_that_is_typed_is_not_echoed(
    start_with_stdin: Callable[..., Any], pool: ConnectionPool, tmp_path: Path
) -> None:
    terminal, stdin = pty.openpty()
    with start_with_stdin(*CONNECT, stdin=stdin) as process:
        prompt = process.stderr.read(len(f"Access token of {FOO}: "))
        os.write(terminal, f"{SECRET}\n".encode())
        output = "".join(process.communicate())
    echoed = os.read(terminal, 1000) if select.select([terminal], [], [], 0)[0] else b""
    os.close(stdin)
    os.close(terminal)
    assert prompt == f"Access token of {FOO}: "
    assert process.returncode == 0, output
    assert SECRET not in output
    assert SECRET.encode() not in echoed
    assert tokens(pool, tmp_path) == {"access": SECRET}


@pytest.mark.parametrize(
    ("arguments", "message"),
    (
        (("foo",), "'foo' is not a shop's address"),
        (("printify",), "which shop? headway connect SHOP --seller acme --platform printify"),
        ((FOO, "--token-file", "token", "--seller", " "), "a seller is empty"),
        ((FOO, "--client-secret-file", "-"), "needs --client-id ID"),
        ((FOO, "--client-id", "x", "--token-file", "-"), "not with both"),
        ((FOO, "--client-id", "x"), "nobody to ask: Client secret of the app of foo"),
        (("1", "--platform", "printify", "--client-id", "x"), "--client-id works only for"),
        ((FOO,), "nobody to ask: Access token of foo.myshopify.com; add --token-file"),
        ((FOO, "--token-file", "nowhere"), "nowhere: No such file"),
        ((FOO, "--token-file", "empty"), "empty holds no token"),
        ((FOO, "--token-file", "-", "--refresh-token-file", "-"), "stdin holds one token"),
        ((FOO, "--refresh-token-file", "token"), "a refresh token works only with HEADWAY_"),
        (("bar.myshopify.com", "--token-file", "token"), "bar.myshopify.com is the shop of zenith"),
    ),
)
def test_an_invalid_connection_is_refused_and_stores_no_token(
    on_database: Headway,
    pool: ConnectionPool,
    token_file: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    token_file.with_name("empty").write_text("\n")
    connect_account(pool, SellerId("zenith"), "bar.myshopify.com", now=SystemClock().now())
    error = on_database("connect", "--seller", "acme", "--no-check", *arguments).error(2)
    assert message in error
    assert SECRET not in error
    with pool.connection() as connection:
        assert connection.execute("SELECT name FROM credential").fetchall() == []
    assert [ConnectedShop.seller for ConnectedShop in ConnectedShops(pool).list()] == ["zenith"]


def test_disconnect_stores_the_reason_and_deletes_the_tokens(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path, token_file: Path
) -> None:
    files = ("--token-file", str(token_file), "--refresh-token-file", str(token_file))
    on_database(*CONNECT, *files, **APP)
    result = on_database("disconnect", "--seller", "acme", "--reason", "the shop is closed", **APP)
    assert (result.code, "tokens are forgotten" in result.out) == (0, True)
    vault = open_vault(None, tmp_path / "none")
    secrets = [
        vault.decrypt(token.secret) for token in Credentials(pool).load(shop_limit_key("app7", FOO))
    ]
    assert SECRET not in secrets
    assert tokens(pool, tmp_path, "app7") == {}
    assert on_database("shops").out.endswith(f"{FOO} is disconnected: the shop is closed\n")
    (shop,) = on_database("shops", "--json").object()
    assert (shop["status"], shop["reason"]) == ("disconnected", "the shop is closed")
    assert on_database(*CONNECT, *files, **APP).code == 0
    assert tokens(pool, tmp_path, "app7") == {"access": SECRET, "refresh": SECRET}
    message = on_database("disconnect", "--seller", "nobody").error(2)
    assert "nobody has no shop; connect one with: headway connect" in message


def test_shops_shows_status_and_locations(on_database: Headway, pool: ConnectionPool) -> None:
    assert "no shop is connected; connect one with" in on_database("shops").out
    now = SystemClock().now()
    for seller, shop in (("acme", FOO), ("zenith", "bar.myshopify.com")):
        connect_account(pool, SellerId(seller), shop, rehearses=seller == "zenith", now=now)
    places = {"Dallas Central": "1", "Chicago IL": "2", "Miami FL": "3"}
    with pool.connection() as connection:
        connection.execute(
            "UPDATE connected_accounts SET locations = %s WHERE user_id = 'acme'",
            (json.dumps(places),),
        )
    acme, zenith, waits = on_database("shops").out.splitlines()[1:]
    assert waits == "bar.myshopify.com is not written yet; see: headway rehearse zenith"
    assert "in rehearsal" in zenith
    assert acme.split()[:3] == ["acme", FOO, "connected"]
    assert "3 known, none named Goodyear AZ" in acme
    assert "not read yet" in zenith
    mapped = ",".join(f"{name}={name}" for name in places)
    assert "3 known, all mapped" in on_database("shops", HEADWAY_LOCATIONS=mapped).out
    listing = on_database("shops", "--json").object()
    assert [shop["unknown_locations"] for shop in listing] == [["Goodyear AZ"], None]
    assert listing[0]["tally"] == {"products": 0, "waiting": 0, "failing": 0, "held": 0}


def platform_tokens(pool: ConnectionPool, tmp_path: Path, limit_key: str) -> dict[str, Any]:
    """Return the valid tokens of a shop on another platform with their remaining days."""
    vault, now = open_vault(None, tmp_path / "none"), SystemClock().now()
    stored = Credentials(pool).load(LimitKey(limit_key))
    return {
        token.name: (vault.decrypt(token.secret), (token.expires_at - now).days)
        for token in stored
        if token.expires_at > now
    }


def test_a_printify_shop_is_connected_with_a_token_of_a_year_and_disconnected_again(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path, token_file: Path
) -> None:
    connect = ("connect", "77", "--seller", "acme", "--platform", "printify")
    result = on_database(*connect, "--owner", "12", "--token-file", str(token_file))
    assert (result.code, SECRET in result.out + result.err) == (0, False)
    assert "printify shop 77 is connected to acme" in result.out
    limit_key = "printify:shop:77"
    assert platform_tokens(pool, tmp_path, limit_key) == {"access": (SECRET, 364)}
    account = ConnectedShops(pool).of_seller(SellerId("acme"), PRINTIFY)
    assert (account.owner_id, account.status) == ("12", "connected")
    (shop,) = on_database("shops", "--json").object()
    assert (shop["platform"], shop["tally"], shop["counts"]["orders"]) == ("printify", None, 0)
    assert on_database("shops").out.splitlines()[1].split() == [
        "acme", "77", "connected", "printify", "0",
    ]  # fmt: skip
    disconnected = on_database("disconnect", "--seller", "acme", "--platform", "printify")
    assert (disconnected.code, platform_tokens(pool, tmp_path, limit_key)) == (0, {})
    with pool.connection() as connection:
        rows = connection.execute("SELECT DISTINCT status FROM sync_jobs").fetchall()
    assert rows == [("cancelled",)]


def test_an_etsy_shop_is_connected_with_two_tokens(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path, token_file: Path
) -> None:
    (tmp_path / "refresh").write_text("12.refresh")
    files = ("--token-file", str(token_file), "--refresh-token-file", str(tmp_path / "refresh"))
    connect = ("connect", "5", "--seller", "acme", "--platform", "etsy", *files)
    reply = on_database(*connect, "--json", HEADWAY_ETSY_KEYSTRING="key").object()
    assert (reply["platform"], reply["shop"], reply["status"]) == ("etsy", "5", "connected")
    stored = platform_tokens(pool, tmp_path, "etsy:shop:5")
    assert stored == {"access": (SECRET, 0), "refresh": ("12.refresh", 89)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    (
        (("5", "--platform", "etsy", "--token-file", "token"), "add --refresh-token-file FILE"),
        (
            ("5", "--platform", "etsy", "--token-file", "token", "--refresh-token-file", "token"),
            "work only with HEADWAY_ETSY_KEYSTRING",
        ),
        (
            ("5", "--platform", "printify", "--refresh-token-file", "token"),
            "lives a year and is not refreshed",
        ),
        (("acme", "--platform", "printify", "--token-file", "token"), "it is a number"),
        (
            ("5", "--platform", "ebay"),
            "ebay is not a platform; the platforms are shopify, etsy, printify",
        ),
    ),
)
def test_an_invalid_connection_to_another_platform_stores_no_token(
    on_database: Headway,
    pool: ConnectionPool,
    token_file: Path,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    assert token_file.exists()
    error = on_database("connect", *arguments, "--seller", "acme").error(2)
    assert message in error
    with pool.connection() as connection:
        assert connection.execute("SELECT name FROM credential").fetchall() == []
        assert connection.execute("SELECT shop FROM connected_accounts").fetchall() == []


def test_a_tier_is_shown_and_set_with_the_rest_of_the_monthly_quota(
    on_database: Headway, pool: ConnectionPool
) -> None:
    seller = SellerId("acme")
    assert "there is no seller acme" in on_database("tier", "acme").error(2)
    now = SystemClock().now()
    connect_account(pool, seller, "7", platform=ETSY, now=now)
    with pool.connection() as connection:
        connection.execute(
            "UPDATE sync_jobs SET status = 'plan_limit_reached' WHERE kind = 'orders'"
        )
    assert "acme is free: pulled every 60 min, 0 of 50 orders" in on_database("tier", "acme").out
    result = on_database("tier", "acme", "pro").out
    assert "acme is pro: pulled every 5 min, 0 of 5,000 orders of this month used" in result
    assert "2 jobs that waited for the next month go on" in result
    reply = on_database("tier", "acme", "starter", "--json").object()
    assert reply == {
        "seller": "acme", "tier": "starter", "orders_quota": 300, "orders_used": 0,
        "interval_min": 30, "lifted": 0,
    }  # fmt: skip
    assert "'gold' is not one of" in on_database("tier", "acme", "gold").error(2)
    assert "no account" not in result
    assert "acme has no shop on shopify, but on etsy; add --platform" in on_database(
        "disconnect", "--seller", "acme"
    ).error(2)
    assert "a seller is empty" in on_database("disconnect", "--seller", " ").error(2)
