"""The end of a run: every account's rows against the truth, and what excuses a difference."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from headway.core.accounts.jobs import Account, JobStatus, PlatformName, Tier
from headway.core.catalog.listings import SellerId
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.warehouse import Warehouse
from headway_lab.simulation.accounts.comparison import Difference, Rows, compare, keyed
from headway_lab.simulation.accounts.platforms import SimulatedPlatform
from headway_lab.simulation.accounts.world import QUOTAS, ShopPlan
from headway_lab.simulation.job_evidence import JobEvidence
from headway_lab.simulation.violation_log import ViolationLog


@dataclass(slots=True, kw_only=True)
class RowTally:
    """The result of a comparison."""

    rows: int = 0
    missing: int = 0
    wrong: int = 0
    withheld: int = 0
    hidden: int = 0
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
    ) -> None:
        self._violations = violations
        self._evidence = evidence
        self._warehouse = warehouse
        self._accounts = accounts
        self._platforms = platforms
        self._shops = {(shop.seller, shop.platform): shop for shop in shops.values()}
        self._tier_of = tier_of

    def look(self, now: datetime, *, is_final: bool) -> RowTally:
        """Compare all accounts; only the final comparison reports violations."""
        tally = RowTally()
        limited = self._limited(now, is_final=is_final)
        for account in self._accounts.list():
            true = self._truth(account.bare)
            actual = self._warehouse.rows(account.id)
            tally.rows += sum(len(rows) for rows in true.values())
            difference = compare(actual, true, horizon_at=account.horizon_at)
            tally.hidden += difference.hidden
            if account.user_id in limited:
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
            if shop.platform is account.platform and shop.seller != account.user_id
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
