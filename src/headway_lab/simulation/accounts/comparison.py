"""The end of a run: every account's rows against the truth, and what excuses a difference."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from headway.core.accounts.jobs import Account, JobStatus, PlatformName, Tier
from headway.core.accounts.warehouse import Records
from headway.core.catalog.listings import SellerId
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.warehouse import Warehouse
from headway_lab.simulation.accounts.blast_radius import BlastRadius
from headway_lab.simulation.accounts.platforms import SimulatedPlatform
from headway_lab.simulation.accounts.world import QUOTAS, ShopPlan
from headway_lab.simulation.job_evidence import JobEvidence
from headway_lab.simulation.violation_log import ViolationLog

Key = tuple[str, ...]
Rows = Mapping[str, Mapping[Any, Mapping[str, Any]]]
PARTS = ("line_items", "shipments", "refunds")
TABLES = ("orders", *PARTS, "listings", "customers", "payments")
REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Where one account's rows differ from the platform's data, with a short description each."""

    missing: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    hidden: int = 0
    excused: int = 0

    @property
    def count(self) -> int:
        """How many rows differ."""
        return len(self.missing) + len(self.wrong) + len(self.extra)


@dataclass(slots=True)
class _Found:
    missing: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    hidden: int = 0


def rows_of(records: Records) -> dict[str, dict[Key, dict[str, Any]]]:
    """Return records as the tables hold them."""
    rows: dict[str, dict[Key, dict[str, Any]]] = {table: {} for table in TABLES}
    for order in records.orders:
        rows["orders"][(order.external_id,)] = _columns(order, without=PARTS)
        for part in PARTS:
            for record in getattr(order, part):
                key = (order.external_id, record.external_id)
                rows[part][key] = {**_columns(record), "order_id": order.external_id}
    for table in ("listings", "customers", "payments"):
        for record in getattr(records, table):
            rows[table][(record.external_id,)] = _columns(record)
    return rows


def compare(actual: Rows, true: Rows, *, horizon_at: datetime | None = None) -> Difference:
    """Compare all tables; an order from before the horizon may be missing, but not be wrong."""
    result = _Found()
    hidden = _before(keyed(true["orders"]), horizon_at)
    offered = {key[0] for key in keyed(true.get("listings", {}))}
    for table in TABLES:
        have, want = actual.get(table, {}), keyed(true.get(table, {}))
        for key, row in want.items():
            _compare_row(
                result,
                f"{table} {'/'.join(key)}",
                have.get(key),
                row,
                is_hidden=bool({key[0], row.get("order_id")} & hidden),
                offered=offered,
            )
        for key in have.keys() - want.keys():
            if have[key].get("state") != REMOVED:
                result.extra.append(f"{table} {'/'.join(key)}")
    return Difference(
        missing=tuple(result.missing),
        wrong=tuple(result.wrong),
        extra=tuple(result.extra),
        hidden=result.hidden,
    )


def keyed(rows: Mapping[Any, Mapping[str, Any]]) -> Mapping[Key, Mapping[str, Any]]:
    """Return rows by keys as the tables have them, however a platform's truth writes them."""
    return {key if isinstance(key, tuple) else (key,): row for key, row in rows.items()}


def _compare_row(
    result: _Found,
    name: str,
    have: Mapping[str, Any] | None,
    want: Mapping[str, Any],
    *,
    is_hidden: bool,
    offered: Collection[str],
) -> None:
    if have is None:
        if is_hidden:
            result.hidden += 1
        elif want.get("state") != REMOVED:
            result.missing.append(name)
        return
    for column, value in want.items():
        # A platform no longer lists a listing that is gone; rows read before stay.
        is_unnamed = column == "listing_id" and have[column] is None and value not in offered
        if have[column] != value and not is_unnamed:
            result.wrong.append(f"{name}: {column} is {have[column]!r}, true is {value!r}")
            return


def _columns(record: Any, without: Collection[str] = ()) -> dict[str, Any]:  # noqa: ANN401
    return {
        field.name: getattr(record, field.name)
        for field in fields(record)
        if field.name not in without
    }


def _before(orders: Mapping[Key, Mapping[str, Any]], horizon_at: datetime | None) -> set[str]:
    if horizon_at is None:
        return set()
    return {key[0] for key, row in orders.items() if row["placed_at"] < horizon_at}


@dataclass(slots=True, kw_only=True)
class RowTally:
    """The result of a comparison."""

    rows: int = 0
    missing: int = 0
    wrong: int = 0
    withheld: int = 0
    hidden: int = 0
    excused: int = 0
    unequal: Counter[str] = field(default_factory=Counter)

    def add(self, platform: PlatformName, difference: Difference) -> None:
        """Count what differs, by platform, table and kind."""
        self.missing += len(difference.missing)
        self.wrong += len(difference.wrong) + len(difference.extra)
        for kind in ("missing", "wrong", "extra"):
            tables = (text.partition(" ")[0] for text in getattr(difference, kind))
            self.unequal.update(f"{platform} {table} {kind}" for table in tables)

    @property
    def is_equal(self) -> bool:
        """Return True if nothing is missing or wrong."""
        return not self.missing and not self.wrong


class RowComparison:
    """Compares tables with the platforms' data, and reports which law a difference breaks."""

    def __init__(
        self,
        *,
        violations: ViolationLog,
        evidence: JobEvidence,
        warehouse: Warehouse,
        accounts: ConnectedShops,
        platforms: Mapping[PlatformName, SimulatedPlatform],
        shops: Mapping[str, ShopPlan],
        tier_of: Callable[[SellerId], Tier],
        blast: BlastRadius,
    ) -> None:
        self._violations = violations
        self._evidence = evidence
        self._warehouse = warehouse
        self._accounts = accounts
        self._platforms = platforms
        self._shops = {(shop.seller, shop.platform): shop for shop in shops.values()}
        self._tier_of = tier_of
        self._blast = blast

    def look(self, now: datetime, *, is_final: bool) -> RowTally:
        """Compare all accounts; only the final comparison reports violations."""
        tally = RowTally()
        limited = self._limited(now, is_final=is_final)
        for account in self._accounts.list():
            true = self._truth(account.bare)
            actual = self._warehouse.rows(account.id)
            tally.rows += sum(len(rows) for rows in true.values())
            difference = compare(actual, true, horizon_at=account.horizon_at)
            difference = self._excused(account.bare, difference, true)
            tally.excused += difference.excused
            tally.hidden += difference.hidden
            if account.seller in limited:
                tally.withheld += len(difference.missing) + len(difference.wrong)
                # A seller who is over quota is not pulled, so removed listings are not noticed
                # either.
                extra = [row for row in difference.extra if not row.startswith("listings ")]
                tally.withheld += len(difference.extra) - len(extra)
                difference = Difference(extra=tuple(extra))
            tally.add(account.platform, difference)
            if is_final:
                self._break(account.bare, difference)
        return tally

    def _excused(self, account: Account, difference: Difference, true: Rows) -> Difference:
        """Return the difference without what a fault of the account itself explains."""
        orders = self._blast.poisoned_orders(account)
        if not orders and not self._blast.is_endless(account):
            return difference
        rows = keyed(true["orders"])
        related = {("customers", rows[id_,].get("customer_id")) for id_ in orders if (id_,) in rows}
        related |= {
            ("payments", key[0])
            for key, row in keyed(true.get("payments", {})).items()
            if row.get("order_id") in orders
        }

        def is_explained(text: str) -> bool:
            table, _, key = text.partition(" ")
            id_ = key.partition("/")[0].partition(": ")[0]
            is_related = (table, id_) in related
            return self._blast.is_endless(account) or id_ in orders or is_related

        left = replace(
            difference,
            missing=tuple(text for text in difference.missing if not is_explained(text)),
            wrong=tuple(text for text in difference.wrong if not is_explained(text)),
            extra=tuple(text for text in difference.extra if not is_explained(text)),
        )
        return replace(left, excused=difference.count - left.count)

    def _break(self, account: Account, difference: Difference) -> None:
        owner = f"{account.user_id} on {account.platform}"
        for name in difference.missing:
            self._violations.add("L6", f"{name} of {owner} is missing")
        for text in difference.wrong:
            self._violations.add("L6", f"{owner}: {text}")
        for name in difference.extra:
            law = "L10" if self._is_anothers(account, name) else "L7"
            self._violations.add(law, f"{name} of {owner} is one too many")

    def _is_anothers(self, account: Account, name: str) -> bool:
        table, _, key = name.partition(" ")
        return any(
            tuple(key.split("/"))
            in keyed(self._platforms[shop.platform].truth(shop).get(table, {}))
            for shop in self._shops.values()
            if shop.platform == account.platform and shop.seller != account.user_id
        )

    def _truth(self, account: Account) -> Rows:
        shop = self._shops[account.user_id, account.platform]
        return self._platforms[shop.platform].truth(shop)

    def _limited(self, now: datetime, *, is_final: bool) -> set[str]:
        """Return the sellers whose month is used up, according to the platforms' data."""
        limited = {row.user_id for row in self._evidence.jobs() if row.status == JobStatus.LIMITED}
        month, placed = (
            now.replace(day=1, hour=0, minute=0, second=0, microsecond=0),
            Counter[str](),
        )
        for shop in self._shops.values():
            if shop.seller in limited:
                orders = self._platforms[shop.platform].truth(shop)["orders"].values()
                placed[shop.seller] += sum(row["placed_at"] >= month for row in orders)
        for seller in sorted(limited):
            quota = QUOTAS[self._tier_of(SellerId(seller))]
            if is_final and placed[seller] < quota:
                text = f"{seller} is set aside with {placed[seller]} orders of {quota}"
                self._violations.add("L12", text)
        return limited
