"""The signs that alerts are judged by, gathered from what the screens show."""

from collections.abc import Sequence
from datetime import datetime

from headway.core.alert_rules import FAST, SLOW
from headway.core.burn import burn
from headway.core.limit_state import UNKNOWN
from headway.core.pauses import Pause
from headway.core.signs import ConnectionSign, HourSign, QuotaSign, Signs, TierSign, TokenSign
from headway.store.freshness import KEPT_SHARE, Freshness
from headway.store.views import Overview


def signs_of(
    seen: Overview,
    *,
    hour: HourSign | None = None,
    pauses: Sequence[Pause] = (),
    promises: Sequence[TierSign] = (),
    tokens: Sequence[TokenSign] = (),
) -> Signs:
    """Return the signs in an overview, of everybody or of one seller."""
    front, lane = seen.storefront, seen.accounts
    # Every limiter waits out one window when it begins, which is no trouble.
    is_told = seen.gate.pause_reason != UNKNOWN
    return Signs(
        now=seen.now,
        breaker=seen.breaker,
        hour=hour or HourSign(),
        calls_paused_until=seen.gate.paused_until if is_told else None,
        calls_paused_reason=seen.gate.pause_reason,
        pauses=pauses,
        stale=seen.counts.stale,
        total=seen.counts.total,
        oldest_read_at=seen.oldest_read_at,
        promises=promises,
        held=front.held_count,
        held_since=min((each.at for each in front.held), default=None),
        failing=seen.counts.failing,
        refused=sum(each.failing for each in front.shops),
        refusals_in_a_row=max((each.failures for each in front.failing), default=0),
        parked=seen.counts.parked,
        connections=_connections(seen),
        dead_jobs=lane.dead_count,
        quotas=[
            QuotaSign(
                platform=each.platform,
                left=each.left,
                limit=each.limit,
                room_at=each.forecast.room_at,
                paused_until=each.paused_until,
            )
            for each in lane.budgets
        ],
        tokens=tokens,
    )


def _connections(seen: Overview) -> list[ConnectionSign]:
    """Return every account that is lost, and the shops that do not answer."""
    lost = [
        ConnectionSign(
            seller=each.user_id,
            name=f"{each.platform} {each.shop}",
            is_connected=False,
            trouble=each.trouble,
        )
        for each in seen.accounts.accounts
        if not each.is_connected
    ]
    down = [
        ConnectionSign(
            seller=each.user_id,
            name=f"shopify {each.shop}",
            is_connected=True,
            trouble=each.trouble,
        )
        for each in seen.storefront.shops
        if each.is_connected and each.trouble
    ]
    return [*lost, *down]


def promises_of(samples: Sequence[Freshness], now: datetime) -> list[TierSign]:
    """Return how each tier's promise stands, by the samples of the last hours."""
    if not samples:
        return []
    newest = samples[-1]
    signs = []
    for each in newest.tiers:
        kept = [
            (sample.at, tier.kept_share)
            for sample in samples
            for tier in sample.tiers
            if tier.tier is each.tier and tier.kept_share is not None
        ]
        signs.append(
            TierSign(
                tier=each.tier,
                promise_min=each.promise_min,
                kept_share=1.0 if each.kept_share is None else each.kept_share,
                burn_fast=burn(kept, now, FAST, promised=KEPT_SHARE),
                burn_slow=burn(kept, now, SLOW, promised=KEPT_SHARE),
                at=newest.at,
            )
        )
    return signs
