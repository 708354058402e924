"""When listings were paused, from the history: law L3 excuses that time."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from psycopg import Connection

from headway.core.catalog.listings import SellerId, Sku, SupplierName
from headway.store.pauses import standing

EVENTS = """
SELECT new_value ->> 'kind', nullif(user_id, ''), sku, sync_timestamp,
  event_type = 'sync_paused', (new_value ->> 'until')::timestamptz, new_value ->> 'supplier'
FROM sync_audit_log
WHERE event_type IN ('sync_paused', 'sync_resumed') AND sync_timestamp >= %(since)s
  AND coalesce(new_value ->> 'supplier', %(supplier)s) = %(supplier)s
ORDER BY sync_timestamp, event_type = 'sync_paused', created_at
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span of a pause; None for all sellers, or all parts."""

    seller: SellerId | None
    sku: Sku | None
    starts_at: datetime
    ends_at: datetime


def spans(
    connection: Connection[Any], since: datetime, now: datetime, *, supplier: SupplierName
) -> list[Span]:
    """Return the pauses of a supplier's listings since then; current ones end now."""
    ended: list[Span] = []
    running = {
        (pause.kind.value, pause.seller, pause.sku, pause.supplier): Span(
            seller=pause.seller, sku=pause.sku, starts_at=max(since, pause.since), ends_at=now
        )
        for pause in standing(connection, now)
        if pause.since < since and pause.reaches(supplier)
    }
    values = {"since": since, "supplier": supplier}
    for kind, seller, sku, at, is_pause, until, named in connection.execute(EVENTS, values):
        key = (kind, seller, sku, named)
        # A pause without a start event began before the period.
        begun = running.pop(key, None if is_pause else _from(seller, sku, since, now))
        if is_pause:
            begun = begun or _from(seller, sku, at, now)
            running[key] = replace(begun, ends_at=min(now, until or now))
        elif begun is not None:
            ended.append(replace(begun, ends_at=at))
    return [*ended, *running.values()]


def _from(seller: SellerId | None, sku: Sku | None, at: datetime, now: datetime) -> Span:
    return Span(seller=seller, sku=sku, starts_at=at, ends_at=now)
