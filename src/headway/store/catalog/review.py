"""People's decisions about changes: approve, reject, roll back, and revive parked listings.

Each verb is one transaction with its events. A listing's row in the schedule is locked before its
state, as claim and settle do. A read under way would judge by what a person has just changed: its
lease ends here, the fence refuses its settle, and the part is due again.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from psycopg import Connection
from pydantic import computed_field

from headway.core.catalog.listings import SellerId, Sku
from headway.core.catalog.review import (
    ReviewedListing,
    Ruling,
    ShownVersions,
    approve,
    reject,
    roll_back,
    total_version,
    version_of,
)
from headway.core.pauses import longest
from headway.core.reasons import describe_pause
from headway.errors import ConflictError, InvalidError, NotFoundError
from headway.store import cursors
from headway.store.catalog.sellers import lift_mass_guard
from headway.store.catalog.suppliers import Suppliers
from headway.store.pauses import active_pauses
from headway.store.pool import Lent, guarded
from headway.store.queries import Queries, read_as

MASS_LIFTED = timedelta(hours=24)
NAMED_MAX = 5
ANY_VERSION = ShownVersions()
WOULD = "would be "
Key = tuple[SellerId, Sku]

REQUESTED = "unnest(%(user_ids)s::text[], %(skus)s::text[]) AS requested(user_id, sku)"
HELD = """
SELECT user_id AS seller, sku, held_reason AS reason, held_at, desired AS old,
  coalesce(proposed, observed) AS new, proposed IS NOT NULL AS can_approve
FROM listing_state
WHERE held_reason IS NOT NULL AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
  AND (%(sku)s::text IS NULL OR sku = %(sku)s)
  AND (%(held_at)s::timestamptz IS NULL
       OR (held_at, user_id, sku) > (%(held_at)s, %(after_user)s, %(after_sku)s))
ORDER BY held_at, user_id, sku LIMIT %(limit)s
"""
HELD_KEYS = """
SELECT user_id, sku FROM listing_state
WHERE held_reason IS NOT NULL AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
"""
PARKED_KEYS = """
SELECT user_id, sku FROM product_sync_schedule
WHERE sync_status = 'parked' AND (%(user_id)s::text IS NULL OR user_id = %(user_id)s)
"""
# What was written to the shop since, or is still to be written.
CHANGED_KEYS = """
SELECT user_id, sku FROM product_sync_schedule WHERE user_id = %(user_id)s AND sku IN (
  SELECT sku FROM sync_audit_log WHERE user_id = %(user_id)s AND sync_timestamp >= %(since)s
    AND event_type IN ('shopify_updated', 'product_published')
  UNION SELECT sku FROM listing_state WHERE user_id = %(user_id)s AND desired_at >= %(since)s)
"""
SELLERS = """
SELECT sku, array_agg(user_id ORDER BY user_id) FROM product_sync_schedule
WHERE sku = ANY(%(skus)s) GROUP BY sku
"""
LOCK = f"""
SELECT row.user_id, row.sku FROM product_sync_schedule AS row JOIN {REQUESTED} USING (user_id, sku)
ORDER BY row.id FOR UPDATE OF row
"""
END_LEASES = f"""
UPDATE product_sync_schedule AS row SET
  sync_status = CASE last_sync_status WHEN 'pending' THEN 'pending' WHEN 'failed' THEN 'failed'
                ELSE 'success' END,
  fence = row.fence + 1, lease_owner = NULL, lease_until = NULL
FROM {REQUESTED}
WHERE row.user_id = requested.user_id AND row.sku = requested.sku AND row.sync_status = 'syncing'
"""
READ = f"""
SELECT user_id, sku, state.observed, state.desired, state.proposed, state.rejected,
  state.held_reason
FROM {REQUESTED} JOIN listing_state AS state USING (user_id, sku)
ORDER BY user_id, sku FOR UPDATE OF state
"""
# The state that the shop had then: after the last write before that instant, or else before the
# first one after it.
HISTORY = f"""
SELECT requested.user_id, requested.sku, coalesce(earlier.state, later.state) FROM {REQUESTED}
LEFT JOIN LATERAL (
  SELECT new_value AS state FROM sync_audit_log AS log
  WHERE log.user_id = requested.user_id AND log.sku = requested.sku AND log.sync_timestamp <= %(to)s
    AND event_type IN ('shopify_updated', 'product_published') AND new_value ->> 'price' <> ''
  ORDER BY sync_timestamp DESC LIMIT 1) AS earlier ON true
LEFT JOIN LATERAL (
  SELECT old_value AS state FROM sync_audit_log AS log
  WHERE log.user_id = requested.user_id AND log.sku = requested.sku AND log.sync_timestamp > %(to)s
    AND event_type IN ('shopify_updated', 'product_published')
  ORDER BY sync_timestamp LIMIT 1) AS later ON true
"""
WRITE = """
WITH new AS (
  SELECT * FROM jsonb_to_recordset(%(rows)s::jsonb) AS new(
    user_id text, sku text, desired jsonb, rejected jsonb, old_value jsonb, new_value jsonb)
), written AS (
  UPDATE listing_state AS row SET
    desired = coalesce(new.desired, row.desired),
    desired_version = row.desired_version + CASE WHEN new.desired IS NULL THEN 0 ELSE 1 END,
    desired_at = CASE WHEN new.desired IS NULL THEN row.desired_at ELSE %(now)s END,
    push_at = CASE WHEN new.desired IS NULL THEN row.push_at ELSE %(now)s END,
    held_reason = NULL, held_at = NULL, proposed = NULL, rejected = new.rejected
  FROM new WHERE row.user_id = new.user_id AND row.sku = new.sku
)
INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, old_value, new_value,
  error_message, created_at)
SELECT user_id, sku, %(now)s, %(kind)s, old_value, new_value, %(reason)s, %(now)s FROM new
"""
# A part whose first quote was blocked is published by that quote, once a person approved it.
UNBLOCK = f"""
UPDATE product_staging AS row SET status = 'normalized', reason = '', updated_at = %(now)s
FROM {REQUESTED}
WHERE row.user_id = requested.user_id AND row.sku = requested.sku AND row.status = 'blocked'
"""
# A part that was taken off sale returns to its earlier status: the stored one if the shop was not
# written yet, otherwise the one before. What the shop shows of a removed part is the merchant's:
# it is read there anew, and the first price is guarded as one of a takeover.
REVIVE = f"""
WITH old AS (
  SELECT row.id, row.removed_at IS NOT NULL AS was_removed
  FROM product_sync_schedule AS row JOIN {REQUESTED} USING (user_id, sku)
  WHERE row.sync_status = 'parked' OR row.removed_at IS NOT NULL
), revived AS (
  UPDATE product_sync_schedule AS row SET is_active = true, sync_status = 'pending',
    consecutive_failures = 0, missing_count = 0, suspicion = 0, last_error = NULL,
    last_boeing_hash = CASE WHEN old.was_removed THEN NULL ELSE row.last_boeing_hash END,
    removed_at = NULL, priority = 'manual', next_sync_at = %(now)s, updated_at = %(now)s
  FROM old WHERE row.id = old.id
  RETURNING row.user_id, row.sku, old.was_removed
), offer AS (
  SELECT user_id, sku, was_removed, state.desired AS old_value,
    CASE WHEN state.desired ->> 'status' = 'DRAFT' THEN state.desired || jsonb_build_object(
      'status', coalesce(nullif(product.status, 'DRAFT'), product.former_status, 'ACTIVE'))
    END AS new_value
  FROM revived JOIN listing_state AS state USING (user_id, sku)
  LEFT JOIN product USING (user_id, sku)
  WHERE was_removed OR state.desired ->> 'status' = 'DRAFT'
), offered AS (
  UPDATE listing_state AS row SET
    desired = offer.new_value, desired_version = row.desired_version + 1, desired_at = %(now)s,
    push_at = CASE WHEN offer.new_value IS NOT NULL THEN %(now)s END,
    observed = CASE WHEN offer.new_value IS NOT NULL THEN row.observed END,
    applied = CASE WHEN NOT was_removed THEN row.applied END,
    applied_at = CASE WHEN NOT was_removed THEN row.applied_at END,
    applied_version = CASE WHEN was_removed THEN 0 ELSE row.applied_version END,
    verified_at = CASE WHEN NOT was_removed THEN row.verified_at END
  FROM offer WHERE row.user_id = offer.user_id AND row.sku = offer.sku
)
INSERT INTO sync_audit_log
  (user_id, sku, sync_timestamp, event_type, old_value, new_value, created_at)
SELECT user_id, sku, %(now)s, 'listing_revived',
  CASE WHEN new_value IS NOT NULL THEN old_value END, new_value, %(now)s
FROM revived LEFT JOIN offer USING (user_id, sku)
RETURNING user_id, sku, old_value, new_value
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldChange:
    """A held change; `new` is the observation if the change cannot be approved.

    A decision that names `version` is refused if the change is another one by then.
    """

    seller: SellerId
    sku: Sku
    reason: str
    """Why it is held. Example: `the price would rise by 127 %`"""
    held_at: datetime
    """When it was held."""
    old: Mapping[str, Any] | None
    """What the shop should show today; null if it shows nothing.
    Example: `{"price": "118.00", "currency": "USD"}`
    """
    new: Mapping[str, Any] | None
    """What the shop would show; the supplier's data if the change cannot be approved.
    Example: `{"price": "129.90", "currency": "USD"}`
    """
    can_approve: bool
    """False if it can only be rejected, for lack of a usable price."""

    @property
    def price_old(self) -> Decimal | None:
        """The price in the shop until then."""
        return _price(self.old)

    @property
    def price_new(self) -> Decimal | None:
        """The price that an approval would push; None if the change cannot be approved."""
        return _price(self.new) if self.can_approve else None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def version(self) -> str:
        """Differs if the change differs; send it with the decision."""
        return version_of(self.old, self.new)

    @property
    def cursor(self) -> str:
        """The cursor of the rows after it."""
        return cursors.encode(self.held_at, self.seller, self.sku)


def _price(values: Mapping[str, Any] | None) -> Decimal | None:
    price = (values or {}).get("price")
    return None if price is None else Decimal(str(price))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRule:
    """What a person decides, of the changes that the person was shown."""

    kind: str
    rule: Callable[[ReviewedListing], Ruling]
    shown: ShownVersions
    dry_run: bool

    def rule_all(self, states: Sequence[ReviewedListing]) -> list[Ruling]:
        """Return a ruling for each listing; raises ConflictError if the batch is another one."""
        rulings = [self.shown.check(self.rule(state)) for state in states]
        if self.shown.total not in {None, total_version(rulings)}:
            raise ConflictError(
                f"these changes are not the ones that were shown, there are now {len(rulings):,};"
                " nothing was done; look at them again"
            )
        return rulings


class Review(Queries):
    """Held changes and parked listings."""

    def held(
        self,
        user_id: SellerId | None = None,
        *,
        sku: Sku | None = None,
        limit: int,
        cursor: str | None = None,
    ) -> list[HeldChange]:
        """Return held changes of one seller or of all, the oldest first, from a cursor on."""
        after = cursors.decode(cursor, datetime, str, str) if cursor else (None, None, None)
        names = ("held_at", "after_user", "after_sku")
        values = {
            "user_id": user_id,
            "sku": sku,
            "limit": limit,
            **dict(zip(names, after, strict=True)),
        }
        return self._read(HeldChange, HELD, values)

    def sellers_of(self, skus: Sequence[Sku]) -> dict[Sku, list[SellerId]]:
        """Return the sellers of each of these SKUs, without SKUs that nobody lists."""
        return dict(self._rows(SELLERS, {"skus": list(skus)}))

    def approve(
        self,
        user_id: SellerId,
        skus: Sequence[Sku],
        *,
        reason: str,
        now: datetime,
        shown: ShownVersions = ANY_VERSION,
        dry_run: bool = False,
    ) -> list[Ruling]:
        """Approve held changes; return a result for each SKU."""
        decision = DecisionRule(kind="change_approved", rule=approve, shown=shown, dry_run=dry_run)
        with self._transaction() as connection:
            keys = _lock(connection, [(user_id, sku) for sku in skus])
            return _decide(connection, keys, decision, reason=reason, now=now)

    def approve_all(
        self,
        user_id: SellerId | None,
        *,
        reason: str,
        now: datetime,
        shown: ShownVersions = ANY_VERSION,
        dry_run: bool = False,
    ) -> list[Ruling]:
        """Approve everything held, of one seller or of all.

        For a day the guard against mass changes lets the rest of these sellers' change pass too.
        """
        require_reason(reason, dry_run=dry_run)
        decision = DecisionRule(kind="change_approved", rule=approve, shown=shown, dry_run=dry_run)
        with self._transaction() as connection:
            keys = _lock(connection, connection.execute(HELD_KEYS, {"user_id": user_id}))
            rulings = _decide(connection, keys, decision, reason=reason, now=now)
            if not dry_run:
                sellers = sorted({ruling.seller for ruling in rulings if ruling.is_done})
                lift_mass_guard(Lent(connection), sellers, until=now + MASS_LIFTED, now=now)
        return rulings

    def reject(
        self,
        user_id: SellerId,
        skus: Sequence[Sku],
        *,
        reason: str,
        now: datetime,
        shown: ShownVersions = ANY_VERSION,
        dry_run: bool = False,
    ) -> list[Ruling]:
        """Reject held changes: the shop stays as it is, and the same quote is not held again."""
        decision = DecisionRule(kind="change_rejected", rule=reject, shown=shown, dry_run=dry_run)
        with self._transaction() as connection:
            keys = _lock(connection, [(user_id, sku) for sku in skus])
            return _decide(connection, keys, decision, reason=reason, now=now)

    def rollback(
        self,
        user_id: SellerId,
        skus: Sequence[Sku] | None = None,
        *,
        since: datetime | None = None,
        to: datetime,
        reason: str,
        now: datetime,
        shown: ShownVersions = ANY_VERSION,
        dry_run: bool = False,
    ) -> list[Ruling]:
        """Give listings, or all that changed since an instant, the price the shop showed at `to`.

        Stock stays as the supplier quotes it. The quote that is undone is not applied again.
        """
        assert (skus is None) != (since is None), "either listings or an instant"
        with self._transaction() as connection:
            requested: Iterable[Key] = [(user_id, sku) for sku in skus or ()]
            if since is not None:
                requested = connection.execute(CHANGED_KEYS, {"user_id": user_id, "since": since})
            keys = _lock(connection, requested)
            rows = connection.execute(HISTORY, {**_columns(keys), "to": to}).fetchall()
            past = {(seller, sku): state for seller, sku, state in rows}

            def rule(state: ReviewedListing) -> Ruling:
                return roll_back(state, past.get((state.user_id, state.sku)))

            decision = DecisionRule(kind="rolled_back", rule=rule, shown=shown, dry_run=dry_run)
            return _decide(connection, keys, decision, reason=reason, now=now)

    def revive(self, user_id: SellerId, skus: Sequence[Sku], *, now: datetime) -> list[Ruling]:
        """Revive parked listings: back on sale as they were, and due for the next call."""
        with self._transaction() as connection:
            return _revive(connection, _lock(connection, [(user_id, sku) for sku in skus]), now)

    def revive_all(self, user_id: SellerId | None, *, now: datetime) -> list[Ruling]:
        """Revive everything parked, of one seller or of all."""
        with self._transaction() as connection:
            parked = connection.execute(PARKED_KEYS, {"user_id": user_id})
            return _revive(connection, _lock(connection, parked), now)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with guarded(), self._pool.connection() as connection, connection.transaction():
            yield connection


def _lock(connection: Connection, requested: Iterable[Key]) -> list[Key]:
    """Lock these listings until the transaction ends; raise NotFoundError for unknown SKUs."""
    keys = list(dict.fromkeys(requested))
    known = set(connection.execute(LOCK, _columns(keys)).fetchall())
    require_listed([key for key in keys if key not in known])
    return keys


def require_reason(reason: str, *, dry_run: bool) -> None:
    """Raise InvalidError if everything is approved without a reason."""
    if not reason.strip() and not dry_run:
        raise InvalidError("give a reason for approving everything: it is kept with each change")


def require_listed(unknown: Sequence[Key]) -> None:
    """Raise NotFoundError that names the listings of a request that do not exist, if any."""
    if unknown:
        named = ", ".join(sku for _, sku in unknown[:NAMED_MAX])
        more = f" and {len(unknown) - NAMED_MAX} more" if len(unknown) > NAMED_MAX else ""
        raise NotFoundError(f"{unknown[0][0]} does not list {named}{more}; nothing was done")


def _decide(
    connection: Connection,
    keys: Sequence[Key],
    decision: DecisionRule,
    *,
    reason: str,
    now: datetime,
) -> list[Ruling]:
    """Decide on each listing and write what is done, with its event, unless it is a dry run."""
    states = _read(connection, keys)
    rulings = decision.rule_all(states)
    if decision.dry_run:
        return [
            replace(one, message=WOULD + one.message) if one.is_done else one for one in rulings
        ]
    rows = [
        {
            "user_id": ruling.seller,
            "sku": ruling.sku,
            "desired": None if decision.kind == "change_rejected" else ruling.new,
            "rejected": None if decision.kind == "change_approved" else state.quoted(),
            "old_value": ruling.old,
            "new_value": ruling.new,
        }
        for state, ruling in zip(states, rulings, strict=True)
        if ruling.is_done
    ]
    if rows:
        done = [(ruling.seller, ruling.sku) for ruling in rulings if ruling.is_done]
        connection.execute(END_LEASES, _columns(done))
        values = {"rows": json.dumps(rows), "reason": reason or None, "now": now}
        connection.execute(WRITE, {**values, "kind": decision.kind})
        if decision.kind == "change_approved":
            first = [(one.seller, one.sku) for one in rulings if one.is_done and one.old is None]
            connection.execute(UNBLOCK, {**_columns(first), "now": now})
    return rulings


def _revive(connection: Connection, keys: Sequence[Key], now: datetime) -> list[Ruling]:
    _read(connection, keys)  # which locks them in the order that everybody keeps
    rows = connection.execute(REVIVE, {**_columns(keys), "now": now}).fetchall()
    revived = {(seller, sku): (old, new) for seller, sku, old, new in rows}
    pauses = active_pauses(connection, now)
    bought = Suppliers(Lent(connection)).of_sellers({seller for seller, _ in keys})

    def outcome(seller: SellerId, sku: Sku) -> str:
        pause = longest(
            pause for pause in pauses if pause.covers(seller, sku) and pause.reaches(bought[seller])
        )
        paused = "" if pause is None else f"; {pause.what} is {describe_pause(pause, now)}"
        return ("revived" if (seller, sku) in revived else "not parked") + paused

    return [
        Ruling(
            seller=seller,
            sku=sku,
            is_done=(seller, sku) in revived,
            message=outcome(seller, sku),
            old=revived.get((seller, sku), (None, None))[0],
            new=revived.get((seller, sku), (None, None))[1],
        )
        for seller, sku in keys
    ]


def _read(connection: Connection, keys: Sequence[Key]) -> list[ReviewedListing]:
    """Return the states of these listings in their order; one never read has an empty one."""
    rows = read_as(connection, ReviewedListing, READ, _columns(keys))
    states = {(state.user_id, state.sku): state for state in rows}
    return [states.get(key) or ReviewedListing(user_id=key[0], sku=key[1]) for key in keys]


def _columns(keys: Sequence[Key]) -> dict[str, Any]:
    return {"user_ids": [seller for seller, _ in keys], "skus": [sku for _, sku in keys]}
