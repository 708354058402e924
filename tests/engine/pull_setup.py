"""A pull over the real store and limiter, a platform that answers by a script, and a plain walk."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from psycopg_pool import ConnectionPool
from tests.store.accounts.job_fixtures import DAY_KEY, MINUTE, RULE, Rows, make_rows

from headway.core.accounts.jobs import Account, JobRule
from headway.core.accounts.pagination import RUN, SINCE, Cursor, Page, PageRequest, PageStep
from headway.core.accounts.warehouse import Order, Records
from headway.core.catalog.listings import Done, Wait
from headway.core.catalog.storefront import Cost
from headway.core.limits.transitions import Bucket, Observation, Resource
from headway.engine.pull import Pull
from headway.engine.rules import PullRule
from headway.store.accounts.troubles import AccountTroubles
from headway.store.limits.breakers import Breakers
from headway.store.limits.error_share import ErrorShare
from headway_lab.platforms import ETSY, PLATFORMS, PRINTIFY
from headway_lab.virtual_clock import VirtualClock

SECOND_KEY = "etsy:key:second"
CALL_S = 0.2


def page_of(*names: str, more: bool = False, placed_at: datetime | None = None) -> Page:
    """Make a page of orders; with `more` another page follows."""
    orders = tuple(
        Order(
            external_id=name,
            status="paid",
            is_open=True,
            currency="USD",
            total=Decimal(5),
            placed_at=placed_at or datetime.fromisoformat("2026-03-02T00:00:00+00:00"),
        )
        for name in names
    )
    return Page(records=Records(orders=orders), ids=names, next="more" if more else None)


@dataclass(frozen=True)
class PlainWalk:
    """Page after page until none follows; wanted ids are requested first."""

    recheck_after: timedelta | None = None

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:
        fresh = {"page": 1, "at": now.isoformat(), "since": cursor.get(SINCE), "wanted": []}
        run = cursor.get(RUN) or fresh
        return {**cursor, RUN: {**run, "wanted": [*wanted, *run["wanted"]]}}

    def ask(self, cursor: Cursor) -> PageRequest:
        run = cursor[RUN]
        return PageRequest(what="orders", values={"page": run["page"], "wanted": run["wanted"]})

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:  # noqa: ARG002 - a port
        lasting = {"mark": cursor[RUN]["at"]}
        if page.next is None:
            return PageStep(cursor=lasting, is_done=True)
        run = cursor[RUN]
        return PageStep(cursor={**cursor, RUN: {**run, "page": run["page"] + 1, "wanted": []}})


@dataclass
class Script:
    """What the platforms answer, call by call; when it is over, an empty page."""

    clock: VirtualClock
    answers: list[Page | Exception | Callable[[], Page]] = field(default_factory=list)
    asks: list[tuple[str, PageRequest]] = field(default_factory=list)
    refreshes: int = 0
    refresh_error: Exception | None = None
    is_refreshing_elsewhere: bool = False
    dead_tokens: set[str] = field(default_factory=set)
    broken: dict[str, Exception] = field(default_factory=dict)
    endless: set[str] = field(default_factory=set)
    can_refresh: bool = True
    observations: dict[str, Observation] = field(default_factory=dict)
    own_observations: dict[str, dict[str, Observation]] = field(default_factory=dict)
    price: float = 1
    day_key: str | None = DAY_KEY
    keys: tuple[str, ...] = (SECOND_KEY,)

    def open(self, account: Account) -> "ScriptedPlatform":
        return ScriptedPlatform(self, account)


@dataclass
class ScriptedPlatform:
    """One account at it."""

    script: Script
    account: Account
    cost: Cost | None = None

    @property
    def keys(self) -> Sequence[str]:
        return self.script.keys

    @property
    def day_key(self) -> str | None:
        return self.script.day_key if self.account.platform == ETSY else None

    @property
    def observations(self) -> Mapping[str, Observation]:
        return self.script.own_observations.get(self.account.shop, self.script.observations)

    def needs_token(self) -> bool:
        return self.account.shop in self.script.dead_tokens and self.script.can_refresh

    def refresh_token(self, *, send_by_s: float) -> bool:
        if self.script.is_refreshing_elsewhere or self.script.clock.monotonic() > send_by_s:
            return False
        self.script.refreshes += 1
        self.script.clock.sleep(CALL_S)
        if self.script.refresh_error is not None:
            raise self.script.refresh_error
        self.script.dead_tokens.discard(self.account.shop)
        return True

    def price(self, ask: PageRequest) -> float:  # noqa: ARG002 - a port
        return self.script.price

    def read(self, ask: PageRequest) -> Page:
        self.script.asks.append((self.account.shop, ask))
        self.script.clock.sleep(CALL_S)
        if self.account.shop in self.script.broken:
            raise self.script.broken[self.account.shop]
        if self.account.shop in self.script.endless:
            return Page(next="more")
        answer: Any = self.script.answers.pop(0) if self.script.answers else Page()
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer


@dataclass
class Pulls:
    """A worker, its script and its rows."""

    rows: Rows
    script: Script
    breakers: Breakers
    walk: PlainWalk
    pull: Pull = field(init=False)

    def worker(self, owner: str) -> Pull:
        rows = self.rows
        return Pull(
            platforms=PLATFORMS,
            errors_counted=[PRINTIFY],
            clock=rows.clock,
            limiter=rows.limiter,
            jobs=rows.jobs,
            breakers=self.breakers,
            troubles=AccountTroubles(rows.pool),
            errors=ErrorShare(rows.pool),
            open_platform=self.script.open,
            paginator_of=lambda _job: self.walk,
            rule=rows.rule,
            pull_rule=PullRule(poll=MINUTE),
            owner=owner,
        )

    def drive(self, until: str, pull: Pull | None = None, steps: int = 100) -> list[Done | Wait]:
        """Step a worker, letting it wait as it asks, until it returns this; return its results."""
        results: list[Done | Wait] = []
        while not results or until not in _text(results[-1]):
            assert len(results) < steps, f"no end in sight: {results[-5:]}"
            results.append((pull or self.pull).step())
            if isinstance(results[-1], Wait) and until not in _text(results[-1]):
                self.rows.clock.sleep((results[-1].until - self.rows.clock.now()).total_seconds())
        return results

    def events(self) -> list[str]:
        return [
            kind
            for (kind,) in self.rows.ask(
                "SELECT event_type FROM sync_audit_log ORDER BY sync_timestamp, event_type"
            )
        ]


def _text(result: Done | Wait) -> str:
    return result.what if isinstance(result, Done) else result.why


def make_pulls(pool: ConnectionPool, *, rule: JobRule = RULE, day_limit: float = 10_000) -> Pulls:
    rows = make_rows(pool, rule=rule, day_limit=day_limit)
    rows.limiter.know(Resource(key=SECOND_KEY, rules=(Bucket(capacity=2, rate_per_s=8),)))
    script = Script(clock=rows.clock)
    pulls = Pulls(rows=rows, script=script, breakers=Breakers(pool), walk=PlainWalk())
    pulls.pull = pulls.worker("w")
    rows.limiter.pause(SECOND_KEY, 0, "")
    rows.clock.sleep(1)  # a new bucket starts full
    return pulls
