"""The signs that alerts are judged by, gathered from what the screens show."""

from collections.abc import Sequence

from headway.core.alerts import ConnectionSign, QuotaSign, Signs, TierSign, TokenSign
from headway.core.limit_state import UNKNOWN
from headway.core.pauses import Pause
from headway.store.views import Overview


def signs_of(
    seen: Overview,
    *,
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
        calls_paused_until=seen.gate.paused_until if is_told else None,
        calls_paused_reason=seen.gate.pause_reason,
        pauses=pauses,
        stale=seen.counts.stale,
        total=seen.counts.total,
        oldest_read_at=seen.oldest_read_at,
        broken_promises=promises,
        held=front.held_count,
        held_since=min((each.at for each in front.held), default=None),
        failing=seen.counts.failing,
        refused=sum(each.failing for each in front.shops),
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
