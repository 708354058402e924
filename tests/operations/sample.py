"""A small deployment for operations and API: two sellers, odd part numbers, work for a person.

`acme` lists every odd part number and has a held, a parked and a refused one; `best` shares one
part with it. Nobody calls out: what a supplier or a shop would reply is written to the database.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from psycopg_pool import ConnectionPool

from headway.app import App, build
from headway.app.accounts import connect_account
from headway.config import Settings
from headway.core.access import Principal, Role
from headway.core.catalog.listings import SellerId, Sku
from headway.operations.callers import OperatorCaller, SellerCaller, operator
from headway_lab.platforms import ETSY
from headway_lab.virtual_clock import VirtualClock

ACME, BEST = SellerId("acme"), SellerId("best")
HELD, PARKED, REFUSED, SHARED = Sku("WF338109=K3"), Sku("AN 960/10L"), Sku("P-3"), Sku("SHARED")
ODD_SKUS = [
    Sku(sku) for sku in ("A=B", "A/B", "a b", "50%", "what?", "x#y", "Ünï/çødé ✈", "..", "a//b")
]
BEST_ONLY = Sku("BEST=1")
HOUR = timedelta(hours=1)
# Both sellers' Etsy shops no longer show 15 of their 20 listings.
HELD_REMOVALS = """
WITH shops AS (SELECT id, user_id, platform FROM connected_accounts WHERE platform = 'etsy'),
walks AS (
  INSERT INTO listing_walks (account_id, user_id, walks, known, missing, held_reason, held_since,
    updated_at)
  SELECT id, user_id, ARRAY['2026-01-01 06:00Z', '2026-01-01 12:00Z']::timestamptz[], 20, 15,
    '15 of 20 listings are missing at once', '2026-01-01 12:01Z', '2026-01-01 12:01Z' FROM shops)
INSERT INTO listings (account_id, user_id, platform, external_id, state, checked_at, created_at,
  updated_at)
SELECT id, user_id, platform, number::text, 'active',
  CASE WHEN number <= 15 THEN '2026-01-01 00:00Z' ELSE '2026-01-01 12:00Z' END::timestamptz,
  '2026-01-01 00:00Z', '2026-01-01 00:00Z'
FROM shops CROSS JOIN generate_series(1, 20) AS number
"""


@dataclass
class SampleDeployment:
    """The application, its clock, and a way to write rows by hand."""

    app: App
    clock: VirtualClock

    @property
    def operator(self) -> OperatorCaller:
        return operator(self.app, "tester")

    def seller(self, seller: SellerId) -> SellerCaller:
        who = Principal(id="tester", name="tester", role=Role.SELLER, seller=seller)
        return SellerCaller(self.app, who)

    def execute(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self.app.pool.connection() as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def add(self, seller: SellerId, *skus: str) -> None:
        keys = [(seller, Sku(sku)) for sku in skus]
        self.app.listings.add(keys, policy=self.app.policy, now=self.clock.now())

    def set_state(self, seller: SellerId, sku: Sku, price: str = "11.00", **columns: Any) -> None:
        """Insert what the shop shows for a listing; keywords are columns of its state."""
        state: dict[str, Any] = {"price": price, "cost": "8", "currency": "USD"}
        state |= {"compare_at": None, "quantities": {}}
        row = {"desired": state, "applied": state, "applied_at": self.clock.now(), **columns}
        values = [json.dumps(value) if isinstance(value, dict) else value for value in row.values()]
        self.execute(
            f"INSERT INTO listing_state (user_id, sku, {', '.join(row)})"
            f" VALUES (%s, %s{', %s' * len(row)})",
            *(seller, sku, *values),
        )

    def add_event(self, seller: SellerId, sku: Sku, kind: str, **columns: Any) -> None:
        """Insert one event at the time of the clock."""
        row = {"user_id": seller, "sku": sku, "event_type": kind, **columns}
        row.setdefault("sync_timestamp", self.clock.now())
        values = [json.dumps(value) if isinstance(value, dict) else value for value in row.values()]
        marks = ", ".join(["%s"] * len(row))
        self.execute(f"INSERT INTO sync_audit_log ({', '.join(row)}) VALUES ({marks})", *values)


def create_sample(
    pool: ConnectionPool, clock: VirtualClock, folder: Path, **chosen: Any
) -> SampleDeployment:
    """Create the sample deployment; keywords are settings."""
    settings = Settings(data_dir=folder, policy="rolling", etsy_day_limit=100, **chosen)
    sample = SampleDeployment(app=build(settings, clock, pool), clock=clock)
    now = clock.now()
    for number, seller in enumerate((ACME, BEST), start=1):
        connect_account(pool, seller, f"{seller}.myshopify.com", now=now)
        connect_account(pool, seller, f"10{number}", platform=ETSY, now=now)
    sample.add(ACME, HELD, PARKED, REFUSED, SHARED, *ODD_SKUS)
    sample.add(BEST, SHARED, BEST_ONLY)
    sample.set_state(
        ACME,
        HELD,
        held_reason="the price would rise by 127 %",
        held_at=now,
        proposed={"price": "25.00", "cost": "9", "currency": "USD", "compare_at": None},
        observed={"list_price": "25.00", "net_price": "9", "currency": "USD"},
    )
    sample.set_state(BEST, BEST_ONLY, held_reason="no price was quoted", held_at=now)
    sample.set_state(ACME, REFUSED, push_at=now, push_failures=2, push_error="no such location")
    sample.execute(
        "UPDATE product_sync_schedule SET is_active = false, sync_status = 'parked',"
        " consecutive_failures = 5, last_error = 'the supplier does not know it' WHERE sku = %s",
        PARKED,
    )
    sample.add_event(
        ACME, HELD, "price_changed", old_value={"price": "10"}, new_value={"price": "25"}
    )
    sample.add_event(
        BEST, BEST_ONLY, "price_changed", old_value={"price": "1"}, new_value={"price": "2"}
    )
    return sample
