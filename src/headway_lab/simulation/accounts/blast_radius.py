"""Law L16 in the account lane: a fault of one shop, row or page stops and delays nobody else.

An innocent job's data is never older than twice its interval, no innocent record is set aside, no
innocent job dies, nobody is disconnected by a refusal that was wrong, and a shop with a fault takes
no more than its share of a day that all share.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

from headway.clock import Clock
from headway.core.accounts.jobs import Account, PlatformName
from headway.core.accounts.unreadable_rows import UNNAMED
from headway.core.accounts.warehouse import Unreadable
from headway_lab.simulation.accounts.ages import Ages
from headway_lab.simulation.accounts.culprits import Culprit
from headway_lab.simulation.accounts.faults import AccountFaults, CulpritKind
from headway_lab.simulation.accounts.opening import calls_per_day
from headway_lab.simulation.accounts.platforms import SimulatedPlatform
from headway_lab.simulation.accounts.world import DAY_S, ShopPlan
from headway_lab.simulation.violation_log import ViolationLog
from headway_lab.simulators.faults import Interval
from headway_lab.simulators.tied_faults import (
    EndlessList,
    PoisonedPage,
    PoisonedRow,
    TiedFault,
    WrongRefusals,
)

# How much older than usual the data of an innocent job may become.
AGE_FACTOR = 2.0
# After a refusal has ended, breakers and retries need a while.
RECOVERY_S = 1800.0
# What a shop may use of a shared day, as a multiple of what its jobs need, beside its history and
# what nobody has planned.
SHARE_FACTOR, HISTORY_CALLS, UNPLANNED = 2.0, 100, 0.1


def tie_faults(
    culprits: Sequence[Culprit],
    faults: AccountFaults,
    platforms: Mapping[PlatformName, SimulatedPlatform],
    clock: Clock,
) -> None:
    """Give the platforms' servers the faults of their shops."""
    for name, spans in faults.refusals.items():
        if spans:
            platforms[name].server.faults.append(WrongRefusals(spans, clock.monotonic))
    for culprit in culprits:
        simulated = platforms[culprit.shop.platform]
        simulated.server.faults.append(_fault(culprit, simulated))


def _fault(culprit: Culprit, simulated: SimulatedPlatform) -> TiedFault:
    mark = shop_mark(simulated, culprit.shop)
    if culprit.kind is CulpritKind.ENDLESS:
        return EndlessList(shop_mark=mark)
    if culprit.kind is CulpritKind.PAGE:
        return PoisonedPage(shop_mark=mark, form=culprit.form)
    text, garbage = simulated.order_text(culprit.shop, culprit.order)
    return PoisonedRow(shop_mark=mark, text=text, garbage=garbage, form=culprit.form)


def shop_mark(simulated: SimulatedPlatform, shop: ShopPlan) -> str:
    """Return the part of a request's path that names a shop."""
    return f"/{simulated.name(shop)}/"


class BlastRadius:
    """Knows who has a fault, and judges what happens to all others."""

    def __init__(
        self,
        *,
        violations: ViolationLog,
        clock: Clock,
        culprits: Sequence[Culprit],
        faults: AccountFaults,
        platforms: Mapping[PlatformName, SimulatedPlatform],
        shared_days: Mapping[PlatformName, float],
    ) -> None:
        self._violations = violations
        self._clock = clock
        self._platforms = platforms
        self._shared_days = shared_days
        self._refusals = faults.refusals
        self._is_deadly = faults.workers.is_deadly
        self.culprits = culprits
        self._kinds: dict[tuple[PlatformName, str], set[CulpritKind]] = defaultdict(set)
        self._orders: dict[tuple[PlatformName, str], set[str]] = defaultdict(set)
        self._strained: dict[tuple[PlatformName, str], ShopPlan] = {}
        for culprit in culprits:
            key = self._key(culprit.shop)
            self._kinds[key].add(culprit.kind)
            self.strain(culprit.shop)
            if culprit.order:
                simulated = platforms[culprit.shop.platform]
                self._orders[key].add(simulated.order_id(culprit.shop, culprit.order))
        self.is_in_play = bool(culprits or faults.floods or any(self._refusals.values()))
        if self.is_in_play:
            violations.enable(("L16",))

    def strain(self, shop: ShopPlan) -> None:
        """Note that a shop has a fault: its own jobs may be late, and its calls are counted."""
        self._strained[self._key(shop)] = shop
        simulated = self._platforms[shop.platform]
        simulated.server.calls[shop_mark(simulated, shop)] += 0

    def is_innocent(self, account: Account) -> bool:
        """Return True if nothing is wrong with the shop of an account."""
        return (account.platform, account.shop) not in self._strained

    def poisoned_orders(self, account: Account) -> Collection[str]:
        """Return the orders of an account that no reply can show."""
        return self._orders.get((account.platform, account.shop), ())

    def is_endless(self, account: Account) -> bool:
        """Return True if a list of this account never settles."""
        return CulpritKind.ENDLESS in self._kinds.get((account.platform, account.shop), ())

    def wrongly_unreadable(self, account: Account, records: Sequence[Unreadable]) -> list[str]:
        """Return the records that were set aside though nothing is wrong with them."""
        if not records or self.is_endless(account):
            return []
        own = {*self.poisoned_orders(account)}
        if not own:
            return [record.external_id for record in records]
        own |= self._payments_of(account, own)
        return [
            record.external_id
            for record in records
            if record.external_id.partition("/")[0] not in own
            and not record.external_id.startswith(UNNAMED)
        ]

    def _payments_of(self, account: Account, orders: Collection[str]) -> set[str]:
        """Return the ledger entries of orders: a reply about their payments shows the order."""
        shop = self._strained[account.platform, account.shop]
        rows = self._platforms[shop.platform].truth(shop).get("payments", {})
        return {str(key) for key, row in rows.items() if row.get("order_id") in orders}

    def died(self, account: Account, subject: str, reason: str) -> bool:
        """Note a dead job; return False if it may be: a list that never settles ends so."""
        if self.is_endless(account):
            return False
        if self.is_in_play:
            self._violations.add("L16", f"{subject} is dead: {reason}")
        return True

    def disconnected(self, account: Account, reason: str) -> None:
        """Check that no wrong refusal disconnected an account."""
        at_s = self._clock.monotonic()
        is_refused = any(
            span.start_s <= at_s < span.end_s + RECOVERY_S
            for span in self._refusals.get(account.platform, ())
        )
        if self.is_in_play and (is_refused or not self._is_deadly):
            subject = f"{account.platform} {account.shop} of {account.user_id}"
            self._violations.add("L16", f"{subject} was disconnected by mistake: {reason}")

    def close(self, ages: Ages, accounts: Mapping[str, Account], *, days: float) -> Counter[str]:
        """Check ages and shares; return how often each platform's innocent jobs were too late."""
        late: Counter[str] = Counter()
        if not self.is_in_play:
            return late
        for longest in ages.longest():
            account = accounts[longest.account_id]
            if not self.is_innocent(account) or account.platform in self._shared_days:
                continue
            excused_s = _length_s(self._refusals.get(account.platform, ()))
            if longest.age_s > AGE_FACTOR * longest.track.interval_s + excused_s:
                late[account.platform] += 1
                subject = f"{longest.track.kind} of {account.user_id} on {account.platform}"
                text = f"were {longest.age_s / 60:.0f} min old, and are due every"
                self._violations.add(
                    "L16", f"{subject} {text} {longest.track.interval_s / 60:.0f} min"
                )
        for shop in self._strained.values():
            self._check_share(shop, days)
        return late

    def _check_share(self, shop: ShopPlan, days: float) -> None:
        """Check that a shop with a fault did not use up the day that all shops share."""
        day = self._shared_days.get(shop.platform)
        if day is None:
            return
        simulated = self._platforms[shop.platform]
        calls = simulated.server.calls[shop_mark(simulated, shop)]
        share = days * (SHARE_FACTOR * calls_per_day(shop) + UNPLANNED * day) + HISTORY_CALLS
        if calls > share:
            text = f"made {calls} calls, and its share is {share:.0f}"
            self._violations.add("L16", f"{shop.seller} on {shop.platform} {text}")

    def _key(self, shop: ShopPlan) -> tuple[PlatformName, str]:
        return shop.platform, self._platforms[shop.platform].name(shop)


def _length_s(spans: Sequence[Interval]) -> float:
    return sum(min(span.end_s - span.start_s, DAY_S) + RECOVERY_S for span in spans)
