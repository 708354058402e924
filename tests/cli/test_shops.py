"""connect, disconnect, shops and terms as a person types them; no token is ever shown."""

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

from headway.clock import SystemClock
from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import LimitKey, SellerId
from headway.providers.shopify.storefront import shop_limit_key
from headway.providers.vault import open_vault
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.credentials import Credentials
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import serve

Headway = Callable[..., Any]
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
    """Return the tokens of the shop that are alive, as a connector would read them."""
    vault, now = open_vault(None, tmp_path / "none"), SystemClock().now()
    stored = Credentials(pool).load(shop_limit_key(client_id, FOO))
    return {each.name: vault.decrypt(each.secret) for each in stored if each.expires_at > now}


def test_connect_keeps_the_token_encrypted_and_shows_it_nowhere(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path, token_file: Path
) -> None:
    url = "https://Foo.myshopify.com/admin"
    done = on_database(
        "connect", url, "--seller", "acme", "--no-check", "--token-file", str(token_file)
    )
    assert done.code == 0
    assert "it tells its locations, and whether the token is good, when headway runs" in done.out
    assert SECRET not in done.out + done.err
    assert tokens(pool, tmp_path) == {"access": SECRET}
    with pool.connection() as connection:
        rows = connection.execute("SELECT secret FROM credential").fetchall()
    assert SECRET.encode() not in bytes(rows[0][0])
    told = on_database(*CONNECT, "--token-file", str(token_file), "--json")
    assert (told.object()["shop"], told.object()["status"]) == (FOO, "connected")
    assert SECRET not in told.out


def test_connect_asks_the_shop_for_its_locations_and_says_what_is_missing(
    on_database: Headway, token_file: Path
) -> None:
    clock = SystemClock()
    setup = ShopSetup(domain=FOO, locations=("Miami FL", "Attic"), access_token=SECRET)
    simulator = ShopifySimulator(clock, shops=[setup], delay_s=(0, 0))
    connect = ("connect", FOO, "--seller", "acme", "--token-file", str(token_file))
    with serve(simulator.handle, clock) as server:
        url = {"HEADWAY_SHOPIFY_URL": server.url + "/{shop}"}
        done = on_database(*connect, **url)
        assert (done.code, simulator.calls["locations"]) == (0, 1)
        assert "2 known, none named Chicago IL, Dallas Central, Goodyear AZ" in done.out
        simulator.tokens(FOO).revoke()
        refused = on_database(*connect, **url)
    assert refused.code == 1
    assert "connect the shop again" in refused.out
    assert SECRET not in done.out + refused.out + refused.err


def test_tokens_that_rotate_come_from_two_files(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path, token_file: Path
) -> None:
    (tmp_path / "refresh").write_text("shprt_1")
    files = ("--token-file", str(token_file), "--refresh-token-file", str(tmp_path / "refresh"))
    assert on_database(*CONNECT, *files, **APP).code == 0
    kept = tokens(pool, tmp_path, "app7")
    assert kept == {"access": SECRET, "refresh": "shprt_1"}


@pytest.fixture
def started(database: str, tmp_path: Path) -> Callable[..., "subprocess.Popen[str]"]:
    """Start a command whose stdin is given."""

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


def test_a_token_may_come_from_stdin(
    started: Callable[..., Any], pool: ConnectionPool, tmp_path: Path
) -> None:
    with started(*CONNECT, "--token-file", "-", stdin=subprocess.PIPE) as running:
        said = "".join(running.communicate(f"{SECRET}\n"))
    assert running.returncode == 0, said
    assert SECRET not in said
    assert tokens(pool, tmp_path) == {"access": SECRET}


def test_a_token_that_is_typed_is_not_echoed(
    started: Callable[..., Any], pool: ConnectionPool, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    with started(*CONNECT, stdin=theirs) as running:
        prompt = running.stderr.read(len(f"Access token of {FOO}: "))
        os.write(ours, f"{SECRET}\n".encode())
        said = "".join(running.communicate())
    echoed = os.read(ours, 1000) if select.select([ours], [], [], 0)[0] else b""
    os.close(theirs)
    os.close(ours)
    assert prompt == f"Access token of {FOO}: "
    assert running.returncode == 0, said
    assert SECRET not in said
    assert SECRET.encode() not in echoed
    assert tokens(pool, tmp_path) == {"access": SECRET}


@pytest.mark.parametrize(
    ("arguments", "said"),
    (
        (("foo",), "'foo' is not a shop's address"),
        (("printify",), "which shop? headway connect SHOP --seller acme --platform printify"),
        ((FOO, "--token-file", "token", "--seller", " "), "a seller is empty"),
        ((FOO,), "nobody to ask for the access token; add --token-file"),
        ((FOO, "--token-file", "nowhere"), "nowhere: No such file"),
        ((FOO, "--token-file", "empty"), "empty holds no token"),
        ((FOO, "--token-file", "-", "--refresh-token-file", "-"), "stdin holds one token"),
        ((FOO, "--refresh-token-file", "token"), "a refresh token works only with HEADWAY_"),
        (("bar.myshopify.com", "--token-file", "token"), "bar.myshopify.com is the shop of zenith"),
    ),
)
def test_what_cannot_be_connected_is_refused_in_one_line_and_keeps_no_token(
    on_database: Headway,
    pool: ConnectionPool,
    token_file: Path,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    token_file.with_name("empty").write_text("\n")
    ConnectedShops(pool).connect(SellerId("zenith"), "bar.myshopify.com", now=SystemClock().now())
    complaint = on_database("connect", "--seller", "acme", "--no-check", *arguments).complaint(2)
    assert said in complaint
    assert SECRET not in complaint
    with pool.connection() as connection:
        assert connection.execute("SELECT name FROM credential").fetchall() == []
    assert [each.user_id for each in ConnectedShops(pool).list()] == ["zenith"]


def test_disconnect_says_why_and_forgets_the_tokens(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path, token_file: Path
) -> None:
    files = ("--token-file", str(token_file), "--refresh-token-file", str(token_file))
    on_database(*CONNECT, *files, **APP)
    done = on_database("disconnect", "--seller", "acme", "--reason", "the shop is closed", **APP)
    assert (done.code, "tokens are forgotten" in done.out) == (0, True)
    vault = open_vault(None, tmp_path / "none")
    kept = [
        vault.decrypt(each.secret) for each in Credentials(pool).load(shop_limit_key("app7", FOO))
    ]
    assert SECRET not in kept
    assert tokens(pool, tmp_path, "app7") == {}
    assert on_database("shops").out.endswith(f"{FOO} is disconnected: the shop is closed\n")
    (shop,) = on_database("shops", "--json").object()
    assert (shop["status"], shop["reason"]) == ("disconnected", "the shop is closed")
    assert on_database(*CONNECT, *files, **APP).code == 0
    assert tokens(pool, tmp_path, "app7") == {"access": SECRET, "refresh": SECRET}
    said = on_database("disconnect", "--seller", "nobody").complaint(2)
    assert "nobody has no shop; connect one with: headway connect" in said


def test_shops_shows_what_is_known_and_what_waits(
    on_database: Headway, pool: ConnectionPool
) -> None:
    assert "no shop is connected; connect one with" in on_database("shops").out
    now = SystemClock().now()
    for seller, shop in (("acme", FOO), ("zenith", "bar.myshopify.com")):
        ConnectedShops(pool).connect(SellerId(seller), shop, now=now)
    places = {"Dallas Central": "1", "Chicago IL": "2", "Miami FL": "3"}
    with pool.connection() as connection:
        connection.execute(
            "UPDATE connected_accounts SET locations = %s WHERE user_id = 'acme'",
            (json.dumps(places),),
        )
    acme, zenith = on_database("shops").out.splitlines()[1:]
    assert acme.split()[:3] == ["acme", FOO, "connected"]
    assert "3 known, none named Goodyear AZ" in acme
    assert "not read yet" in zenith
    mapped = ",".join(f"{name}={name}" for name in places)
    assert "3 known, all mapped" in on_database("shops", HEADWAY_LOCATIONS=mapped).out
    told = on_database("shops", "--json").object()
    assert [each["unknown_locations"] for each in told] == [["Goodyear AZ"], None]
    assert told[0]["tally"] == {"products": 0, "waiting": 0, "failing": 0, "held": 0}


def test_terms_are_the_deployments_until_a_seller_sets_its_own(on_database: Headway) -> None:
    assert "10 %   the deployment's" in on_database("terms", "acme").out
    changed = on_database(
        "terms", "acme", "--basis", "net", "--markup", "12.5%", "--rounding", "99"
    )
    assert "12.5 %  acme's own" in changed.out
    assert "new terms act at each part's next read" in changed.out
    on_database("terms", "acme", "--guard-share", "0.5", "--min-margin", "-5%")
    told = on_database("terms", "acme", "--json", HEADWAY_GUARD_MOVE="0.7").object()
    assert told["terms"] == {
        "price_basis": "net", "markup": "0.125", "rounding": "99", "margin_min": "-0.05",
        "compare_at": "none", "guard_move": "0.7", "guard_share": "0.5",
    }  # fmt: skip
    assert told["own"] == ["price_basis", "markup", "rounding", "margin_min", "guard_share"]
    assert on_database("terms", "zenith", "--json").object()["own"] == []
    on_database("terms", "acme", "--reset", "--compare-at", "list")
    assert on_database("terms", "acme", "--json").object()["own"] == ["compare_at"]
    assert on_database("terms", "--json").object()["terms"]["markup"] == "0.10"


@pytest.mark.parametrize(
    ("arguments", "said"),
    (
        (("--markup", "12%"), "say whose terms: headway terms SELLER"),
        (("acme", "--markup", "12"), "--markup: write 12% if that is meant"),
        (("acme", "--markup", "much"), "--markup: 'much' is no share; write 12% or 0.12"),
        (("acme", "--min-margin", "nan"), "--min-margin: 'nan' is no share"),
        (("acme", "--guard-share", "150%"), "guard_share must be a number from 0 to 1"),
        (("acme", "--rounding", "up"), "'up' is not one of 'cent', 'whole', '99'"),
    ),
)
def test_terms_that_make_no_sense_are_refused(
    on_database: Headway, arguments: tuple[str, ...], said: str
) -> None:
    assert said in on_database("terms", *arguments).complaint(2)
    assert on_database("terms", "acme", "--json").object()["own"] == []


def platform_tokens(pool: ConnectionPool, tmp_path: Path, limit_key: str) -> dict[str, Any]:
    """Return the tokens of a shop elsewhere that are alive, with their last day."""
    vault, now = open_vault(None, tmp_path / "none"), SystemClock().now()
    stored = Credentials(pool).load(LimitKey(limit_key))
    return {
        each.name: (vault.decrypt(each.secret), (each.expires_at - now).days)
        for each in stored
        if each.expires_at > now
    }


def test_a_printify_shop_is_connected_with_a_token_of_a_year_and_disconnected_again(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path, token_file: Path
) -> None:
    connect = ("connect", "77", "--seller", "acme", "--platform", "printify")
    done = on_database(*connect, "--owner", "12", "--token-file", str(token_file))
    assert (done.code, SECRET in done.out + done.err) == (0, False)
    assert "printify shop 77 is connected to acme" in done.out
    limit_key = "printify:shop:77"
    assert platform_tokens(pool, tmp_path, limit_key) == {"access": (SECRET, 364)}
    account = ConnectedShops(pool).of_seller(SellerId("acme"), PlatformName.PRINTIFY)
    assert (account.owner_id, account.status) == ("12", "connected")
    (shop,) = on_database("shops", "--json").object()
    assert (shop["platform"], shop["tally"], shop["counts"]["orders"]) == ("printify", None, 0)
    assert on_database("shops").out.splitlines()[1].split() == [
        "acme", "77", "connected", "printify", "0",
    ]  # fmt: skip
    gone = on_database("disconnect", "--seller", "acme", "--platform", "printify")
    assert (gone.code, platform_tokens(pool, tmp_path, limit_key)) == (0, {})
    with pool.connection() as connection:
        rows = connection.execute("SELECT DISTINCT status FROM sync_jobs").fetchall()
    assert rows == [("cancelled",)]


def test_an_etsy_shop_is_connected_with_two_tokens(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path, token_file: Path
) -> None:
    (tmp_path / "refresh").write_text("12.refresh")
    files = ("--token-file", str(token_file), "--refresh-token-file", str(tmp_path / "refresh"))
    connect = ("connect", "5", "--seller", "acme", "--platform", "etsy", *files)
    told = on_database(*connect, "--json", HEADWAY_ETSY_KEYSTRING="key").object()
    assert (told["platform"], told["shop"], told["status"]) == ("etsy", "5", "connected")
    kept = platform_tokens(pool, tmp_path, "etsy:shop:5")
    assert kept == {"access": (SECRET, 0), "refresh": ("12.refresh", 89)}


@pytest.mark.parametrize(
    ("arguments", "said"),
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
        (("5", "--platform", "ebay"), "'ebay' is not one of 'shopify', 'etsy', 'printify'"),
    ),
)
def test_a_shop_elsewhere_that_cannot_be_connected_keeps_no_token(
    on_database: Headway,
    pool: ConnectionPool,
    token_file: Path,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    assert token_file.exists()
    complaint = on_database("connect", *arguments, "--seller", "acme").complaint(2)
    assert said in complaint
    with pool.connection() as connection:
        assert connection.execute("SELECT name FROM credential").fetchall() == []
        assert connection.execute("SELECT shop FROM connected_accounts").fetchall() == []


def test_a_tier_is_shown_and_set_with_what_is_left_of_the_month(
    on_database: Headway, pool: ConnectionPool
) -> None:
    seller = SellerId("acme")
    assert "there is no seller acme" in on_database("tier", "acme").complaint(2)
    now = SystemClock().now()
    ConnectedShops(pool).connect(seller, "7", platform=PlatformName.ETSY, now=now)
    with pool.connection() as connection:
        connection.execute(
            "UPDATE sync_jobs SET status = 'plan_limit_reached' WHERE kind = 'orders'"
        )
    assert "acme is free: pulled every 60 min, 0 of 50 orders" in on_database("tier", "acme").out
    done = on_database("tier", "acme", "pro").out
    assert "acme is pro: pulled every 5 min, 0 of 5,000 orders of this month used" in done
    assert "2 jobs that waited for the next month go on" in done
    told = on_database("tier", "acme", "starter", "--json").object()
    assert told == {
        "seller": "acme", "tier": "starter", "orders_quota": 300, "orders_used": 0,
        "interval_min": 30, "lifted": 0,
    }  # fmt: skip
    assert "'gold' is not one of" in on_database("tier", "acme", "gold").complaint(2)
    assert "no account" not in done
    assert "acme has no shop on shopify, but on etsy; add --platform" in on_database(
        "disconnect", "--seller", "acme"
    ).complaint(2)
    assert "a seller is empty" in on_database("disconnect", "--seller", " ").complaint(2)
    assert "no account of acem is connected" in on_database("tier", "acem", "pro").out
