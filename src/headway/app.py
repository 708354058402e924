"""The composition root: the only place where adapters meet."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import httpx
from psycopg_pool import ConnectionPool

from headway.clock import Clock, fresh_id
from headway.config import Settings
from headway.connectors.boeing import BoeingAccess, BoeingConnector
from headway.connectors.vault import open_vault
from headway.core.change import Terms
from headway.core.lifecycle import FailureRule, Judge
from headway.core.limits import Resource, Window
from headway.core.model import Scope
from headway.core.policies import Policy, by_name
from headway.core.reasons import Line
from headway.core.seats import BoardingRule
from headway.engine import ports
from headway.engine.fetch import FRONT_PER_SEAT, Fetch, FetchRule
from headway.engine.ports import Limiter, Supplier
from headway.engine.tick import EVERY, Tick
from headway.store.breakers import Breakers
from headway.store.credentials import Credentials
from headway.store.limits import PostgresLimiter
from headway.store.listings import Listings
from headway.store.schedule import Schedule

MINUTE_S = 60.0
# Longer than connecting and writing may take: what is in flight has arrived by then, or failed.
JITTER_S = 2.5
# A call may leave until half its lease is over, and must have ended in the other half.
LEASE_MARGIN = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """Everything a runner, the page or the command line works with."""

    settings: Settings
    clock: Clock
    pool: ConnectionPool
    policy: Policy
    limiter: PostgresLimiter
    schedule: Schedule
    listings: Listings
    breakers: Breakers
    scope: Scope
    new_supplier: Callable[[], BoeingConnector]
    judge: Judge
    rule: FetchRule

    def fetch(
        self,
        owner: str,
        *,
        limiter: Limiter | None = None,
        schedule: ports.Schedule | None = None,
        breakers: ports.Breakers | None = None,
        supplier: Supplier | None = None,
    ) -> Fetch:
        """Make a worker's fetch; a port given here stands in, which only the simulation needs."""
        return Fetch(
            clock=self.clock,
            limiter=limiter or self.limiter,
            schedule=schedule or self.schedule,
            breakers=breakers or self.breakers,
            supplier=supplier or self.new_supplier(),
            judge=self.judge,
            rule=self.rule,
            owner=owner,
        )

    def tick(self, *, schedule: ports.Schedule | None = None, every: timedelta = EVERY) -> Tick:
        """Make a tick."""
        return Tick(
            clock=self.clock,
            schedule=schedule or self.schedule,
            ledger=self.limiter,
            retention=timedelta(days=self.settings.ledger_retention_days),
            every=every,
        )

    def line(self, now: datetime) -> Line:
        """Read what every listing waits for: permits, pauses, the supplier, the queue's front."""
        status = self.limiter.status(self.scope)
        pace_s = max(self.settings.rate_gap_s, MINUTE_S / self.settings.rate_limit)
        return Line(
            breaker=self.breakers.load(self.scope),
            permit_at=status.next_free_at,
            pace=timedelta(seconds=pace_s),
            paused_until=status.paused_until,
            pause_reason=status.reason,
            front=self.schedule.front(now, limit=self.rule.boarding.seats * FRONT_PER_SEAT),
        )

    def with_poll(self, poll: timedelta) -> "App":
        """Return the same application whose workers look for news this often."""
        return replace(self, rule=replace(self.rule, poll=poll))


def boeing_scope(settings: Settings) -> Scope:
    """Return whom the supplier's limit binds: the credential."""
    return Scope(f"boeing:{settings.boeing_client_id}")


def boeing_resource(settings: Settings) -> Resource:
    """Return the one gate through which every request to the supplier passes."""
    window = Window(
        limit=settings.rate_limit,
        span_s=MINUTE_S,
        gap_s=settings.rate_gap_s,
        jitter_s=JITTER_S,
        anchor="finish",
    )
    return Resource(key=boeing_scope(settings), rules=(window,))


def build(
    settings: Settings,
    clock: Clock,
    pool: ConnectionPool,
    *,
    transport: httpx.BaseTransport | None = None,
    ids: Callable[[], str] = fresh_id,
) -> App:
    """Put the parts together over an open, migrated database."""
    policy = by_name(settings.policy)
    terms = Terms(locations=settings.locations, currency=settings.currency)
    failure_rule = FailureRule(
        failures_max=settings.failures_max,
        backoff_base=timedelta(hours=settings.backoff_base_h),
        backoff_max=timedelta(hours=settings.backoff_max_h),
        missing_confirmations=settings.missing_confirmations,
    )
    return App(
        settings=settings,
        clock=clock,
        pool=pool,
        policy=policy,
        limiter=PostgresLimiter(pool, clock, [boeing_resource(settings)], ids=ids),
        scope=boeing_scope(settings),
        schedule=Schedule(pool),
        listings=Listings(pool),
        breakers=Breakers(pool),
        new_supplier=lambda: _boeing(settings, clock, pool, transport),
        judge=Judge(terms=terms, rule=failure_rule, reschedule=policy.reschedule),
        rule=FetchRule(
            boarding=BoardingRule(seats=settings.batch_size, slack=policy.slack),
            lease=timedelta(seconds=2 * settings.boeing_timeout_s) + LEASE_MARGIN,
        ),
    )


def _boeing(
    settings: Settings, clock: Clock, pool: ConnectionPool, transport: httpx.BaseTransport | None
) -> BoeingConnector:
    """Make a connector; only now must the credentials be there, so looking needs none."""
    access = BoeingAccess(
        client_id=settings.boeing_client_id,
        client_secret=settings.boeing_client_secret.get_secret_value(),
        username=settings.boeing_username,
        password=settings.boeing_password.get_secret_value(),
    )
    return BoeingConnector(
        settings.boeing_url,
        access,
        shelf=Credentials(pool),
        vault=open_vault(
            settings.secret_key.get_secret_value() if settings.secret_key else None,
            settings.data_dir.expanduser(),
        ),
        clock=clock,
        timeout_s=settings.boeing_timeout_s,
        seats=settings.batch_size,
        transport=transport,
    )
