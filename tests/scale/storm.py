"""A storm: a process is killed every second while prices change and customers buy."""

import platform
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from tests.scale.deployment import CLOCK, Deployment
from tests.scale.processes import Child
from tests.scale.truth import unbooked, unshown
from tests.scale.workers import ProcessGroup

from headway.clock import Rng, rng

BEAT_S = 1.0
# A request of a killed process may still be in flight: it arrives within this time or never.
STRAGGLE_S = 5.0
# The engine does not know which worker was killed, so it waits minutes for one that may only be
# slow; the test does know, and skips these minutes. Only leases of killed workers age by this.
EXPIRE_KILLED = """
UPDATE {table} SET {lease}_until = {lease}_until - interval '1 hour'
WHERE {lease}_until > now() - interval '10 minutes' AND {owner} ~ %s
"""
# The leases of a live worker whose database went away are orphaned, too. A new lease ends
# later than those; rescue gives each a new fence, should a worker still come with one.
EXPIRE_AT = """
UPDATE {table} SET {lease}_until = {lease}_until - interval '1 hour'
WHERE {lease}_until BETWEEN %s::timestamptz AND %s::timestamptz + interval '{length}'
"""
EXPIRE_ALL_AT = (
    EXPIRE_AT.format(table="product_sync_schedule", lease="lease", length="90 seconds"),
    EXPIRE_AT.format(table="sync_jobs", lease="lease", length="90 seconds"),
    EXPIRE_AT.format(table="connected_accounts", lease="push_lease", length="60 seconds"),
)
HELD = (
    EXPIRE_KILLED.format(table="product_sync_schedule", lease="lease", owner="lease_owner"),
    EXPIRE_KILLED.format(table="sync_jobs", lease="lease", owner="lease_owner"),
    EXPIRE_KILLED.format(table="connected_accounts", lease="push_lease", owner="push_owner"),
)


def expire_leases_of(deployment: Deployment, *killed: str) -> None:
    """Expire the leases of these workers, named as `host:process`."""
    for statement in HELD:
        deployment.do(statement, f"^({'|'.join(killed)})(:|$)")


@dataclass(kw_only=True)
class Storm:
    """Kills, sales and price changes of each second, as the seed decides."""

    deployment: Deployment
    group: ProcessGroup
    seed: int
    # Few enough that what a killed worker wrote is still desired when the next one starts.
    moves: int = 2
    expires_leases: bool = True
    kills: int = 0
    changes: int = 0
    orders: int = 0
    _generator: Rng = field(init=False, repr=False)
    _killed: list[tuple[float, str]] = field(default_factory=list)
    _not_triggered: set[tuple[str, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._generator = rng(f"storm {self.seed}")

    def run(self, seconds: int, *others: Callable[[int], None]) -> None:
        """Kill a worker each second and start it again; `others` get the number too."""
        next_s = CLOCK.monotonic()
        for second in range(seconds):
            self.kill(self._generator.choice(self.group.processes))
            self.group.start("worker")
            self.move_prices()
            for other in others:
                other(second)
            next_s += BEAT_S
            CLOCK.sleep(next_s - CLOCK.monotonic())

    def kill(self, victim: Child) -> None:
        victim.send_signal(signal.SIGKILL)
        self.group.processes.remove(victim)
        self.kills += 1
        self._killed.append((CLOCK.monotonic(), f"{platform.node()}:{victim.pid}"))

    def move_prices(self) -> None:
        """Raise prices, let customers buy, and make both due."""
        for sku in self._generator.sample(sorted(self.deployment.catalog.parts), self.moves):
            part = self.deployment.catalog.parts[sku]
            assert part.list_price is not None
            quantity = self._generator.randint(1, 90)
            self.deployment.catalog.stock(sku, str(part.list_price + 1), quantity)
            self.changes += 1
            self._not_triggered |= {
                listing for listing in self.deployment.listed if listing[1] == sku
            }
        seller = self._generator.choice(sorted({seller for seller, _ in self.deployment.shop_ids}))
        skus = [sku for owner, sku in self.deployment.listed if owner == seller]
        self.deployment.sell(seller, self._generator.choice(skus))
        self.orders += 3
        self.trigger_changes()

    def trigger_changes(self) -> None:
        """Trigger the parts that moved, and make pulls due; leases of killed workers expire."""
        for seller in {seller for seller, _ in self._not_triggered}:
            skus = [sku for owner, sku in self._not_triggered if owner == seller]
            self._not_triggered -= {(seller, sku) for sku in self.deployment.trigger(seller, skus)}
        self.deployment.do(
            "UPDATE sync_jobs SET next_run_at = now() WHERE status = 'completed'"
            " AND NOT is_backfill"
        )
        if self.expires_leases:
            self._expire_killed()

    def expire_leases_at(self, at: datetime) -> None:
        """Expire all leases that were live at a given time."""
        CLOCK.sleep(STRAGGLE_S)
        for statement in EXPIRE_ALL_AT:
            self.deployment.do(statement, at, at)

    def settle(self) -> float:
        """Wait until everything is pushed and stored; return the seconds that this took."""
        began_s = CLOCK.monotonic()
        self.group.until(self._is_settled)
        return CLOCK.monotonic() - began_s

    def _is_settled(self) -> bool:
        self.trigger_changes()
        return (
            not self._not_triggered
            and not unshown(self.deployment)
            and not unbooked(self.deployment)
        )

    def _expire_killed(self) -> None:
        now_s = CLOCK.monotonic()
        dead = [name for died_s, name in self._killed if died_s < now_s - STRAGGLE_S]
        if dead:
            expire_leases_of(self.deployment, *dead)

    def figures(self) -> str:
        """Return the numbers of kills, changes and calls in one line."""
        deployment, works = (
            self.deployment,
            sum("Headway works as" in line for line in self.group.output),
        )
        prices = sum(effect.kind == "price" for effect in deployment.shops.effects)
        return (
            f"seed {self.seed}: {self.kills} kills, {works} starts that came to work;"
            f" {self.changes} price changes, {prices} written, {self.orders} orders;"
            f" calls: supplier {deployment.supplier.calls.total()}, at most"
            f" {deployment.supplier.max_calls_in_window} of {deployment.calls_per_min} a minute,"
            f" shops {deployment.shops.requests}, Etsy {deployment.etsy.log.calls}"
            f" (at most {deployment.etsy.log.calls_max_second} a second),"
            f" Printify {deployment.printify.calls.total()}; refusals {sum(deployment.refusals)};"
            f" double writes {len(deployment.shops.double_writes())}"
        )
