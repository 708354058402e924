"""How the jobs of accounts stand, by platform, kind and tier, and which sellers are at their quota.

Both count all rows, in one statement each; the callers read them once a minute or at a scrape.
"""

import json
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from headway.core.accounts.jobs import DataKind, JobRule, PlatformName, Tier, interval
from headway.core.monitoring.metrics import JobsMetric
from headway.store.queries import Queries

# A job is overdue once it has been due for as long as its interval; history has an hour.
AGES = """
SELECT job.platform, job.kind, job.tier, count(*) AS total,
  count(*) FILTER (WHERE is_due) AS due,
  count(*) FILTER (WHERE is_due AND job.next_run_at + span.interval <= %(now)s) AS overdue,
  count(*) FILTER (WHERE is_due AND job.next_run_at <= %(late)s) AS late,
  count(*) FILTER (WHERE job.status = 'plan_limit_reached') AS limited,
  min(job.next_run_at) FILTER (WHERE is_due) AS oldest_due_at,
  max(job.day_calls_at) AS last_call_at
FROM sync_jobs AS job
JOIN jsonb_to_recordset(%(spans)s) AS span (kind text, tier text, interval interval)
  ON span.kind = job.kind AND span.tier = job.tier
CROSS JOIN LATERAL (SELECT job.status IN ('queued', 'completed', 'failed')
  AND job.next_run_at <= %(now)s AND NOT EXISTS (SELECT FROM pauses AS pause
    WHERE (pause.kind = 'all' OR (pause.kind = 'seller' AND pause.user_id = job.user_id))
      AND (pause.until IS NULL OR pause.until > %(now)s)) AS is_due) AS state
WHERE job.status NOT IN ('dead', 'cancelled', 'paused') AND job.platform = ANY (%(platforms)s)
GROUP BY job.platform, job.kind, job.tier ORDER BY job.platform, job.kind, job.tier
"""
AT_QUOTA = """
SELECT count(*) FROM profiles
WHERE orders_month = %(month)s AND orders_count >= (%(quotas)s::jsonb ->> tier)::integer
"""


class JobAges(Queries):
    """Counts over `sync_jobs` and `profiles`."""

    def read(
        self, now: datetime, rule: JobRule, platforms: Collection[PlatformName], *, late: timedelta
    ) -> list[JobsMetric]:
        """Return how the jobs of each platform, kind and tier stand."""
        spans = [
            {
                "kind": kind.value,
                "tier": tier.value,
                "interval": _seconds(interval(tier, kind, rule)),
            }
            for kind in DataKind
            for tier in Tier
        ]
        values = {
            "now": now,
            "late": now - late,
            "spans": json.dumps(spans),
            "platforms": list(platforms),
        }
        return self._read(JobsMetric, AGES, values)

    def sellers_at_quota(self, now: datetime, quotas: Mapping[Tier, int]) -> int:
        """Return how many sellers have used up the month's orders."""
        values = {"month": now.date().replace(day=1), "quotas": json.dumps(quotas)}
        return int(self._one(AT_QUOTA, values)[0])


def _seconds(span: timedelta) -> str:
    return f"{span.total_seconds()} s"
