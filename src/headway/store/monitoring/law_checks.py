"""The live law check: each statement finds the rows that break one law of the design.

Nothing here writes. A statement returns the number of offenders and the first few, each as
(seller, SKU, what is wrong); what cannot be judged from the tables is not asked here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from headway.core.catalog.listings import MAIN, SupplierName
from headway.core.limits.rules import Window
from headway.core.pauses import PauseEvent, PauseSpan, pause_spans
from headway.core.timetable.outages import ANSWERED, LoggedCall, Outage
from headway.store.pause_sql import ALL_PAUSED, is_seller_paused
from headway.store.pauses import active_pauses
from headway.store.pool import guarded
from headway.store.queries import Queries, read_as

EXAMPLES = 5
RESCUE_LATE = timedelta(minutes=5)
# A lost worker's shop is taken over minutes after its lease; see `store.catalog.pushes`.
TAKEOVER_LATE = timedelta(minutes=10)
DAY = timedelta(days=1)

# The error of a failure that counts against one SKU; a failed call alone proves nothing (L8).
EVIDENCE = (
    "unusable line:%",
    "every call with this SKU fails:%",
    "not in the supplier's reply%",
    "taken over with %",  # counted by the program that had the database before
)

# L3: older than the policy allows, less the time during which the supplier gave no answer or it was
# paused. What is paused now is left aside. A
# listing whose own SKU fails is not read because of what the supplier says about it, and one that
# was just revived or requested is in the next call.
LATE = """
WITH old AS (
  SELECT user_id, sku, coalesce(last_successful_sync, created_at) AS read_at
  FROM product_sync_schedule
  WHERE supplier = %(supplier)s AND is_active AND NOT is_paused AND consecutive_failures = 0
    AND coalesce(last_successful_sync, created_at) < %(now)s - %(age_max)s
    AND NOT (priority IN ('manual', 'onboarding') AND next_sync_at > %(now)s - interval '1 hour')
), judged AS (
  SELECT old.*, (
    SELECT coalesce(sum(upper(span) - lower(span)), '0') FROM unnest((
      SELECT range_agg(tstzrange(
        greatest(starts_at, read_at - %(age_max)s), least(ends_at, %(now)s)))
      FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[], %(sellers)s::text[],
        %(skus)s::text[]) AS silence(starts_at, ends_at, seller, part)
      WHERE ends_at > read_at - %(age_max)s AND starts_at < %(now)s
        AND coalesce(seller, user_id) = user_id AND coalesce(part, sku) = sku
    )) AS span) AS excused
  FROM old
)
SELECT user_id, sku,
  'last good read ' || to_char(read_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC'
FROM judged WHERE %(now)s - read_at - excused > %(age_max)s
ORDER BY read_at, user_id, sku
"""
OLD_COUNTS = """
SELECT count(*) FILTER (WHERE consecutive_failures = 0),
       count(*) FILTER (WHERE consecutive_failures > 0)
FROM product_sync_schedule
WHERE supplier = %(supplier)s AND is_active AND NOT is_paused
  AND coalesce(last_successful_sync, created_at) < %(now)s - %(age_max)s
"""
SKU_COUNT = """
SELECT count(DISTINCT sku) FROM product_sync_schedule
WHERE supplier = %(supplier)s AND is_active AND NOT is_paused
"""

# L5: the first cannot happen while the table's own constraint stands. A shop is left alone only
# as long as its worker may be alive.
LEASES = f"""
(SELECT user_id, sku, CASE
  WHEN lease_until IS NULL OR lease_owner IS NULL THEN 'is being read under no lease'
  ELSE 'lease of ' || lease_owner || ' ran out at '
       || to_char(lease_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
       || ' UTC and nobody freed it: no headway is running its rounds' END
FROM product_sync_schedule
WHERE sync_status = 'syncing'
  AND (lease_until IS NULL OR lease_owner IS NULL OR lease_until < %(late)s)
ORDER BY lease_until NULLS FIRST, user_id, sku)
UNION ALL
(SELECT user_id, shop, 'lease of ' || push_owner || ' ran out at '
  || to_char(push_lease_until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS')
  || ' UTC and nobody took over: no headway is pushing'
FROM connected_accounts AS account
WHERE status = 'connected' AND push_lease_until < %(silent)s
  AND NOT {ALL_PAUSED} AND NOT {is_seller_paused("account")}
ORDER BY push_lease_until, user_id)
"""

# L6: what was observed must be desired, held or rejected; what is desired must be applied or due;
# and a write with an unknown result is read back.
LOST = f"""
(SELECT user_id, sku, CASE
  WHEN desired_version < applied_version THEN 'applied version ' || applied_version
       || ' is ahead of the desired version ' || desired_version
  WHEN desired IS NULL THEN 'was observed, but nothing is desired, held or rejected'
  WHEN NOT coalesce(applied -> 'channels', '[]') @> (desired -> 'channels')
    THEN 'is not visible on its sales channels, and nothing is to publish it'
  ELSE 'the shop does not show what is desired, and nothing is to push it' END
FROM listing_state
WHERE desired_version < applied_version
   OR (held_reason IS NULL AND CASE WHEN desired IS NULL
       THEN observed IS NOT NULL AND rejected IS NULL
       ELSE push_at IS NULL AND desired IS DISTINCT FROM applied END)
ORDER BY user_id, sku)
UNION ALL
(SELECT intent.user_id, intent.skus[1], 'its ' || kind || ' was sent at '
  || to_char(intent.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI')
  || ' UTC and nobody has checked its result'
FROM push_intent AS intent JOIN connected_accounts AS account ON account.id = intent.account_id
WHERE state = 'open' AND account.status = 'connected'
  AND NOT {ALL_PAUSED} AND NOT {is_seller_paused("intent")}
  AND NOT EXISTS (SELECT FROM product_sync_schedule AS row WHERE row.is_paused
    AND row.user_id = intent.user_id AND row.sku = ANY (intent.skus))
  AND intent.created_at < CASE kind WHEN 'bulk' THEN %(bulk_late)s ELSE %(late)s END
ORDER BY intent.created_at, intent.id)
"""

# L7: one push sends one write, and nothing is sent again while an earlier result is unknown.
DOUBLED = """
(SELECT user_id, min(skus[1]), count(*) || ' writes were sent in one push'
FROM push_intent WHERE kind <> 'bulk'
GROUP BY account_id, user_id, fence HAVING count(*) > 1 ORDER BY user_id, fence)
UNION ALL
(SELECT user_id, sku, count(*) || ' open intents write its ' || facet
FROM (
  SELECT account_id, user_id, unnest(skus) AS sku, CASE kind WHEN 'bulk' THEN 'price'
    WHEN 'activate' THEN 'stock' ELSE kind END AS facet
  FROM push_intent WHERE state = 'open') AS unsure
GROUP BY account_id, user_id, sku, facet HAVING count(*) > 1 ORDER BY user_id, sku)
"""

# L8: each failure counted against a SKU needs an event that names evidence about that very SKU.
BLAMED = """
SELECT row.user_id, row.sku, CASE
  WHEN last.failures IS NULL THEN row.consecutive_failures || ' failures, none with evidence'
  ELSE row.consecutive_failures || ' failures, evidence for ' || last.failures END
FROM product_sync_schedule AS row
LEFT JOIN LATERAL (
  SELECT max((new_value ->> 'failures')::int) AS failures FROM sync_audit_log AS event
  WHERE event.sku = row.sku AND event.user_id = row.user_id AND event_type = 'sync_failed'
    AND sync_timestamp >= coalesce(row.last_successful_sync, row.created_at)
    AND error_message LIKE ANY(%(evidence)s)
) AS last ON true
WHERE (row.consecutive_failures > 0 OR row.sync_status = 'parked')
  AND coalesce(last.failures, 0) < greatest(row.consecutive_failures, 1)
ORDER BY row.user_id, row.sku
"""

# L9: a price is plain digits above zero, in the currency of the shop. What is held may be what a
# shop asked before it was ours. Nothing is written to a shop before a person has started it.
HARMFUL = """
(SELECT user_id, sku, CASE WHEN applied ->> 'price' ~ '^(-|[0.]+$)'
    AND held_reason IS NULL THEN 'the shop shows the price ' || (applied ->> 'price')
  ELSE 'desired price ' || coalesce(desired ->> 'price', 'missing') || ' '
    || coalesce(desired ->> 'currency', '(no currency)') END
FROM listing_state
WHERE (held_reason IS NULL AND applied ->> 'price' ~ '^(-|[0.]+$)')
   OR (desired IS NOT NULL AND (
     coalesce(desired ->> 'currency', '') <> coalesce((SELECT profile.currency
       FROM profiles AS profile WHERE profile.user_id = listing_state.user_id), %(currency)s)
     OR coalesce(desired ->> 'price', '') !~ '^[0-9]+(\\.[0-9]+)?$'
     OR (held_reason IS NULL AND (desired ->> 'price') ~ '^[0.]+$')))
ORDER BY user_id, sku)
UNION ALL
(SELECT intent.user_id, intent.skus[1], 'its ' || intent.kind || ' was sent at '
  || to_char(intent.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI')
  || ' UTC to a shop that nobody had started'
FROM push_intent AS intent JOIN connected_accounts AS account ON account.id = intent.account_id
WHERE account.push_started_at IS NULL OR intent.created_at < account.push_started_at
ORDER BY intent.created_at, intent.id)
"""

# L10: the foreign key forbids the first; a restored or hand-made database may lack the key.
STRAYS = """
(SELECT user_id, sku, 'has a state but no schedule row of the same seller'
FROM listing_state AS state
WHERE NOT EXISTS (SELECT FROM product_sync_schedule AS row
                  WHERE row.user_id = state.user_id AND row.sku = state.sku)
ORDER BY user_id, sku)
UNION ALL
(SELECT user_id, named.sku, 'was written to the shop of ' || user_id || ', who does not list it'
FROM push_intent AS intent CROSS JOIN LATERAL unnest(skus) AS named(sku)
WHERE created_at >= %(since)s
  AND NOT EXISTS (SELECT FROM listing_state AS state
                  WHERE state.user_id = intent.user_id AND state.sku = named.sku)
ORDER BY user_id, named.sku)
"""

CALLS = """
SELECT begun_at, finished_at, status, result FROM call_ledger
WHERE limit_key = %(key)s AND begun_at >= %(since)s AND status IN ('sent', 'unsent')
ORDER BY begun_at
"""
PAUSE_EVENTS = """
SELECT new_value ->> 'kind' AS kind, nullif(user_id, '') AS seller, sku,
  new_value ->> 'supplier' AS supplier, sync_timestamp AS at,
  event_type = 'sync_paused' AS is_pause, (new_value ->> 'until')::timestamptz AS until
FROM sync_audit_log
WHERE event_type IN ('sync_paused', 'sync_resumed') AND sync_timestamp >= %(since)s
  AND coalesce(new_value ->> 'supplier', %(supplier)s) = %(supplier)s
ORDER BY sync_timestamp, event_type = 'sync_paused', created_at
"""
FILL = """
SELECT count(*), coalesce(sum(cardinality(skus)), 0), coalesce(sum(seats_paid), 0) FROM call_ledger
WHERE limit_key = %(key)s AND begun_at >= %(since)s AND status = 'sent' AND seats_paid > 0
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """How many rows break a law, and the first few of them."""

    count: int = 0
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingAges:
    """Law L3 in numbers: late listings, excused ones, and whether the seats suffice."""

    late: Findings
    excused_count: int
    failing_count: int
    sku_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """Seats used and paid for, in how many calls."""

    calls: int
    seats_used: int
    seats_paid: int


class FindingQueries(Queries):
    """Statements that return offenders as (seller, subject, what is wrong)."""

    def _findings(self, statement: str, values: Mapping[str, Any] | None = None) -> Findings:
        counted = f"SELECT *, count(*) OVER () FROM ({statement}) AS offender LIMIT {EXAMPLES}"
        rows = self._rows(counted, values or {})
        return Findings(
            count=rows[0][3] if rows else 0,
            examples=tuple(f"{subject} of {seller}: {wrong}" for seller, subject, wrong, _ in rows),
        )


class LawChecks(FindingQueries):
    """One method for each law."""

    def ages(
        self,
        now: datetime,
        *,
        supplier: SupplierName = MAIN,
        age_max: timedelta,
        outages: Sequence[Outage],
    ) -> ListingAges:
        """Find a supplier's listings whose good read is too old (L3); pauses excuse them too."""
        silences = self._pause_spans(now - 2 * age_max - DAY, now, supplier) + [
            PauseSpan(seller=None, sku=None, starts_at=outage.starts_at, ends_at=outage.ends_at)
            for outage in outages
        ]
        values = {
            "supplier": supplier,
            "now": now,
            "age_max": age_max,
            "starts": [silence.starts_at for silence in silences],
            "ends": [silence.ends_at for silence in silences],
            "sellers": [silence.seller for silence in silences],
            "skus": [silence.sku for silence in silences],
        }
        late = self._findings(LATE, values)
        old, failing = self._one(OLD_COUNTS, values)
        (sku_count,) = self._one(SKU_COUNT, values)
        return ListingAges(
            late=late,
            excused_count=old - late.count,
            failing_count=failing,
            sku_count=sku_count,
        )

    def _pause_spans(
        self, since: datetime, now: datetime, supplier: SupplierName
    ) -> list[PauseSpan]:
        """Return the pauses of a supplier's listings since then; current ones end now."""
        values = {"since": since, "supplier": supplier}
        with guarded(), self._pool.connection() as connection:
            pauses = [pause for pause in active_pauses(connection, now) if pause.reaches(supplier)]
            events = read_as(connection, PauseEvent, PAUSE_EVENTS, values)
        return pause_spans(pauses, events, since=since, now=now)

    def leases(self, now: datetime) -> Findings:
        """Find leases without an owner, and rows and shops under long expired leases (L5)."""
        return self._findings(
            LEASES, {"late": now - RESCUE_LATE, "silent": now - TAKEOVER_LATE, "now": now}
        )

    def lost(self, now: datetime) -> Findings:
        """Find observations, desired states and writes that led nowhere (L6)."""
        return self._findings(LOST, {"late": now - DAY, "bulk_late": now - 3 * DAY, "now": now})

    def doubled(self) -> Findings:
        """Find writes that may have been sent twice (L7)."""
        return self._findings(DOUBLED)

    def blamed(self) -> Findings:
        """Find failures without evidence about the SKU itself (L8)."""
        return self._findings(BLAMED, {"evidence": list(EVIDENCE)})

    def harmful(self, currency: str) -> Findings:
        """Find prices that no shop may show (L9)."""
        return self._findings(HARMFUL, {"currency": currency})

    def strays(self, now: datetime) -> Findings:
        """Find states without a schedule row, and a day's writes without a listing (L10)."""
        return self._findings(STRAYS, {"since": now - DAY})

    def calls(self, key: str, *, since: datetime) -> list[LoggedCall]:
        """Return the finished calls of the ledger."""
        return self._read(_logged, CALLS, {"key": key, "since": since})

    def windows(self) -> dict[str, list[Window]]:
        """Return the windows each limited resource was last used under, by key."""
        rows = self._rows("SELECT limit_key, rules FROM limiter ORDER BY limit_key")
        return {
            key: [_window(rule) for rule in rules if rule["kind"] == "window"]
            for key, rules in rows
        }

    def fill(self, key: str, *, since: datetime) -> Fill:
        """Count the seats of the price calls that were sent."""
        calls, used, paid = self._one(FILL, {"key": key, "since": since})
        return Fill(calls=calls, seats_used=used, seats_paid=paid)


def _logged(
    begun_at: datetime, finished_at: datetime | None, status: str, result: str | None
) -> LoggedCall:
    # An unused permit says nothing about the supplier, unless no connection was possible.
    was_answered = status == "sent" or result not in ANSWERED
    return LoggedCall(
        begun_at=begun_at, finished_at=finished_at, result=result if was_answered else None
    )


def _window(rule: Mapping[str, Any]) -> Window:
    return Window(**{name: value for name, value in rule.items() if name != "kind"})
