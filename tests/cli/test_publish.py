"""`headway publish` as a person runs it."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import SystemClock

Headway = Callable[..., Any]
Execute = Callable[..., None]
PATIENCE_S = 60


@pytest.fixture(autouse=True)
def shop(execute: Execute) -> None:
    execute(
        "INSERT INTO connected_accounts (user_id, platform, shop) VALUES ('acme', 'shopify', 'a.b')"
    )


def ask(pool: ConnectionPool, statement: str) -> list[Any]:
    with pool.connection() as connection:
        return connection.execute(statement).fetchall()


def test_parts_are_requested_and_their_place_is_told(
    on_database: Headway, pool: ConnectionPool
) -> None:
    done = on_database("publish", "WF1=K3", "AN 960/10L", "--json", HEADWAY_SHOP_SKU="base")
    assert done.code == 0, done.err
    told = done.object()
    assert told["seller"] == "acme"
    assert told["counts"] == {"requested": 2}
    assert [each["sku"] for each in told["parts"]] == ["WF1=K3", "AN 960/10L"]
    assert {each["place"] for each in told["parts"]} == {1, 2}
    assert all(each["expected_at"] for each in told["parts"])
    assert ask(pool, "SELECT sku, shop_sku FROM product_staging ORDER BY sku") == [
        ("AN 960/10L", "AN 960/10L"),
        ("WF1=K3", "WF1"),
    ]
    shown = on_database("publish", "WF1=K3").out
    assert "in line; read at about" in shown
    assert "1 requested; batch " in shown


def test_a_part_number_may_begin_with_a_dash(on_database: Headway, pool: ConnectionPool) -> None:
    assert on_database("publish", "--", "-3", "--wait").code == 0
    assert ask(pool, "SELECT sku FROM product_staging ORDER BY sku") == [("--wait",), ("-3",)]


def test_parts_come_from_a_file_too(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path
) -> None:
    (tmp_path / "parts.txt").write_bytes(b"\xef\xbb\xbfA\r\n\r\n  B=1 \r\nA")
    assert on_database("publish", "C", "--file", "parts.txt").code == 0
    assert ask(pool, "SELECT sku FROM product_staging ORDER BY sku") == [("A",), ("B=1",), ("C",)]
    (tmp_path / "parts.txt").write_bytes(b"A\nB\xff\n")
    assert "line 2 is not UTF-8" in on_database("publish", "--file", "parts.txt").complaint(2)
    assert "cannot read none" in on_database("publish", "--file", "none").complaint(2)


def test_a_collision_is_told_by_name_and_makes_the_exit_code(on_database: Headway) -> None:
    done = on_database("publish", "A=1", "A=2", "B", HEADWAY_SHOP_SKU="base")
    assert done.code == 1
    assert "A=2 would have the same shop SKU A" in done.out
    assert "2 refused, 1 requested" in done.out


@pytest.mark.parametrize(
    ("arguments", "why"),
    (
        ((), "name a part number"),
        (("A\nB",), r"the part number 'A\nB' holds a character that cannot be printed"),
        (("A", "--seller", "zenith"), "zenith has no shop; connect a shop first: headway connect"),
        (("A", "--seller", " "), "a seller is empty"),
    ),
)
def test_what_cannot_be_asked_is_one_line(
    on_database: Headway, pool: ConnectionPool, arguments: tuple[str, ...], why: str
) -> None:
    assert why in on_database("publish", *arguments).complaint(2)
    assert ask(pool, "SELECT count(*) FROM product_staging") == [(0,)]


def test_waiting_ends_when_every_part_is_in_the_shop_or_cannot_be(
    on_database: Headway, pool: ConnectionPool
) -> None:
    def work() -> None:
        """Stand in for the headway that runs: read both, make one, block the other."""
        give_up_s = SystemClock().monotonic() + PATIENCE_S
        while ask(pool, "SELECT count(*) FROM product_staging") != [(2,)]:
            assert SystemClock().monotonic() < give_up_s, "nothing was requested"
        with pool.connection() as connection:
            connection.execute(
                "UPDATE product_staging SET status = 'published', shopify_product_id = 'gid://1'"
                " WHERE sku = 'A'"
            )
            connection.execute(
                "UPDATE product_staging SET status = 'blocked', reason = 'stocked only in Germany'"
                " WHERE sku = 'B'"
            )

    worker = threading.Thread(target=work)
    worker.start()
    done = on_database("publish", "A", "B", "--wait")
    worker.join()
    assert done.code == 1
    assert "gid://1" in done.out
    assert "stocked only in Germany" in done.out


def test_waiting_for_nobody_is_refused(here: Headway, data_dir: Path) -> None:
    said = here("publish", "A", "--wait", HEADWAY_DATA_DIR=str(data_dir)).complaint(2)
    assert "--wait needs a headway that works; start one with: headway run" in said
