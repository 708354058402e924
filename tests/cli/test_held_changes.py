"""The commands hold, approve, reject, rollback and revive."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.clock import SystemClock
from headway.core.catalog.listings import SellerId, Sku
from headway.core.timetable.policies import by_name
from headway.store.catalog.listings import Listings

Headway = Callable[..., Any]
Execute = Callable[..., None]
Put = Callable[..., None]
HOUR = timedelta(hours=1)
NOW = SystemClock().now()
PRICES = """
SELECT user_id, sku, desired ->> 'price', held_reason FROM listing_state ORDER BY user_id, sku
"""


def state_json(price: str, **more: Any) -> str:
    state = {"price": price, "cost": "8", "currency": "USD", "compare_at": None}
    return json.dumps(state | {"quantities": {"Miami": 5}} | more)


@pytest.fixture
def put(pool: ConnectionPool, execute: Execute) -> Put:
    """Add a listing at 11.00; with a reason, its change to a proposed price (or none) is held."""

    def enter(
        seller: str, sku: str, reason: str | None = None, proposed: str | None = None
    ) -> None:
        keys = [(SellerId(seller), Sku(sku))]
        Listings(pool).add(keys, policy=by_name("rolling"), now=NOW)
        execute(
            "INSERT INTO listing_state (user_id, sku, desired, desired_version, held_reason,"
            " held_at, proposed) VALUES (%s, %s, %s, 1, %s, %s, %s)",
            *(
                seller,
                sku,
                state_json("11.00"),
                reason,
                reason and NOW,
                proposed and state_json(proposed),
            ),
        )

    return enter


@pytest.fixture
def prices(pool: ConnectionPool) -> Callable[[], list[tuple[Any, ...]]]:
    def read() -> list[tuple[Any, ...]]:
        with pool.connection() as connection:
            return connection.execute(PRICES).fetchall()

    return read


def add_write(execute: Execute, sku: str, at: datetime, old: str, new: str) -> None:
    execute(
        "INSERT INTO sync_audit_log"
        " (user_id, sku, sync_timestamp, event_type, old_value, new_value)"
        " VALUES ('acme', %s, %s, 'shopify_updated', %s, %s)",
        *(sku, at, state_json(old), state_json(new)),
    )


def test_held_lists_changes_with_old_price_new_price_and_reason(
    on_database: Headway, put: Put
) -> None:
    put("acme", "P1", "rises by 127 %", "25.00")
    put("zenith", "P2", "no price was quoted")
    output = on_database("held").out
    assert "11.00 to 25.00  rises by 127 %" in output
    assert "no price was quoted; cannot be approved" in output
    page = on_database("held", "--seller", "zenith", "--json").object()
    assert [change["sku"] for change in page["held"]] == ["P2"]
    assert page["has_more"] is False
    assert "headway held --limit 10" in on_database("held", "--limit", "1").out
    assert on_database("hold").out == output  # its old name


@pytest.mark.parametrize(
    "command",
    (
        ("held",), ("approve", "--all", "--reason", "why"), ("revive", "--all"),
        ("rollback", "--since", "2h", "--to", "2h", "--yes"),
    ),
)  # fmt: skip
def test_a_misspelled_seller_is_an_error(
    on_database: Headway, put: Put, command: tuple[str, ...]
) -> None:
    put("acme", "P1", "rises by 127 %", "25.00")
    message = on_database(*command, "--seller", "acmee").error(2)
    assert message == "headway: there is no seller acmee; did you mean acme?"
    assert "see: headway shops" in on_database(*command, "--seller", "zzz").error(2)


def test_approve_reports_each_part_and_fails_if_one_was_not_approved(
    on_database: Headway, put: Put, prices: Callable[[], Any]
) -> None:
    put("acme", "P1", "rises", "25.00")
    put("acme", "P2")
    result = on_database("approve", "P1", "P2", "--reason", "checked", "--json")
    assert result.code == 1
    reply = result.object()
    assert [(listing["sku"], listing["message"]) for listing in reply["listings"]] == [
        ("P1", "approved"), ("P2", "nothing is held"),
    ]  # fmt: skip
    assert (reply["done"], reply["left"]) == (1, 1)
    assert prices() == [("acme", "P1", "25.00", None), ("acme", "P2", "11.00", None)]
    again = on_database("approve", "P1")
    assert (again.code, "nothing is held" in again.out) == (1, True)


def test_a_part_of_several_sellers_needs_the_seller(
    on_database: Headway, put: Put, prices: Callable[[], Any]
) -> None:
    put("acme", "P1", "rises", "25.00")
    put("zenith", "P1", "rises", "26.00")
    put("zenith", "P2", "rises", "27.00")
    message = on_database("approve", "P2", "P1").error(2)
    assert message == "headway: P1 is listed by acme, zenith; say whose: name the seller (--seller)"
    message = on_database("reject", "P2", "--seller", "acme").error(2)
    assert message == "headway: acme does not list P2; it is listed by zenith"
    message = on_database("revive", "P22").error(2)
    assert message == "headway: no listing has the part number P22; did you mean P2?"
    assert on_database("approve", "P1", "--seller", "zenith").code == 0
    assert on_database("approve", "P2").code == 0
    assert [row[2] for row in prices()] == ["11.00", "26.00", "27.00"]


def test_approve_all_needs_a_reason_and_counts(
    on_database: Headway, put: Put, prices: Callable[[], Any]
) -> None:
    put("acme", "P1", "rises", "25.00")
    put("acme", "P2", "no price was quoted")
    put("zenith", "P1", "rises", "26.00")
    assert "--all needs a reason" in on_database("approve", "--all").error(2)
    assert "not both" in on_database("approve", "P1", "--all", "--reason", "x").error(2)
    assert "not both" in on_database("approve").error(2)
    result = on_database("approve", "--all", "--reason", "new list", "--seller", "acme")
    assert result.code == 0
    assert result.out.startswith("1 approved\n1 left: cannot be approved (no price was quoted)")
    assert [row[2] for row in prices()] == ["25.00", "11.00", "11.00"]
    reply = on_database("approve", "--all", "--reason", "new list", "--json").object()
    assert reply["approved"] == 1
    assert list(reply["left"].values()) == [1]


def test_reject_keeps_the_price(on_database: Headway, put: Put, prices: Callable[[], Any]) -> None:
    put("acme", "P1", "rises", "25.00")
    result = on_database("reject", "P1", "--reason", "a typing error")
    assert (result.code, "rejected" in result.out) == (0, True)
    assert prices() == [("acme", "P1", "11.00", None)]


@pytest.mark.parametrize(
    ("to", "price"),
    (
        ("30h", "9.00"),
        ("30 h ago", "9.00"),
        (f"{NOW - 15 * HOUR:%Y-%m-%dT%H:%M:%S}", "10.00"),
        ((NOW - 30 * HOUR).isoformat(), "9.00"),
        ("900min", "10.00"),
    ),
    # Two processes that collect tests at different times must use the same ids.
    ids=("hours", "words", "instant", "instant with zone", "minutes"),
)
def test_a_rollback_accepts_every_format_of_a_time(
    on_database: Headway, put: Put, execute: Execute, to: str, price: str
) -> None:
    put("acme", "P1")
    add_write(execute, "P1", NOW - 20 * HOUR, "9.00", "10.00")
    add_write(execute, "P1", NOW - 10 * HOUR, "10.00", "11.00")
    trial = on_database("rollback", "P1", "--to", to, "--dry-run")
    assert f"11.00 to {price}" in trial.out
    assert "would be rolled back" in trial.out
    (listing,) = on_database("rollback", "P1", "--to", to, "--json").object()["listings"]
    assert listing["new"]["price"] == price


@pytest.mark.parametrize(
    ("arguments", "message"),
    (
        (("P1", "--to", "last tuesday"), "--to: 'last tuesday' is not a time; write 2026-03-04"),
        (("P1", "--to", "2999-01-01"), "--to: 2999-01-01 has not come yet"),
        (("--to", "2h"), "name parts, or --since"),
        (("P1", "--since", "2h", "--to", "2h"), "name parts, or --since"),
        (("--since", "2h", "--to", "2h"), "since needs a seller"),
        (("P1",), "--to"),
    ),
)
def test_an_invalid_rollback_is_refused(
    on_database: Headway, put: Put, arguments: tuple[str, ...], message: str
) -> None:
    put("acme", "P1")
    assert message in on_database("rollback", *arguments).error(2)


def test_a_batch_rollback_needs_confirmation_and_has_a_dry_run(
    on_database: Headway, put: Put, execute: Execute, prices: Callable[[], Any]
) -> None:
    put("acme", "P1")
    put("acme", "P2")
    add_write(execute, "P1", NOW - HOUR, "10.00", "11.00")
    batch = ("rollback", "--since", "2h", "--to", "2h", "--seller", "acme")
    assert "there is nobody to ask" in on_database(*batch).error(2)
    trial = on_database(*batch, "--dry-run", "--json").object()
    assert [listing["sku"] for listing in trial["listings"]] == ["P1"]
    assert [row[2] for row in prices()] == ["11.00", "11.00"]
    assert on_database(*batch, "--yes").code == 0
    assert [row[2] for row in prices()] == ["10.00", "11.00"]


def test_revive_restarts_parked_parts_and_reports_the_others(
    on_database: Headway, put: Put, execute: Execute
) -> None:
    for sku in ("P1", "P2", "P3"):
        put("acme", sku)
    park = "UPDATE product_sync_schedule SET sync_status = 'parked', is_active = false"
    execute(f"{park} WHERE sku <> 'P3'")
    result = on_database("revive", "P1", "P3", "--json")
    assert result.code == 1
    assert [listing["message"] for listing in result.object()["listings"]] == [
        "revived",
        "not parked",
    ]
    (listing,) = on_database("revive", "--all", "--json").object()["listings"]
    assert listing["sku"] == "P2"
    assert on_database("revive", "--all").out == "there is nothing to do\n"
    (explained,) = on_database("explain", "P1", "--json").object()["listings"]
    assert explained["priority"] == "manual"
