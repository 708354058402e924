"""The command publish."""

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


def query(pool: ConnectionPool, statement: str) -> list[Any]:
    with pool.connection() as connection:
        return connection.execute(statement).fetchall()


def test_parts_are_requested_and_their_places_are_reported(
    on_database: Headway, pool: ConnectionPool
) -> None:
    result = on_database("publish", "WF1=K3", "AN 960/10L", "--json", HEADWAY_SHOP_SKU="base")
    assert result.code == 0, result.err
    batch = result.object()
    assert batch["seller"] == "acme"
    assert batch["counts"] == {"requested": 2}
    assert [part["sku"] for part in batch["parts"]] == ["WF1=K3", "AN 960/10L"]
    assert {part["place"] for part in batch["parts"]} == {1, 2}
    assert all(part["expected_at"] for part in batch["parts"])
    assert query(pool, "SELECT sku, shop_sku FROM product_staging ORDER BY sku") == [
        ("AN 960/10L", "AN 960/10L"),
        ("WF1=K3", "WF1"),
    ]
    output = on_database("publish", "WF1=K3").out
    assert "in the queue; read at about" in output
    assert "1 requested; batch " in output


def test_a_part_number_may_begin_with_a_dash(on_database: Headway, pool: ConnectionPool) -> None:
    assert on_database("publish", "--", "-3", "--wait").code == 0
    assert query(pool, "SELECT sku FROM product_staging ORDER BY sku") == [("--wait",), ("-3",)]


def test_parts_come_from_a_file_too(
    on_database: Headway, pool: ConnectionPool, tmp_path: Path
) -> None:
    (tmp_path / "parts.txt").write_bytes(b"\xef\xbb\xbfA\r\n\r\n  B=1 \r\nA")
    assert on_database("publish", "C", "--file", "parts.txt").code == 0
    assert query(pool, "SELECT sku FROM product_staging ORDER BY sku") == [("A",), ("B=1",), ("C",)]
    (tmp_path / "parts.txt").write_bytes(b"A\nB\xff\n")
    assert "line 2 is not UTF-8" in on_database("publish", "--file", "parts.txt").error(2)
    assert "cannot read none" in on_database("publish", "--file", "none").error(2)


def test_a_sku_collision_is_reported_and_sets_the_exit_code(on_database: Headway) -> None:
    result = on_database("publish", "A=1", "A=2", "B", HEADWAY_SHOP_SKU="base")
    assert result.code == 1
    assert "A=2 would have the same shop SKU A" in result.out
    assert "2 refused, 1 requested" in result.out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    (
        ((), "name a part number"),
        (("A\nB",), r"the part number 'A\nB' holds a character that cannot be printed"),
        (("A", "--seller", "zenith"), "zenith has no shop; connect a shop first: headway connect"),
        (("A", "--seller", " "), "a seller is empty"),
    ),
)
def test_an_invalid_request_is_refused(
    on_database: Headway, pool: ConnectionPool, arguments: tuple[str, ...], reason: str
) -> None:
    assert reason in on_database("publish", *arguments).error(2)
    assert query(pool, "SELECT count(*) FROM product_staging") == [(0,)]


def test_waiting_ends_when_every_part_is_published_or_blocked(
    on_database: Headway, pool: ConnectionPool
) -> None:
    def work() -> None:
        """Act as the running headway: publish one part, block the other."""
        give_up_s = SystemClock().monotonic() + PATIENCE_S
        while query(pool, "SELECT count(*) FROM product_staging") != [(2,)]:
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
    result = on_database("publish", "A", "B", "--wait")
    worker.join()
    assert result.code == 1
    assert "gid://1" in result.out
    assert "stocked only in Germany" in result.out


def test_waiting_ends_early_for_a_part_that_the_supplier_does_not_know(
    on_database: Headway, pool: ConnectionPool
) -> None:
    def work() -> None:
        """Act as the running headway: the part is not in the supplier's reply."""
        give_up_s = SystemClock().monotonic() + PATIENCE_S
        while query(pool, "SELECT count(*) FROM product_staging") != [(1,)]:
            assert SystemClock().monotonic() < give_up_s, "nothing was requested"
        with pool.connection() as connection:
            connection.execute(
                "UPDATE product_sync_schedule SET priority = 'retry', sync_status = 'failed',"
                " last_error = 'the supplier does not know it', consecutive_failures = 1,"
                " next_sync_at = next_sync_at + interval '2 h'"
            )

    worker = threading.Thread(target=work)
    worker.start()
    result = on_database("publish", "A", "--wait")
    worker.join()
    assert result.code == 1
    assert "the supplier does not know it" in result.out
    assert "stopped waiting" not in result.err


def test_waiting_says_what_it_waits_for_and_has_a_limit(on_database: Headway) -> None:
    result = on_database("publish", "A", "--wait", "--wait-max", "0.02")
    assert result.code == 1
    assert "waiting for 1 of 1; A: requested; number 1 in the queue" in result.err
    assert "stopped waiting after 0.02 min" in result.err


def test_waiting_without_a_running_headway_is_refused(
    headway_in_process: Headway, data_dir: Path
) -> None:
    message = headway_in_process("publish", "A", "--wait", HEADWAY_DATA_DIR=str(data_dir)).error(2)
    assert "--wait needs a running Headway; start it with: headway run" in message
