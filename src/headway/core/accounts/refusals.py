"""When a connection ends, and how long an account waits that is refused or suspended.

A provider reports a refusal only if its reply says that this very token is not accepted. One such
reply may still be a mistake of the platform or of our app, so a connection ends only after several
refusals, spaced over half an hour, while the platform answers other accounts. If a webhook reported
that the app was uninstalled, the first refusal confirms it.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil

REFUSALS_MIN = 3
SPAN_MIN = timedelta(minutes=30)
# Refusals closer to each other than this count as one: several jobs may ask at once.
SPACING = timedelta(minutes=4)
# When to try again after the first refusal, the second, and so on; the last one is repeated.
RETRIES = tuple(timedelta(minutes=minutes) for minutes in (5, 10, 15, 30, 60))
# A suspended account is checked after this time, then after twice that, up to a day.
SUSPENDED_FIRST, SUSPENDED_MAX = timedelta(minutes=15), timedelta(days=1)
# Accounts of a platform that were refused within this time are refused together.
TOGETHER = timedelta(hours=2)
TOGETHER_MIN, TOGETHER_SHARE = 3, 0.05
# With so few accounts, half of them are many.
FEW = 6
# A refusal so long after the app was reported as uninstalled confirms the report.
REPORT_VALID = timedelta(days=2)
UNINSTALLED = "the app was uninstalled in the shop"
# Without an answer to any other account in so long, the platform is no excuse any more.
ALONE_MAX = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountTrouble:
    """The refusals and suspensions of an account since its last good answer."""

    refusals: int = 0
    refused_since: datetime | None = None
    refused_at: datetime | None = None
    suspensions: int = 0
    wait_until: datetime | None = None
    wait_reason: str = ""
    uninstalled_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """The accounts of a platform: connected, refused of late (this one included).

    `is_answered` if another account got a good answer since this one was first refused.
    """

    connected: int = 1
    refused: int = 1
    is_answered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalVerdict:
    """What follows from a refusal: the account waits, or its connection ends for a reason."""

    trouble: AccountTrouble
    ends: bool
    reason: str

    @property
    def wait_until(self) -> datetime:
        """When the account is tried again."""
        assert self.trouble.wait_until is not None, "a refusal sets it"
        return self.trouble.wait_until


def are_refused_together(refused: int, connected: int) -> bool:
    """Return True if so many accounts are refused that the cause is the platform's or ours.

    That is half of up to five accounts, but two at least; of more, one in twenty, but three at
    least. A single account has no others to compare it with.
    """
    if connected < FEW:
        return refused >= max(2, ceil(connected / 2))
    return refused >= max(TOGETHER_MIN, ceil(connected * TOGETHER_SHARE))


def refused(trouble: AccountTrouble, reason: str, now: datetime, peers: Peers) -> RefusalVerdict:
    """Count a refusal of an account's token, and decide whether its connection ends."""
    since = trouble.refused_since or now
    is_new = trouble.refused_at is None or now - trouble.refused_at >= SPACING
    count = trouble.refusals + is_new
    is_together = are_refused_together(peers.refused, peers.connected)
    has_witness = peers.connected == 1 or peers.is_answered or now - since >= ALONE_MAX
    is_repeated = count >= REFUSALS_MIN and now - since >= SPAN_MIN
    pause = RETRIES[min(count, len(RETRIES)) - 1]
    reported_at = trouble.uninstalled_at
    is_reported = reported_at is not None and now - reported_at <= REPORT_VALID
    note = "others are refused too, so no connection ends" if is_together else f"refusal {count}"
    return RefusalVerdict(
        trouble=replace(
            trouble,
            refusals=count,
            refused_since=since,
            refused_at=now if is_new else trouble.refused_at,
            wait_until=now + pause,
            wait_reason=f"{reason} ({note})",
        ),
        ends=is_reported or (is_repeated and has_witness and not is_together),
        reason=UNINSTALLED if is_reported else reason,
    )


def suspended(trouble: AccountTrouble, reason: str, now: datetime) -> AccountTrouble:
    """Let an account wait that the platform has suspended; its connection stays."""
    pause = min(SUSPENDED_FIRST * 2 ** min(trouble.suspensions, 10), SUSPENDED_MAX)
    return replace(
        trouble,
        suspensions=trouble.suspensions + 1,
        wait_until=now + pause,
        wait_reason=reason,
    )
