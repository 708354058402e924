"""The desk of a server: the same looks and verbs as the desk here, asked over its API.

Answers are read back into the very dataclasses that a desk returns, so that whoever prints them
cannot tell the two apart. What is refused there is refused here, in the same words.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.cli.remote_access import RemoteAccess
from headway.cli.remote_lane import RemoteLane
from headway.cli.remote_requests import ApiRequests, word
from headway.cli.remote_runs import RemoteRuns
from headway.cli.remote_shops import RemoteShops
from headway.cli.remote_suppliers import RemoteSuppliers
from headway.cli.server_api import HeadwayApi
from headway.core.catalog.listings import SellerId, Sku, SupplierName
from headway.core.monitoring.alerts import Alert
from headway.core.pauses import Pause, PauseKind
from headway.errors import StoreError
from headway.operations.answers import ListingExplanation, PublishBatch
from headway.operations.limits import LimitView
from headway.store.catalog.history import HistoryEvent, HistoryPage
from headway.store.catalog.product_list import ProductPage, ProductState, ProductView
from headway.store.catalog.review import HeldChange, Ruling
from headway.store.limits.ledger import LedgerEntry
from headway.store.pauses import Resumed
from headway.store.status import Overview, RecentCall
from headway.store.timetable.slots import MovedSlot, RequestedSlot
from headway.web.audit import STOPPED

SYNC, LIMITS, PUBLISH = "/api/sync", "/api/limits", "/api/bulk-publish"


class RemoteOperations:
    """What one key may see and do at a server, divided as the desk here is."""

    def __init__(self, api: HeadwayApi) -> None:
        self._asking = ApiRequests(api)
        self.lane = RemoteLane(self._asking)
        self.access = RemoteAccess(self._asking)
        self.runs = RemoteRuns(self._asking)
        self.shops = RemoteShops(self._asking)
        self.suppliers = RemoteSuppliers(self._asking)

    @property
    def now(self) -> datetime:
        """The instant, by the clock of the server, as of its last answer."""
        return self._asking.now

    @property
    def speed(self) -> float | None:
        """How many times faster than life that clock runs; None for life's own."""
        return self._asking.told().speed

    def status(self, supplier: SupplierName | None = None) -> Overview:
        """Return everything the first screen shows: of everybody, or of one's own."""
        return self._asking.get(Overview, f"{SYNC}/status", {"supplier": supplier})

    def products(
        self,
        *,
        q: str = "",
        state: ProductState | None = None,
        seller: SellerId | None = None,
        cursor: str | None = None,
        limit: int,
    ) -> ProductPage:
        """Return listings by state, seller or text, from a cursor on."""
        query = {"q": q, "state": state, "seller": seller, "cursor": cursor, "limit": limit}
        return self._asking.get(ProductPage, f"{SYNC}/products", query)

    def product(self, sku: Sku, *, seller: SellerId | None = None) -> tuple[ProductView, ...]:
        """Return a part as each seller lists it; raises NotFoundError."""
        path = f"{SYNC}/products/{word(sku)}"
        return tuple(self._asking.get(list[ProductView], path, {"seller": seller}, "listings"))

    def history(
        self,
        sku: Sku,
        *,
        seller: SellerId | None = None,
        kinds: Collection[str] = (),
        cursor: str | None = None,
        limit: int,
    ) -> HistoryPage:
        """Return what happened to a part, the newest first; raises NotFoundError."""
        query = {"seller": seller, "kind": list(kinds), "cursor": cursor, "limit": limit}
        return self._asking.get(HistoryPage, f"{SYNC}/history/{word(sku)}", query)

    def calls(self, sku: Sku, *, seller: SellerId | None = None) -> tuple[RecentCall, ...]:
        """Return the latest calls that carried a part; raises NotFoundError."""
        path = f"{SYNC}/calls/{word(sku)}"
        return tuple(self._asking.get(list[RecentCall], path, {"seller": seller}, "calls"))

    def audit(
        self,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        seller: SellerId | None = None,
        sku: Sku | None = None,
        kinds: Collection[str] = (),
    ) -> Iterator[HistoryEvent]:
        """Yield every event in that time, the oldest first; raises StoreError where it ends."""
        query = {
            "since": since and since.isoformat(),
            "until": until and until.isoformat(),
            "seller": seller,
            "sku": sku,
            "kind": list(kinds),
            "format": "jsonl",
        }
        for line in self._asking.api.lines("/api/audit", query):
            row = json.loads(line)
            if row["kind"] == STOPPED:
                raise StoreError(row["error"])
            yield self._asking.read(HistoryEvent, row | {"user_id": row["seller"]})

    def explain(self, sku: Sku, *, seller: SellerId | None = None) -> list[ListingExplanation]:
        """Say why a part waits, for each seller who lists it; raises NotFoundError."""
        path = f"{SYNC}/explain/{word(sku)}"
        return self._asking.get(list[ListingExplanation], path, {"seller": seller}, "listings")

    def held(
        self, *, seller: SellerId | None = None, limit: int, cursor: str | None = None
    ) -> list[HeldChange]:
        """Return held changes, the oldest first, from a cursor on."""
        query = {"seller": seller, "cursor": cursor}
        return self._asking.some(HeldChange, f"{SYNC}/held", query, limit=limit)

    def approve(
        self, skus: Sequence[Sku], *, seller: SellerId | None = None, reason: str = ""
    ) -> list[Ruling]:
        """Let held changes reach the shop."""
        return self._rule("approve", skus=list(skus), seller=seller, reason=reason)

    def approve_all(self, *, seller: SellerId | None = None, reason: str) -> list[Ruling]:
        """Let everything held reach the shop, and the rest of a mass change with it."""
        return self._rule("approve", all=True, seller=seller, reason=reason)

    def reject(
        self, skus: Sequence[Sku], *, seller: SellerId | None = None, reason: str = ""
    ) -> list[Ruling]:
        """Keep the shop's price; the same quote is not held again."""
        return self._rule("reject", skus=list(skus), seller=seller, reason=reason)

    def rollback(
        self,
        skus: Sequence[Sku],
        *,
        to: datetime,
        seller: SellerId | None = None,
        reason: str = "",
        dry_run: bool = False,
    ) -> list[Ruling]:
        """Give parts the price they had at another time."""
        body = {"skus": list(skus), "seller": seller, "reason": reason, "dry_run": dry_run}
        return self._rule("rollback", to=to.isoformat(), **body)

    def rollback_since(
        self,
        since: datetime,
        *,
        to: datetime,
        seller: SellerId | None = None,
        reason: str = "",
        dry_run: bool = False,
    ) -> list[Ruling]:
        """Give all of a seller's parts that changed since then the price they had at `to`."""
        body = {"since": since.isoformat(), "seller": seller, "reason": reason, "dry_run": dry_run}
        return self._rule("rollback", to=to.isoformat(), **body)

    def revive(self, skus: Sequence[Sku], *, seller: SellerId | None = None) -> list[Ruling]:
        """Restart parked parts; they board the next call."""
        return self._rule("revive", skus=list(skus), seller=seller)

    def revive_all(self, *, seller: SellerId | None = None) -> list[Ruling]:
        """Restart everything that is parked."""
        return self._rule("revive", all=True, seller=seller)

    def pause(
        self,
        kind: PauseKind,
        *,
        skus: Sequence[Sku] = (),
        seller: SellerId | None = None,
        supplier: SupplierName | None = None,
        until: datetime | None = None,
        reason: str = "",
    ) -> list[Pause]:
        """Stop everything, suppliers, a seller or parts; pausing again replaces it."""
        body = {
            "kind": kind,
            "skus": list(skus) or None,
            "seller": seller,
            "supplier": supplier,
            "until": until and until.isoformat(),
            "reason": reason,
        }
        return self._asking.post(list[Pause], f"{SYNC}/pause", body, "pauses")

    def resume(
        self,
        kind: PauseKind,
        *,
        skus: Sequence[Sku] = (),
        seller: SellerId | None = None,
        supplier: SupplierName | None = None,
        reason: str = "",
    ) -> list[Resumed]:
        """Let go on what was paused."""
        body = {
            "kind": kind,
            "skus": list(skus) or None,
            "seller": seller,
            "supplier": supplier,
            "reason": reason,
        }
        return self._asking.post(list[Resumed], f"{SYNC}/resume", body, "resumed")

    def pauses(self, *, seller: SellerId | None = None) -> list[Pause]:
        """Return what is paused; of one seller, whatever stops that seller."""
        return self._asking.get(list[Pause], f"{SYNC}/pauses", {"seller": seller}, "pauses")

    def trigger(
        self, skus: Sequence[Sku], *, seller: SellerId | None = None, reason: str = ""
    ) -> list[Ruling]:
        """Let parts board the next call, before all others."""
        return self._rule("trigger", skus=list(skus), seller=seller, reason=reason)

    def move(
        self, skus: Sequence[Sku], requested_slot: RequestedSlot, *, seller: SellerId | None = None
    ) -> list[MovedSlot]:
        """Give parts another slot of the day, or a priority in theirs."""
        found = {sku: self.product(sku, seller=seller) for sku in dict.fromkeys(skus)}
        body = {
            "hour": requested_slot.hour_bucket,
            "minute": None if requested_slot.hour_bucket is None else requested_slot.minute_offset,
            "priority": requested_slot.sync_priority,
            "auto": requested_slot.is_auto,
            "seller": seller,
        }
        # A part of several sellers is refused; asked for first, it is before any other is moved.
        moved = {
            sku: self._asking.read(
                MovedSlot, self._asking.api.put(f"{SYNC}/products/{word(sku)}/slot", body).json
            )
            for sku in sorted(found, key=lambda sku: len(found[sku]) == 1)
        }
        firsts = list(dict.fromkeys(each.user_id for each in map(moved.__getitem__, found)))
        return sorted(map(moved.__getitem__, found), key=lambda each: firsts.index(each.user_id))

    def publish(self, skus: Sequence[str], *, seller: SellerId | None = None) -> PublishBatch:
        """Ask for parts to be put into a shop; raises ConflictError if none could be taken."""
        body = {"part_numbers": list(skus), "seller": seller}
        return self._batch(self._asking.api.post(PUBLISH, body).json)

    def batch(self, batch_id: str) -> PublishBatch:
        """Tell what became of a batch; a part belongs to the batch that asked for it last."""
        return self._batch(self._asking.api.get(f"{PUBLISH}/{word(batch_id)}").json)

    def limits(self, *, limit: int, cursor: str | None = None) -> list[LimitView]:
        """Return what is used of each limit, from a cursor on."""
        return self._asking.some(LimitView, LIMITS, {"cursor": cursor}, limit=limit)

    def ledger(
        self,
        name: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> list[LedgerEntry]:
        """Return the calls that one limit permitted, the newest first, from a cursor on."""
        query = {
            "name": name,
            "since": since and since.isoformat(),
            "until": until and until.isoformat(),
            "cursor": cursor,
        }
        return self._asking.some(LedgerEntry, f"{LIMITS}/ledger", query, limit=limit)

    def alerts(self) -> list[Alert]:
        """Return what is wrong now, of everybody's or of one's own, the worst first."""
        return self._asking.get(list[Alert], "/api/alerts", key="alerts")

    def _rule(self, verb: str, **body: Any) -> list[Ruling]:  # noqa: ANN401 - what JSON holds
        return self._asking.post(list[Ruling], f"{SYNC}/{verb}", body, "listings")

    def _batch(self, answer: Mapping[str, Any]) -> PublishBatch:
        parts = [{**each, "sku": each.get("part_number")} for each in answer.get("parts", ())]
        return self._asking.read(PublishBatch, {**answer, "parts": parts})
