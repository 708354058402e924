"""`headway history --export`: a live shop's past as the world of a simulation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from psycopg_pool import ConnectionPool

from headway_lab.simulation.changes import read_changes

EVENTS = """
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, new_value, created_at)
SELECT seller, sku, '2026-03-01T00:00Z'::timestamptz + minute * interval '1 minute', kind,
  new::jsonb, now()
FROM jsonb_to_recordset(%s::jsonb)
  AS event(seller text, sku text, minute float, kind text, new jsonb)
"""
READ = {"list_price": "10.00", "net_price": "8", "quantities": {"Dallas": 3, "Miami": 2}}


def event(sku: str, minute: float, kind: str, seller: str = "acme", **new: Any) -> dict[str, Any]:
    return {"seller": seller, "sku": sku, "minute": minute, "kind": kind, "new": new}


def test_the_export_of_a_shop_is_a_world_that_can_be_simulated(
    on_database: Callable[..., Any], pool: ConnectionPool, tmp_path: Path
) -> None:
    events = [
        event("A", 0, "part_imported", family="Bolts"),
        event("A", 0, "first_observed", **READ),
        event("A", 0, "first_observed", seller="zenith", **READ),
        event("A", 5, "cost_changed", net_price="9"),
        event("A", 60, "price_changed", list_price="12.5"),
        event("B", 30, "first_observed", **READ),
        event("B", 90, "quantity_changed", quantities={"Dallas": 0, "Miami": 0}),
        event("C", 30, "not_listed"),
    ]
    with pool.connection() as connection:
        connection.execute(EVENTS, (json.dumps(events),))
    result = on_database("history", "--export", "shop.csv", "--json")
    assert result.object() == {"file": "shop.csv", "parts": 2, "changes": 2}
    world = read_changes(tmp_path / "shop.csv")
    assert {sku: (part.list_price, part.family) for sku, part in world.start.items()} == {
        "A": (10, "Bolts"),
        "B": (10, ""),
    }
    assert [
        (change.at_s / 60, change.part.sku, change.part.list_price, sum(change.part.stock.values()))
        for change in world.changes
    ] == [(60, "A", 12.5, 5), (90, "B", 10, 0)]
    assert "2 parts and 2 changes" in on_database("history", "--export", "shop.csv").out


def test_nothing_is_written_where_nothing_was_read(
    on_database: Callable[..., Any], tmp_path: Path
) -> None:
    assert "no price was read yet" in on_database("history", "--export", "x.csv").error(2)
    assert "name a part, or a file" in on_database("history").error(2)
    assert not (tmp_path / "x.csv").exists()
