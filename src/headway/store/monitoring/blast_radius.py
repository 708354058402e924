"""The live check of law L16: who waits, or was disconnected, because of another's fault.

The database shows consequences only. What a fault costs others in time is judged by the simulation.
"""

from collections.abc import Collection
from datetime import datetime, timedelta

from headway.core.accounts.jobs import PlatformName
from headway.store.monitoring.law_checks import FindingQueries, Findings
from headway.store.pause_sql import ALL_PAUSED, is_seller_paused

# A part that may be written, or a job that may run, waits no longer than this for others.
WAIT_MAX = timedelta(hours=2)
# A shop is written oldest change first: after so many calls nothing older is left, unless a part
# that fails takes the calls. With fewer calls the workers are late, for whatever reason.
CALLS_MIN = 10
# Of fewer accounts one may well use half of a day, and all may be disconnected for good reasons.
SHARERS_MIN, DISCONNECTED_MIN = 3, 5
AT_ONCE = timedelta(minutes=30)

# Parts that are due to be written though their shop answers, beside one that it does not take.
HELD_UP = f"""
SELECT state.user_id, state.sku, 'is to be written since '
  || to_char(state.push_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC; '
  || culprit.sku || ' fails in the same shop (' || coalesce(culprit.push_error, 'no reason') || ')'
FROM listing_state AS state
CROSS JOIN LATERAL (
  SELECT sku, push_error FROM listing_state AS failing
  WHERE failing.user_id = state.user_id AND failing.push_at IS NOT NULL
    AND failing.push_failures > 0
  ORDER BY push_failures DESC, sku LIMIT 1) AS culprit
WHERE state.push_at < %(late)s AND state.push_failures = 0
  AND EXISTS (SELECT FROM connected_accounts AS account
    WHERE account.user_id = state.user_id AND account.status = 'connected')
  AND NOT EXISTS (SELECT FROM breaker
    JOIN connected_accounts AS account ON breaker.limit_key = account.platform
      OR account.shop = regexp_replace(breaker.limit_key, '^.*:', '')
    WHERE account.user_id = state.user_id AND breaker.open_until > %(now)s)
  AND NOT EXISTS (SELECT FROM product_sync_schedule AS row
    WHERE row.user_id = state.user_id AND row.sku = state.sku AND row.is_paused)
  AND NOT {ALL_PAUSED} AND NOT {is_seller_paused("state")}
  AND %(calls_min)s <= (SELECT count(*) FROM (
    SELECT FROM connected_accounts AS account
    JOIN limiter ON regexp_replace(limiter.limit_key, '^.*:', '') = account.shop
    JOIN call_ledger AS call ON call.limit_key = limiter.limit_key
    WHERE account.user_id = state.user_id AND call.begun_at > state.push_at
      AND call.purpose = 'push' AND call.status = 'sent' LIMIT %(calls_min)s) AS calls)
ORDER BY state.push_at, state.user_id, state.sku
"""
# Jobs that wait while one other account has used most of the day that all accounts share.
CROWDED_OUT = f"""
WITH used AS (
  SELECT account_id, platform, sum(day_calls
    * exp(-greatest(0, extract(epoch FROM %(now)s - day_calls_at)::float) / 86400)) AS calls
  FROM sync_jobs WHERE platform = ANY (%(platforms)s) AND day_calls_at IS NOT NULL
  GROUP BY account_id, platform
), top AS (
  SELECT DISTINCT ON (used.platform) used.account_id, used.platform, used.calls, day.calls AS total
  FROM used JOIN (SELECT platform, sum(calls) AS calls, count(*) AS sharers FROM used
    GROUP BY platform) AS day ON day.platform = used.platform
  WHERE day.sharers >= %(sharers_min)s AND 2 * used.calls > day.calls
  ORDER BY used.platform, used.calls DESC
)
SELECT job.user_id, job.platform || ' ' || job.kind, 'has been due since '
  || to_char(job.next_run_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC; '
  || culprit.shop || ' of ' || culprit.user_id || ' made ' || round(top.calls) || ' of '
  || round(top.total) || ' calls of the day'
FROM sync_jobs AS job JOIN top ON top.platform = job.platform AND top.account_id <> job.account_id
JOIN connected_accounts AS culprit ON culprit.id = top.account_id
WHERE job.status IN ('queued', 'completed', 'failed') AND NOT job.is_backfill
  AND job.next_run_at < %(late)s
  AND NOT EXISTS (SELECT FROM breaker WHERE limit_key = job.platform AND open_until > %(now)s)
  AND NOT {ALL_PAUSED} AND NOT {is_seller_paused("job")}
ORDER BY job.next_run_at, job.id
"""
# Most accounts of a platform, all at once: that is the platform's fault or ours, not theirs.
DISCONNECTED = """
SELECT 'all sellers', platform, lost || ' of ' || total
  || ' accounts were disconnected within half an hour of '
  || to_char(last_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC'
FROM (
  SELECT account.platform, newest.last_at, count(*) AS total, count(*) FILTER (
    WHERE status = 'disconnected' AND updated_at > newest.last_at - %(at_once)s) AS lost
  FROM connected_accounts AS account JOIN (
    SELECT platform, max(updated_at) AS last_at FROM connected_accounts
    WHERE status = 'disconnected' GROUP BY platform) AS newest USING (platform)
  GROUP BY account.platform, newest.last_at) AS losses
WHERE lost >= %(lost_min)s AND 2 * lost > total ORDER BY platform
"""


class BlastRadiusChecks(FindingQueries):
    """One method for each way in which a fault may reach others."""

    def held_up(self, now: datetime) -> Findings:
        """Find parts that wait to be written beside one that their shop does not take."""
        values = {"late": now - WAIT_MAX, "now": now, "calls_min": CALLS_MIN}
        return self._findings(HELD_UP, values)

    def crowded_out(self, now: datetime, platforms: Collection[PlatformName]) -> Findings:
        """Find jobs that wait while one account uses most of a day that `platforms` share."""
        values = {
            "late": now - WAIT_MAX,
            "now": now,
            "platforms": list(platforms),
            "sharers_min": SHARERS_MIN,
        }
        return self._findings(CROWDED_OUT, values)

    def disconnected(self) -> Findings:
        """Find platforms most of whose accounts were disconnected at once."""
        return self._findings(DISCONNECTED, {"at_once": AT_ONCE, "lost_min": DISCONNECTED_MIN})
