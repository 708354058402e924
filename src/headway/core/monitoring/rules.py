"""The rules of the watch, in one table: what is wrong from which number on, and for how long.

The numbers are the design documents' where they have one. The settings, the runbook and the rules
for Prometheus are made from this table or checked against it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
# Over which spans a promise's burn is looked at: (short, long), both must burn.
FAST = (timedelta(minutes=15), HOUR)
SLOW = (HOUR, 6 * HOUR)
# A share of very few says nothing; so many must have gone wrong.
FAILURES_MIN = 3
# Where the documents draw a second line, it is at so many times the first: 5 % and 20 %.
WORSE = 4
# What a standstill brings about is not told beside it.
STANDSTILLS = ("supplier_down", "paused")


class Severity(StrEnum):
    """How bad it is, the worst first."""

    CRITICAL = "critical"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that is watched.

    `limit` is the number from which on it is wrong, in `unit`, which a deployment may choose. It
    fires when it has been so for `after`, and is over when it has not been so for `over`. While one
    of `hushed_by` stands, and `linger` after, it is its consequence and does not begin; nor while
    the same stands of what it is part of. `query` is the same in PromQL; `severity` is the worst
    that it comes to.
    """

    name: str
    what: str
    severity: Severity
    limit: float | None = None
    unit: str = ""
    after: timedelta = 2 * MINUTE
    over: timedelta = 3 * MINUTE
    hushed_by: tuple[str, ...] = ()
    linger: timedelta = timedelta(0)
    query: str


RULES: tuple[Rule, ...] = (
    Rule(
        name="supplier_down",
        what="The supplier does not answer: its breaker is open.",
        severity=Severity.CRITICAL,
        after=MINUTE,
        query="headway_supplier_up == 0",
    ),
    Rule(
        name="permit_wait",
        what="The next permit for a call is further away than the limit's own pace explains.",
        severity=Severity.WARNING,
        limit=30,
        unit="seconds beyond one headway",
        query="headway_permit_delay_seconds > {limit}",
    ),
    Rule(
        name="error_share",
        what="A share of the supplier's calls fails, within the last hour.",
        severity=Severity.CRITICAL,
        limit=0.05,
        unit="of the calls; critical at four times that",
        over=10 * MINUTE,
        hushed_by=STANDSTILLS,
        linger=HOUR,
        query=(
            'headway_hour{{what="calls_failed"}} / ignoring (what) headway_hour{{what="calls"}}'
            ' > {limit} and ignoring (what) headway_hour{{what="calls_failed"}} >= 3'
        ),
    ),
    Rule(
        name="reads_failed",
        what="A share of the parts that were asked for fails, within the last hour.",
        severity=Severity.CRITICAL,
        limit=0.05,
        unit="of the parts; critical at four times that",
        over=10 * MINUTE,
        query=(
            'headway_hour{{what="reads_failed"}} / ignoring (what) headway_hour{{what="reads"}}'
            ' > {limit} and ignoring (what) headway_hour{{what="reads_failed"}} >= 3'
        ),
    ),
    Rule(
        name="few_synced",
        what="Fewer parts were read within the last hour than should have been.",
        severity=Severity.CRITICAL,
        limit=30,
        unit="parts an hour, while so many wait",
        hushed_by=STANDSTILLS,
        linger=HOUR,
        query=(
            'headway_hour{{what="reads"}} < {limit} and ignoring (what)'
            ' headway_hour{{what="reads"}} + ignoring (what) headway_hour{{what="overdue"}}'
            " >= {limit}"
        ),
    ),
    Rule(
        name="overdue",
        what="Many parts have been due for more than an hour.",
        severity=Severity.WARNING,
        limit=100,
        unit="parts",
        over=10 * MINUTE,
        hushed_by=STANDSTILLS,
        linger=3 * HOUR,
        query='headway_hour{{what="overdue"}} > {limit}',
    ),
    Rule(
        name="stale",
        what="Parts were not read for more than 24 h.",
        severity=Severity.WARNING,
        limit=0,
        unit="parts",
        after=4 * MINUTE,
        over=10 * MINUTE,
        hushed_by=STANDSTILLS,
        linger=3 * HOUR,
        query='headway_listings{{state="stale"}} > {limit}',
    ),
    Rule(
        name="promise_burning",
        what="A tier's promise is being broken fast.",
        severity=Severity.CRITICAL,
        limit=6,
        unit="times what the promise allows, over 15 min and 1 h",
        over=10 * MINUTE,
        query="headway_promise_burn_fast >= {limit}",
    ),
    Rule(
        name="promise_slipping",
        what="A tier's promise is being broken slowly.",
        severity=Severity.WARNING,
        limit=1.5,
        unit="times what the promise allows, over 1 h and 6 h",
        over=10 * MINUTE,
        hushed_by=("promise_burning",),
        linger=6 * HOUR,
        query="headway_promise_burn_slow >= {limit}",
    ),
    Rule(
        name="paused",
        what="Somebody paused everything, or reading the supplier.",
        severity=Severity.WARNING,
        after=timedelta(0),
        over=timedelta(0),
        query='headway_trouble{{what="paused"}} > 0',
    ),
    Rule(
        name="held",
        what="Changes are held for a person to approve or reject.",
        severity=Severity.WARNING,
        limit=0,
        unit="changes",
        query="headway_changes_held > {limit}",
    ),
    Rule(
        name="parked",
        what="Parts were deactivated after repeated failure; critical from a share of all on.",
        severity=Severity.CRITICAL,
        limit=0.05,
        unit="of all parts is critical; any is a warning",
        query='headway_listings{{state="parked"}} > 0',
    ),
    Rule(
        name="refused_by_shop",
        what="A shop refuses an update of a part again and again.",
        severity=Severity.WARNING,
        limit=3,
        unit="refusals in a row",
        query='headway_trouble{{what="refusals_in_a_row"}} > {limit}',
    ),
    Rule(
        name="failing",
        what="Parts fail at the supplier; shown, not sent.",
        severity=Severity.NOTICE,
        query='headway_failures{{blame="listing"}} > 0',
    ),
    Rule(
        name="stuck",
        what="Parts or jobs are in hand though their lease ended: nobody rescues them.",
        severity=Severity.CRITICAL,
        limit=10,
        unit="of them are critical; any is a warning",
        query='headway_trouble{{what="stuck"}} > 0',
    ),
    Rule(
        name="shop_refused",
        what="A shop, or a platform for everybody, does not answer: three calls in a row failed.",
        severity=Severity.WARNING,
        # A shop is tried again some time after its platform answers others.
        linger=HOUR,
        query='headway_trouble{{what="shops_down"}} > 0',
    ),
    Rule(
        name="disconnected",
        what="A seller's account is disconnected and must be connected again.",
        severity=Severity.CRITICAL,
        query="headway_accounts_disconnected > 0",
    ),
    Rule(
        name="token_expiring",
        what="A grant ends within a week unless the account is connected again.",
        severity=Severity.CRITICAL,
        query='headway_trouble{{what="tokens_ending"}} > 0',
    ),
    Rule(
        name="dead_jobs",
        what="Jobs of accounts are dead after repeated failure.",
        severity=Severity.WARNING,
        limit=0,
        unit="jobs",
        query='headway_jobs{{status="dead"}} > {limit}',
    ),
    Rule(
        name="quota_spent",
        what="A platform's day is used up, or it told us to wait.",
        severity=Severity.WARNING,
        after=4 * MINUTE,
        query='headway_trouble{{what="quotas_spent"}} > 0',
    ),
)
BY_NAME: Mapping[str, Rule] = {rule.name: rule for rule in RULES}
LIMITS: Mapping[str, float] = {rule.name: rule.limit for rule in RULES if rule.limit is not None}
