"""The report of a run: the figures that `headway simulate --lane account --json` prints."""

from collections import Counter
from typing import Any

from headway.core.accounts.jobs import JobStatus, PlatformName, Tier
from headway_lab.simulation.accounts.scenario import AccountScenario
from headway_lab.simulation.accounts.world import HOUR_S


def figures(scenario: AccountScenario, *, real_seconds: float) -> dict[str, Any]:
    """Return the whole report; only the real time differs between equal runs."""
    plan, laws, outcome = scenario.plan, scenario.laws, scenario.outcome
    tiers = Counter(plan.world.tiers.values())
    accounts = Counter(shop.platform for shop in plan.world.shops.values())
    return {
        "lane": "account",
        "sellers": len(plan.world.tiers),
        "days": plan.days,
        "seed": plan.seed,
        "calls_by_provider": {
            sim.value: simulated.calls for sim, simulated in scenario.platforms.items()
        },
        "refusals_by_provider": {
            sim.value: simulated.refusals for sim, simulated in scenario.platforms.items()
        },
        "peak_quota_share": round(scenario.etsy.peak_share, 4),
        "served_by_tier": outcome.served,
        "age_by_tier_min": outcome.age_min,
        "starved": outcome.starved,
        "rows_missing": outcome.tally.missing,
        "rows_wrong": outcome.tally.wrong,
        "laws": scenario.violations.counts,
        "laws_not_in_play": scenario.violations.not_checked,
        "rows": outcome.tally.rows,
        "rows_withheld": outcome.tally.withheld,
        "rows_hidden": outcome.tally.hidden,
        "rows_unequal": dict(sorted(outcome.tally.unequal.items())),
        "etsy_demand_per_day": round(scenario.etsy_demand),
        "etsy_day_limit": scenario.etsy.short_day,
        "etsy_served_by_tier": outcome.etsy_served,
        "etsy_age_by_tier_min": outcome.etsy_age_min,
        "longest_wait_by_tier_h": outcome.longest_wait_h,
        "sellers_by_tier": {tier.value: tiers[tier] for tier in Tier},
        "accounts_by_provider": {name.value: accounts[name] for name in PlatformName},
        "runs": {
            "completed": laws.ended[JobStatus.COMPLETED],
            "yielded or told to wait": laws.ended[JobStatus.QUEUED],
            "failed": laws.ended[JobStatus.FAILED],
            "plan limited": laws.ended[JobStatus.LIMITED],
        },
        "claims_by_type": {str(kind): count for kind, count in sorted(laws.claims.items())},
        "pages": laws.pages,
        "plan_limited": len(laws.limited),
        "rescued": laws.rescued,
        "eta_within_headway": scenario.forecasts.figures(),
        "alerts": scenario.alerts.figures() if plan.is_watched else None,
        "refused": laws.refused,
        "grants_lost": scenario.people.grants_lost,
        "webhooks": dict(sorted(scenario.people.hooks.items())),
        "events": len(plan.world.future),
        "faults_injected": _injected(scenario),
        "settling_h": round(outcome.settling_s / HOUR_S, 1),
        "real_seconds": round(real_seconds, 2),
    }


def _injected(scenario: AccountScenario) -> dict[str, int]:
    injected = {"crash": scenario.workers.crashes, "stall": scenario.workers.stalls}
    for name, simulated in scenario.platforms.items():
        injected |= {f"{name}-{kind}": count for kind, count in simulated.injected.items()}
    return {kind: count for kind, count in sorted(injected.items()) if count}
