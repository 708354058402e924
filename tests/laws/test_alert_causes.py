"""Causes in a simulated day and their alerts: each fires once, soon, and resolves.

Supplier, shops, workers and people cause them; nothing is written into our tables. When a rule's
threshold is reached is read from the history, independent of the alerts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headway.app.accounts import connect_account
from headway.config import Settings
from headway.core.monitoring.alert_state import AlertPhase
from headway.operations import changes
from headway.operations.alerts import alerts
from headway.operations.callers import OperatorCaller, operator
from headway.providers.shopify.storefront import shop_limit_key, store_tokens
from headway.providers.vault import open_vault
from headway.store.accounts.credentials import Credentials
from headway.store.pool import Pool
from headway_lab.simulation.faults import parse_faults
from headway_lab.simulation.scenario import START, Parts, Plan, Scenario
from headway_lab.simulation.world import seeded_world
from headway_lab.simulators.faults import FaultPlan
from headway_lab.simulators.meter import Admission, CallGate

SOON_MIN = 5
ONCE = (AlertPhase.FIRED, AlertPhase.RESOLVED)
Act = Callable[[Scenario], None]


@dataclass(frozen=True, kw_only=True)
class AlertCause:
    """A cause, and its end; minutes count from the beginning.

    `wrong` is when the rule's threshold is reached: a minute, or a query for the moment. The cause
    ends at `ends`; the alert must resolve by `end_by`. `others` may fire too, once each.
    """

    wrong: float | str
    end_by: float
    ends: float
    faults: Sequence[str] = ()
    acts: Mapping[float, Act] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    parts: Parts = field(default_factory=Parts)
    products: int = 60
    share_per_day: float = 0.05
    others: frozenset[str] = frozenset()


def ops(scenario: Scenario) -> OperatorCaller:
    return operator(scenario.app, "ops")


def end_faults(scenario: Scenario) -> None:
    """End the supplier's faults."""
    scenario.simulator.faults = FaultPlan(1)


def reject(scenario: Scenario) -> None:
    end_faults(scenario)
    shown = {change.sku: change.version for change in changes.held(ops(scenario), limit=10).items}
    changes.reject(ops(scenario), changes.Decision(skus=list(shown), versions=shown))


def revive(scenario: Scenario) -> None:
    end_faults(scenario)
    changes.revive(ops(scenario), changes.Revival(all=True))


def suspended(*, is_suspended: bool) -> Act:
    """Let the platform suspend all products of the shop, or none."""

    def act(scenario: Scenario) -> None:
        (setup,) = scenario.shops.setups.values()
        shop = scenario.shops.simulator.shop(setup.domain)
        for sku in scenario.plan.world.start:
            shop.edit_status(sku, "ACTIVE", is_suspended=is_suspended)

    return act


def uninstall(scenario: Scenario) -> None:
    (setup,) = scenario.shops.setups.values()
    scenario.shops.simulator.tokens(setup.domain).revoke()


def install(scenario: Scenario, *, lasting: timedelta | None = None) -> None:
    """Let the seller connect the shop again, with a valid token; its grant may end."""
    app, (seller,) = scenario.app, scenario.sellers
    domain = scenario.shops.setups[seller].domain
    tokens = scenario.shops.simulator.tokens(domain)
    token = tokens.issue(scenario.shops.simulator.elapsed_s(), expires=False)
    limit_key = shop_limit_key(app.settings.shopify_client_id, domain)
    vault = open_vault(None, app.settings.data_dir)
    grant: dict[str, Any] = {}
    if lasting is not None:
        grant = {"refresh": "shprt_1", "refresh_expires_at": app.clock.now() + lasting}
    store_tokens(Credentials(app.pool), vault, limit_key, clock=app.clock, access=token, **grant)
    connect_account(app.pool, seller, domain, rehearses=False, now=app.clock.now())


def lose_worker(scenario: Scenario) -> None:
    """Let a worker claim parts and never report again."""
    now = scenario.clock.now()
    skus = sorted(scenario.plan.world.start)[:3]
    scenario.app.schedule.claim(
        skus, now=now, owner="gone", lease_until=now + timedelta(seconds=90)
    )


@dataclass(frozen=True, kw_only=True)
class BlockingSupplier:
    """A supplier that blocks our key until a given minute, as if it was called too often."""

    until_min: float
    after: CallGate

    def admit(self, at_s: float) -> Admission:
        left_s = self.until_min * 60 - at_s
        return Admission(is_refused=True, wait_s=left_s) if left_s > 0 else self.after.admit(at_s)


def block(scenario: Scenario) -> None:
    scenario.simulator.gate = BlockingSupplier(until_min=50, after=scenario.simulator.gate)


class IdleSchedule:
    """A schedule whose tick rescues nothing until a given minute."""

    def __init__(self, inner: Any, until: datetime) -> None:
        self._inner, self._until = inner, until

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def rescue(self, now: datetime) -> int:
        return self._inner.rescue(now) if now >= self._until else 0


def first(kind: str) -> str:
    """Return the query for the moment of the first event of a kind."""
    return f"SELECT min(sync_timestamp) FROM sync_audit_log WHERE event_type = '{kind}'"


THIRD_BAD_CALL = """
SELECT begun_at FROM call_ledger WHERE status = 'sent' AND cardinality(skus) > 0 AND result <> 'ok'
ORDER BY begun_at LIMIT 1 OFFSET 2
"""
FOURTH_REFUSAL = """
SELECT min(sync_timestamp) FROM (
  SELECT sync_timestamp, row_number() OVER (PARTITION BY sku ORDER BY sync_timestamp) AS number
  FROM sync_audit_log WHERE event_type = 'shopify_update_failed') AS refusal WHERE number = 4
"""
THROTTLED = "SELECT min(begun_at) FROM call_ledger WHERE http_status = 429"
PROMISED = {"promises_min": dict.fromkeys(("free", "starter", "growth", "pro"), 60)}
AT_ONCE = {"failures_max": 1, "missing_confirmations": 1}
LATE, SLIPPING = frozenset({"few_synced"}), frozenset({"promise_slipping"})
STORIES = {
    # Refusals that no call of ours explains look like another program on the same key.
    "permit_wait": AlertCause(
        acts={20: block}, wrong=THROTTLED, ends=50, end_by=54, others=frozenset({"key_shared"})
    ),
    "token_expiring": AlertCause(
        acts={5: partial(install, lasting=timedelta(days=7, minutes=15)), 60: install},
        wrong=20,
        ends=60,
        end_by=64,
    ),
    "error_share": AlertCause(
        faults=["error:15%"],
        wrong=THIRD_BAD_CALL,
        acts={40: end_faults},
        ends=40,
        end_by=40 + 60 + 10,
    ),
    "reads_failed": AlertCause(
        faults=["vanish:90@00:30"], products=100, wrong=32, acts={40: end_faults}, ends=40,
        end_by=115
    ),
    "few_synced": AlertCause(faults=["away:90m@00:20"], wrong=80, ends=110, end_by=120),
    "overdue": AlertCause(
        faults=["away:90m@00:20"], products=150, wrong=85, ends=110, end_by=150, others=LATE
    ),
    "stale": AlertCause(
        faults=["away:1460m@00:10"], products=20, wrong=1449, ends=1470, end_by=1600,
        others=SLIPPING | {"promise_burning"},
    ),
    "promise_burning": AlertCause(
        faults=["away:2h@00:20"], products=20, settings=PROMISED, wrong=95, ends=140, end_by=220,
        others=SLIPPING
    ),
    "promise_slipping": AlertCause(
        faults=["vanish:4@00:20"],
        products=20,
        settings=PROMISED,
        wrong=124,
        acts={100: end_faults},
        ends=140,
        end_by=210,
    ),
    "held": AlertCause(
        faults=["badprice:1@00:30"], wrong=first("change_held"), acts={60: reject}, ends=60,
        end_by=64
    ),
    "parked": AlertCause(
        faults=["vanish:1@00:10"],
        settings=AT_ONCE,
        wrong=first("product_deactivated"),
        acts={60: revive},
        ends=60,
        end_by=64,
    ),
    "refused_by_shop": AlertCause(
        share_per_day=12,
        acts={10: suspended(is_suspended=True), 90: suspended(is_suspended=False)},
        wrong=FOURTH_REFUSAL,
        ends=90,
        end_by=180,
    ),
    "stuck": AlertCause(
        acts={20: lose_worker},
        parts=Parts(schedule=lambda inner: IdleSchedule(inner, START + timedelta(minutes=60))),
        wrong=32,
        ends=60,
        end_by=68,
    ),
    "disconnected": AlertCause(
        share_per_day=12,
        acts={20: uninstall, 75: install},
        wrong=first("account_disconnected"),
        ends=75,
        end_by=79,
        # The refusals before it ends.
        others=frozenset({"shop_refused"}),
    ),
}  # fmt: skip


# The others take as long, and run only in the campaign.
QUICK = ("parked", "disconnected", "permit_wait")


def run_story(story: AlertCause, pool: Pool, folder: Path) -> Scenario:
    days, faults = (story.end_by + 2) / 1440, parse_faults(story.faults)
    world = seeded_world(
        products=story.products, days=days, seed=1, share_per_day=story.share_per_day
    )
    plan = Plan(world=world, policy="adaptive", days=days, faults=faults, is_watched=True)

    def chosen(settings: Settings) -> Settings:
        return settings.model_copy(update=dict(story.settings))

    scenario = Scenario(plan, pool, folder, replace(story.parts, settings=chosen))
    for minute, act in story.acts.items():
        scenario.workers.spawn_at(minute * 60, partial(act, scenario))
    scenario.run()
    return scenario


def wrong_min(story: AlertCause, pool: Pool) -> float:
    if not isinstance(story.wrong, str):
        return story.wrong
    with pool.connection() as connection:
        ((at,),) = connection.execute(story.wrong.encode()).fetchall()
    return float((at - START).total_seconds() / 60)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in QUICK else (pytest.mark.campaign,))
        for name in STORIES
    ],
)
def test_each_alert_fires_once_within_five_minutes_and_resolves(
    pool: Pool, tmp_path: Path, name: str
) -> None:
    story = STORIES[name]
    phases: dict[str, list[tuple[AlertPhase, float]]] = {}
    for alert in run_story(story, pool, tmp_path).alerts.entries:
        phases.setdefault(alert.name, []).append((alert.phase, alert.at_s / 60))
    assert phases.keys() - story.others == {name} - story.others, phases
    own = [pairs for alert, pairs in phases.items() if alert == name or alert not in story.others]
    assert {tuple(phase for phase, _ in pairs) for pairs in own} == {ONCE}, phases
    (_, fired_at), (_, over_at) = phases[name]
    wrong_at = wrong_min(story, pool)
    assert wrong_at <= fired_at <= wrong_at + SOON_MIN
    assert story.ends <= over_at <= story.end_by


def test_a_failing_part_is_shown_and_raises_no_alert(pool: Pool, tmp_path: Path) -> None:
    alerts_by_minute: dict[float, set[str]] = {}

    def record_alerts(scenario: Scenario) -> None:
        alerts_by_minute[scenario.clock.monotonic() / 60] = {
            alert.name for alert in alerts(ops(scenario)).alerts
        }

    acts = {9: record_alerts, 25: record_alerts, 30: end_faults, 200: record_alerts}
    story = AlertCause(faults=["vanish:1@00:10"], acts=acts, wrong=10, ends=30, end_by=200)
    assert run_story(story, pool, tmp_path).alerts.entries == []
    assert alerts_by_minute == {9: set(), 25: {"failing"}, 200: set()}
