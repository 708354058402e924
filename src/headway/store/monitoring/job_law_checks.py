"""The live law check of the account lane: each statement finds what breaks one law of the design.

Nothing here writes; see `law_checks` for the catalog lane's.
"""

from datetime import datetime, timedelta
from typing import Any

from headway.core.limits.rules import Quota, Resource
from headway.core.limits.state import at_us, load
from headway.core.limits.transitions import enter
from headway.store.monitoring.law_checks import EXAMPLES, RESCUE_LATE, FindingQueries, Findings
from headway.store.pause_sql import ALL_PAUSED, is_seller_paused

# Every row of the warehouse that bears another seller's name than its account does.
STRAYS = " UNION ALL ".join(
    f"SELECT '{table}', row.account_id::text, row.user_id FROM {table} AS row"
    " JOIN connected_accounts AS account ON account.id = row.account_id"
    " WHERE row.user_id <> account.user_id"
    for table in (
        "orders", "line_items", "shipments", "refunds", "listings", "customers", "payments",
        "sync_jobs",
    )
)  # fmt: skip
DAY = timedelta(days=1)

# L5: the second cannot happen while the table's own index stands.
LEASES = """
(SELECT user_id, platform || ' ' || kind, 'lease of ' || lease_owner || ' ran out at '
  || to_char(lease_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
  || ' UTC and nobody freed it: no headway is running its rounds'
FROM sync_jobs WHERE status = 'running' AND lease_until < %(late)s
ORDER BY lease_until, id)
UNION ALL
(SELECT min(user_id), min(platform), count(*) || ' jobs of one account run at once'
FROM sync_jobs WHERE status = 'running' GROUP BY account_id HAVING count(*) > 1 ORDER BY 1, 2)
"""
# L10: a row belongs to the seller of its account.
NAMED = f"""
SELECT user_id, what, 'is kept under the account ' || account_id || ', which is another seller''s'
FROM ({STRAYS}) AS stray (what, account_id, user_id) ORDER BY user_id, what
"""
# L12: no job that may run waits for a day, unless its platform does not answer or its quota is
# used up.
STARVED = f"""
SELECT job.user_id, job.platform || ' ' || job.kind, 'has been due since '
  || to_char(next_run_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC; is headway running?'
FROM sync_jobs AS job
WHERE status IN ('queued', 'failed', 'completed') AND next_run_at < %(late)s
  AND NOT EXISTS (SELECT FROM breaker WHERE limit_key = job.platform AND open_until > %(now)s)
  AND NOT {ALL_PAUSED} AND NOT {is_seller_paused("job")}
ORDER BY next_run_at, id
"""
ANY_JOB = "SELECT EXISTS (SELECT FROM sync_jobs)"
QUOTAS = """
SELECT limit_key, rules, state, (SELECT coalesce(sum(used), 0) FROM rate_budgets
  WHERE limit_key = limiter.limit_key AND hour >= %(since)s AND hour <= %(now)s)
FROM limiter WHERE rules @> '[{"kind": "quota"}]' ORDER BY limit_key
"""


class JobLawChecks(FindingQueries):
    """One method for each check."""

    def has_jobs(self) -> bool:
        """Return True if there is anything to check."""
        return self._one(ANY_JOB) == (True,)

    def leases(self, now: datetime) -> Findings:
        """Find jobs under long expired leases, and accounts with two running jobs (L5)."""
        return self._findings(LEASES, {"late": now - RESCUE_LATE})

    def strays(self) -> Findings:
        """Find stored records that bear another seller's name (L10)."""
        return self._findings(NAMED)

    def starved(self, now: datetime) -> Findings:
        """Find jobs that have been due for more than a day (L12)."""
        return self._findings(STARVED, {"late": now - DAY, "now": now})

    def quotas(self, now: datetime) -> tuple[int, Findings]:
        """Count the quotas, and find those of which more is used or reserved than there is (L11).

        What was used is counted twice: by the limiter, and by hour as pages were committed.
        """
        rows = self._rows(QUOTAS, {"since": now - DAY, "now": now})
        wrong = [text for row in rows for text in _overdrawn(*row, now=now)]
        return len(rows), Findings(count=len(wrong), examples=tuple(wrong[:EXAMPLES]))


def _overdrawn(
    key: str, rules: list[dict[str, Any]], stored: dict[str, Any], counted: float, *, now: datetime
) -> list[str]:
    """Return what is wrong with a quota: too much used or reserved, by either count."""
    quotas = tuple(
        Quota(**{name: value for name, value in rule.items() if name != "kind"})
        for rule in rules
        if rule["kind"] == "quota"
    )
    if not stored or not quotas:
        return []
    resource = Resource(key=key, rules=quotas)
    state = enter({key: resource}, {key: load(stored)}, now_us=at_us(now)).states[key]
    reserved = sum(call.reserved for call in state.calls)
    wrong = []
    for quota, meter in zip(quotas, state.quotas, strict=True):
        limit, used = quota.room(meter), quota.used_at(meter, at_us(now))
        if used + reserved > limit:
            wrong.append(f"{key}: {used:g} used and {reserved:g} reserved of {limit:g}")
        if quota.span_s >= DAY.total_seconds() and counted > limit:
            wrong.append(f"{key}: {counted:g} calls were made within 24 h, of {limit:g}")
    return wrong
