"""A small deployment for operations and API: two sellers, odd part numbers, work for a person.

`acme` lists every odd part number and has a held, a parked and a refused one; `best` shares one
part with it. Nobody calls out: what a supplier or a shop would have said is written straight in.
"""

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from psycopg_pool import ConnectionPool

from headway.app import App, build
from headway.config import Settings
from headway.core.access import Principal, Role
from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import SellerId, Sku
from headway.operations.callers import OperatorCaller, SellerCaller, operator
from headway.store.accounts.connections import ConnectedShops
from headway_lab.virtual_clock import VirtualClock

ACME, BEST = SellerId("acme"), SellerId("best")
HELD, PARKED, REFUSED, SHARED = Sku("WF338109=K3"), Sku("AN 960/10L"), Sku("P-3"), Sku("SHARED")
ODD = [Sku(sku) for sku in ("A=B", "A/B", "a b", "50%", "what?", "x#y", "Ünï/çødé ✈", "..", "a//b")]
THEIRS = Sku("BEST=1")
HOUR = timedelta(hours=1)


@dataclass
class Room:
    """The application, its clock, and a way to write rows by hand."""

    app: App
    clock: VirtualClock

    @property
    def operator(self) -> OperatorCaller:
        return operator(self.app, "tester")

    def seller(self, seller: SellerId) -> SellerCaller:
        who = Principal(id="tester", name="tester", role=Role.SELLER, seller=seller)
        return SellerCaller(self.app, who)

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with self.app.pool.connection() as connection:
            cursor = connection.execute(sql, values)
            return cursor.fetchall() if cursor.description else []

    def add(self, seller: SellerId, *skus: str) -> None:
        keys = [(seller, Sku(sku)) for sku in skus]
        self.app.listings.add(keys, policy=self.app.policy, now=self.clock.now())

    def show(self, seller: SellerId, sku: Sku, price: str = "11.00", **columns: Any) -> None:
        """Write down what the shop of a listing shows; keywords are columns of its state."""
        shown = {"price": price, "cost": "8", "currency": "USD", "compare_at": None}
        row = {"desired": shown, "applied": shown, "applied_at": self.clock.now(), **columns}
        values = [json.dumps(each) if isinstance(each, dict) else each for each in row.values()]
        self.ask(
            f"INSERT INTO listing_state (user_id, sku, {', '.join(row)})"
            f" VALUES (%s, %s{', %s' * len(row)})",
            *(seller, sku, *values),
        )

    def event(self, seller: SellerId, sku: Sku, kind: str, **columns: Any) -> None:
        """Write one event, as old as the clock says."""
        row = {"user_id": seller, "sku": sku, "event_type": kind, **columns}
        row.setdefault("sync_timestamp", self.clock.now())
        values = [json.dumps(each) if isinstance(each, dict) else each for each in row.values()]
        marks = ", ".join(["%s"] * len(row))
        self.ask(f"INSERT INTO sync_audit_log ({', '.join(row)}) VALUES ({marks})", *values)


def furnish(pool: ConnectionPool, clock: VirtualClock, folder: Path, **chosen: Any) -> Room:
    """Make the room; keywords are settings."""
    settings = Settings(data_dir=folder, policy="rolling", etsy_day_limit=100, **chosen)
    room = Room(app=build(settings, clock, pool), clock=clock)
    now = clock.now()
    for number, seller in enumerate((ACME, BEST), start=1):
        ConnectedShops(pool).connect(seller, f"{seller}.myshopify.com", now=now)
        ConnectedShops(pool).connect(seller, f"10{number}", platform=PlatformName.ETSY, now=now)
    room.add(ACME, HELD, PARKED, REFUSED, SHARED, *ODD)
    room.add(BEST, SHARED, THEIRS)
    room.show(
        ACME,
        HELD,
        held_reason="the price would rise by 127 %",
        held_at=now,
        proposed={"price": "25.00", "cost": "9", "currency": "USD", "compare_at": None},
        observed={"list_price": "25.00", "net_price": "9", "currency": "USD"},
    )
    room.show(BEST, THEIRS, held_reason="no price was quoted", held_at=now)
    room.show(ACME, REFUSED, push_at=now, push_failures=2, push_error="no such location")
    room.ask(
        "UPDATE product_sync_schedule SET is_active = false, sync_status = 'parked',"
        " consecutive_failures = 5, last_error = 'the supplier does not know it' WHERE sku = %s",
        PARKED,
    )
    room.event(ACME, HELD, "price_changed", old_value={"price": "10"}, new_value={"price": "25"})
    room.event(BEST, THEIRS, "price_changed", old_value={"price": "1"}, new_value={"price": "2"})
    return room
