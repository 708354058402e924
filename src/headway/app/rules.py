"""The engine's rules, from the settings."""

from dataclasses import replace
from datetime import timedelta

from headway.config import Settings
from headway.core.accounts.jobs import DataKind, JobRule, Tier
from headway.core.catalog.change_detection import Terms
from headway.core.catalog.guard import Guard, SellerSettings
from headway.core.catalog.lifecycle import FailureRule
from headway.core.catalog.term_tables import read_markups
from headway.core.timetable.policies import Policy, by_name
from headway.core.timetable.seats import SeatRule
from headway.engine.rules import FetchRule, PushRule
from headway.providers.provider import SupplierPace

MINUTE_S = 60.0
# A call may leave until half its lease is over, and must have ended in the other half.
LEASE_MARGIN = timedelta(seconds=30)


def account_rule(settings: Settings) -> JobRule:
    """Return the numbers of the account lane."""
    return JobRule(
        intervals={tier: timedelta(minutes=settings.intervals_min[tier.value]) for tier in Tier},
        kind_intervals={
            kind: timedelta(minutes=settings.kind_intervals_min[kind.value]) for kind in DataKind
        },
        order_quotas={tier: int(settings.order_quotas[tier.value]) for tier in Tier},
        running_max=settings.jobs_max,
        failures_max=settings.job_failures_max,
        ageing=timedelta(minutes=settings.ageing_min),
        lease=timedelta(seconds=2 * settings.platform_timeout_s) + LEASE_MARGIN,
    )


def seller_defaults(settings: Settings) -> SellerSettings:
    """Return the terms and the guard of a seller who has chosen none."""
    return SellerSettings(
        terms=Terms(
            locations=settings.locations,
            unsold=settings.locations_unsold.split(","),
            units=settings.units,
            currency=settings.currency,
            basis=settings.price_basis,
            markup=settings.markup,
            markups=read_markups(settings.markups),
            rounding=settings.rounding,
            margin_min=settings.margin_min,
            compare_at=settings.compare_at,
            channels=settings.channels,
            oversell=settings.oversell,
            images=settings.images,
            description_template=settings.description_template,
        ),
        guard=Guard(move_max=settings.guard_move, share_max=settings.guard_share),
    )


def seats_per_min(settings: Settings, pace: SupplierPace) -> float:
    """Return how many SKUs a minute Headway may read, given its share of the limit."""
    return pace.calls_per_min * settings.budget_share * pace.seats


def least_price(settings: Settings) -> float:
    """Return the minutes of staleness that a seat must save, or it is left unused."""
    return settings.seat_value_s / MINUTE_S


def at_pace(rule: FetchRule, settings: Settings, pace: SupplierPace) -> FetchRule:
    """Return the rule for a supplier with this pace; a list in memory lets no listing wait."""
    seat_rule = replace(rule.seat_rule, seats=pace.seats)
    if pace.is_list:
        seat_rule = replace(seat_rule, slack=timedelta(0), is_eager=False, pace=timedelta(0))
        return replace(rule, seat_rule=seat_rule, is_list=True)
    calls_per_min = pace.calls_per_min * settings.budget_share
    least_gap = timedelta(seconds=MINUTE_S / calls_per_min) if seat_rule.pace else seat_rule.pace
    return replace(rule, seat_rule=replace(seat_rule, pace=least_gap))


def policy_at(policy: Policy, pace: SupplierPace) -> Policy:
    """Return the policy for a supplier with this pace: a list leaves nothing to optimize."""
    return by_name("rolling") if pace.is_list and policy.is_eager else policy


def fetch_rule(settings: Settings, policy: Policy) -> FetchRule:
    """Return how a worker reads a supplier."""
    is_paced = policy.is_eager and settings.budget_share < 1
    calls_per_min = settings.rate_limit * settings.budget_share
    return FetchRule(
        seat_rule=SeatRule(
            seats=settings.batch_size,
            slack=policy.slack,
            patience=policy.patience,
            is_eager=policy.is_eager,
            pace=timedelta(seconds=MINUTE_S / calls_per_min if is_paced else 0),
        ),
        lease=timedelta(seconds=2 * settings.boeing_timeout_s) + LEASE_MARGIN,
    )


def failure_rule(settings: Settings) -> FailureRule:
    """Return when a failing listing is retried, and when it is parked."""
    return FailureRule(
        failures_max=settings.failures_max,
        backoff_base=timedelta(hours=settings.backoff_base_h),
        backoff_max=timedelta(hours=settings.backoff_max_h),
        missing_confirmations=settings.missing_confirmations,
        draft_parked=settings.draft_parked,
    )


def push_rule(settings: Settings) -> PushRule:
    """Return how shops are written to, and how often they are checked for drift."""
    every = timedelta(hours=settings.drift_check_h)
    return PushRule(
        lease=timedelta(seconds=settings.shopify_timeout_s) + LEASE_MARGIN,
        verify_every=None if settings.drift == "off" else every,
        repairs_drift=settings.drift == "repair",
    )
