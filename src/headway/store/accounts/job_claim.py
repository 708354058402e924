"""Claim of account jobs: one transaction that reads the front of the queue, never all of it.

For every platform and score one short range scan of one index finds the longest due. The best of
them is leased, and what it needs of its platform's day is reserved, both or neither. Claims run one
at a time under a lock, so that no two take the same free place.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from psycopg import Connection

from headway.core.accounts.claims import (
    LOOKS_MAX,
    ClosedShare,
    choose,
    closed_by,
    closed_to,
    costs,
    depth,
    is_closed,
    left_to_others,
    open_classes,
    over_quota,
    plan_limit_notice,
)
from headway.core.accounts.jobs import (
    Account,
    DataKind,
    Job,
    JobCandidate,
    JobRule,
    JobType,
    PlatformName,
    Tier,
    in_order,
    next_month,
)
from headway.core.accounts.webhooks import (
    NAMED_MAX,
    NamedRecord,
    ids_to_read,
    run_burst,
    run_spacing,
)
from headway.core.catalog.listings import SellerId
from headway.core.limits.daily_shares import DayPlan, DayShare
from headway.core.limits.transitions import Permit, Rejected
from headway.store.limits.day_demand import used_by_share
from headway.store.limits.limiter import PostgresLimiter
from headway.store.pause_sql import ALL_PAUSED, is_seller_paused
from headway.store.sql_files import read_sql

# How many jobs become due again with each claim (job_repeat.sql): many more than a claim takes.
REPEAT_MAX = 32

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('headway claim of jobs', 0))"
# True if a job is due: most claims find none, and need neither the lock nor a transaction.
IS_ANY_DUE = f"""
SELECT NOT {ALL_PAUSED} AND (EXISTS (
  SELECT FROM sync_jobs WHERE status IN ('completed', 'failed', 'plan_limit_reached')
    AND next_run_at <= %(now)s
) OR EXISTS (
  SELECT FROM unnest(%(platforms)s::text[], %(scores)s::smallint[]) AS class (platform, score)
  CROSS JOIN LATERAL (
    SELECT FROM sync_jobs AS queued WHERE status = 'queued' AND platform = class.platform
      AND score = class.score AND next_run_at <= %(now)s AND NOT {is_seller_paused("queued")}
    LIMIT 1) AS job))
"""
# How many jobs are due and how many run, by platform; counted up to a limit.
DUE_PLACES = f"""
WITH due AS (
  (SELECT platform FROM sync_jobs WHERE status IN ('completed', 'failed', 'plan_limit_reached')
    AND next_run_at <= %(now)s ORDER BY next_run_at LIMIT {REPEAT_MAX})
  UNION ALL
  SELECT class.platform
  FROM unnest(%(platforms)s::text[], %(scores)s::smallint[]) AS class (platform, score)
  CROSS JOIN LATERAL (
    SELECT FROM sync_jobs AS queued WHERE status = 'queued' AND platform = class.platform
      AND score = class.score AND next_run_at <= %(now)s AND NOT {is_seller_paused("queued")}
    LIMIT %(limit)s) AS job
)
SELECT platform, count(*) FILTER (WHERE is_due), count(*) FILTER (WHERE NOT is_due)
FROM (
  SELECT platform, true AS is_due FROM due WHERE NOT {ALL_PAUSED}
  UNION ALL
  SELECT platform, false FROM sync_jobs WHERE status = 'running') AS job
GROUP BY platform
"""
REPEAT = read_sql("accounts", "job_repeat")
RUNNING = "SELECT account_id::text FROM sync_jobs WHERE status = 'running'"
FRONT = read_sql("accounts", "job_front")
# All jobs of the seller at once: the quota is the seller's. Sellers with a new tier are left out.
SET_ASIDE = """
WITH queued AS (
  SELECT job.id FROM sync_jobs AS job
  JOIN unnest(%(sellers)s::text[], %(tiers)s::text[]) AS seller (user_id, tier)
    ON job.user_id = seller.user_id AND job.tier = seller.tier
  WHERE job.status = 'queued' ORDER BY job.id FOR NO KEY UPDATE OF job SKIP LOCKED
), aside AS (
  UPDATE sync_jobs AS job SET status = 'plan_limit_reached', next_run_at = %(next_month)s,
    wait_reason = 'the month''s orders are used up', updated_at = %(now)s
  FROM queued WHERE job.id = queued.id
  RETURNING job.id, job.user_id, job.platform, job.kind, job.job_type, job.tier
), notice AS (
  INSERT INTO notices (user_id, topic, subject, text, created_at)
  SELECT DISTINCT user_id, 'plan_limit_reached', user_id || ' ' || tier || ' ' || %(this_month)s,
    %(notice)s, %(now)s::timestamptz FROM aside
  ON CONFLICT DO NOTHING
)
INSERT INTO sync_audit_log (user_id, job_id, sync_timestamp, event_type, new_value, created_at)
SELECT user_id, id, %(now)s, 'plan_limit_reached', jsonb_build_object('platform', platform,
  'kind', kind, 'job_type', job_type, 'until', %(next_month)s::timestamptz), %(now)s
FROM aside
"""
HOLD = read_sql("accounts", "job_hold")
LEASE = read_sql("accounts", "job_lease")
# A separate statement, after the jobs' rows are locked, so that no delivery is missed.
NAMED = f"""
SELECT job.account_id::text, delivery.external_id,
  (delivery.first_at <= job.completed_at) IS TRUE
FROM sync_jobs AS job
CROSS JOIN LATERAL (
  SELECT external_id, min(received_at) AS first_at FROM webhook_deliveries AS open
  WHERE open.account_id = job.account_id AND open.kind = job.kind AND handled_at IS NULL
    AND external_id IS NOT NULL
  GROUP BY external_id ORDER BY min(received_at), external_id LIMIT {NAMED_MAX + 1}) AS delivery
WHERE job.id = ANY (%(ids)s::uuid[]) AND NOT job.is_backfill
ORDER BY delivery.first_at, delivery.external_id
"""

Claimed = tuple[Job, Permit | None]


@dataclass(slots=True, kw_only=True)
class JobClaim:
    """One claim: which accounts are busy, and which shares of which platform have no budget left.

    `demand` is the demand of each platform's jobs on its day, if it has one.
    """

    connection: Connection[Any]
    limiter: PostgresLimiter
    rule: JobRule
    days: Mapping[PlatformName, str]
    demand: Mapping[PlatformName, Mapping[DayShare, float]]
    now: datetime
    owner: str
    platforms: Collection[PlatformName]
    closed: set[ClosedShare]
    busy: set[str] = field(default_factory=set)
    plans: dict[str, DayPlan] = field(default_factory=dict)
    used: dict[str, Mapping[DayShare, float]] = field(default_factory=dict)
    taken: list[Claimed] = field(default_factory=list)

    def take(self, limit: int) -> list[Claimed]:
        """Lease the best jobs, up to a limit and as many as may run at once."""
        self.connection.execute(LOCK)
        self.connection.execute(REPEAT, {"now": self.now})
        self.busy = {account for (account,) in self.connection.execute(RUNNING)}
        limit = min(limit, self.rule.running_max - len(self.busy))
        for look in range(LOOKS_MAX):
            if len(self.taken) >= limit:
                break
            if not self._take_from(self._front(depth(limit, look)), limit):
                break
        return self.taken

    def _front(self, depth: int) -> list[JobCandidate]:
        """Return the longest due jobs of every platform and score that may run."""
        open_ones = open_classes(self.platforms, self.closed)
        if not open_ones:
            return []
        values = {
            **_values(open_ones),
            "busy": list(self.busy),
            "quotas": json.dumps(self.rule.order_quotas),
            "month": self.now.date().replace(day=1),
            "now": self.now,
        }
        rows = self.connection.execute(FRONT.format(depth=depth), values).fetchall()
        return in_order([_candidate(row) for row in rows], self.now, self.rule.ageing)

    def _take_from(self, front: Sequence[JobCandidate], limit: int) -> bool:
        """Lease jobs of the front that may run; return True if another attempt may find more."""
        before = (len(self.busy), len(self.closed))
        over = over_quota(front)
        self._claim(choose(front, limit - len(self.taken), over))
        if over:
            values = {
                "sellers": list(over),
                "tiers": list(over.values()),
                "next_month": next_month(self.now),
                "this_month": f"{self.now:%Y-%m}",
                "notice": plan_limit_notice(self.now),
                "now": self.now,
            }
            self.connection.execute(SET_ASIDE, values)
        return bool(over) or before != (len(self.busy), len(self.closed))

    def _claim(self, chosen: Sequence[JobCandidate]) -> None:
        """Lease the jobs for which there is a budget, and close the shares of the others."""
        if not chosen:
            return
        held = self.connection.execute(HOLD, {"ids": [job.id for job in chosen]}).fetchall()
        permits: dict[str, Permit | None] = {}
        for job in chosen:
            if (job.id,) not in held:  # another worker has it; its account can wait
                self.busy.add(job.account_id)
                continue
            if is_closed(job, self.closed):
                continue
            key = self.days.get(job.platform)
            permit = None if key is None else self._reserve(job, key)
            if key is None or permit is not None:
                self.busy.add(job.account_id)
                permits[job.id] = permit
        if permits:
            self.taken += [(job, permits[job.id]) for job in self._lease(list(permits))]

    def _reserve(self, job: JobCandidate, key: str) -> Permit | None:
        """Reserve a part of the day; None if there is none left for this share, nor for lesser."""
        limiter = self.limiter.within(self.connection)
        if key not in self.plans:
            # Locked from here on, so that neither changes before the claim ends.
            limit = limiter.limit_of(key)
            self.plans[key] = DayPlan(limit=limit, demand=self.demand[job.platform])
            self.used[key] = used_by_share(self.connection, key, self.now)
        plan = self.plans[key]
        left = left_to_others(job, plan, self.used[key], self.rule, self.now)
        for cost in costs(job, plan.limit, self.rule):
            permit = limiter.reserve(
                [key],
                cost=cost,
                leave=left.calls,
                owner=self.owner,
                max_wait_s=0,
                lease_s=self.rule.lease.total_seconds(),
                grace_s=0,
                purpose="pull",
                begins=True,
            )
            if not isinstance(permit, Rejected):
                return permit
        if left.is_alone:  # the others of its share may well have room
            self.busy.add(job.account_id)
        else:
            self.closed |= closed_by(job)
        return None

    def _lease(self, ids: Sequence[str]) -> list[Job]:
        values = {
            "ids": ids,
            "owner": self.owner,
            "lease_until": self.now + self.rule.lease,
            "spacings": _seconds({tier: run_spacing(tier, self.rule) for tier in Tier}),
            "bursts": _seconds({tier: run_burst(tier, self.rule) for tier in Tier}),
            "now": self.now,
        }
        rows = self.connection.execute(LEASE, values).fetchall()
        assert len(rows) == len(ids), "their rows are locked"
        jobs = sorted((_job(row) for row in rows), key=lambda job: ids.index(job.id))
        named: dict[str, list[NamedRecord]] = {job.account.id: [] for job in jobs}
        for account_id, external_id, is_listed in self.connection.execute(NAMED, {"ids": ids}):
            named[account_id].append(NamedRecord(external_id=external_id, is_listed=is_listed))
        return [replace(job, requested_ids=ids_to_read(named[job.account.id])) for job in jobs]


def is_any_due(
    connection: Connection[Any],
    now: datetime,
    platforms: Collection[PlatformName],
    without: Collection[PlatformName],
) -> bool:
    """Return True if a claim may find a job."""
    values = {**_values(open_classes(platforms, closed_to(without))), "now": now}
    return connection.execute(IS_ANY_DUE, values).fetchone() == (True,)


def due_places(
    connection: Connection[Any], now: datetime, platforms: Collection[PlatformName], *, limit: int
) -> dict[PlatformName, tuple[int, int]]:
    """Return how many jobs of each platform are due, up to a limit, and how many run."""
    values = {**_values(open_classes(platforms)), "limit": limit, "now": now}
    rows = connection.execute(DUE_PLACES, values).fetchall()
    return {
        PlatformName(name): (min(due, limit), running)
        for name, due, running in rows
        if name in platforms
    }


def _values(classes: Sequence[tuple[PlatformName, int]]) -> dict[str, Any]:
    return {
        "platforms": [platform for platform, _ in classes],
        "scores": [number for _, number in classes],
    }


def _seconds(spans: Mapping[Tier, timedelta]) -> str:
    """Return JSON of spans that PostgreSQL reads as intervals."""
    return json.dumps({tier: f"{span.total_seconds()} s" for tier, span in spans.items()})


def _candidate(row: Sequence[Any]) -> JobCandidate:
    values = dict(zip(JobCandidate.__dataclass_fields__, row, strict=True))
    values["tier"], values["type"] = Tier(values["tier"]), JobType(values["type"])
    values["kind"] = DataKind(values["kind"])
    return JobCandidate(**values)


def _job(row: Sequence[Any]) -> Job:
    *columns, account_id, user_id, platform, shop, owner_id = row
    names = (
        "id",
        "kind",
        "type",
        "tier",
        "fence",
        "cursor",
        "started_at",
        "due_at",
        "retry_count",
        "calls_estimate",
        "run_calls",
        "is_first",
        "enlisted_at",
    )
    values = dict(zip(names, columns, strict=True))
    values["kind"], values["type"] = DataKind(values["kind"]), JobType(values["type"])
    account = Account(
        id=account_id,
        user_id=SellerId(user_id),
        platform=PlatformName(platform),
        shop=shop,
        owner_id=owner_id,
    )
    return Job(**{**values, "tier": Tier(values["tier"])}, account=account)
