"""Seller settings: own values over those of the deployment, and the guard."""

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from headway.core.accounts.jobs import Tier
from headway.core.catalog.change_detection import Terms
from headway.core.catalog.guard import DAY, MASS_MIN, Guard, MassChange, SellerSettings
from headway.core.catalog.listings import SellerId
from headway.core.catalog.term_tables import read_locations, read_markups
from headway.core.catalog.terms import TERMS, Term, check_terms
from headway.errors import NotFoundError
from headway.store.accounts import job_rows
from headway.store.accounts.job_rows import lock_seller
from headway.store.accounts.warehouse import orders_standing
from headway.store.pool import Pool, guarded
from headway.store.queries import Queries

# A seller who was never counted is counted at once, up to this number.
UNCOUNTED_MAX = 1000


COLUMNS = ", ".join(f"profile.{name}" for name in TERMS)

# Each count ends where it decides: beyond that many changes everything is held anyway.
SETTINGS = f"""
SELECT seller.user_id, {COLUMNS}, profile.mass_approved_until, catalog.count,
  repriced.count, emptied.count
FROM unnest(%(user_ids)s::text[]) AS seller(user_id)
LEFT JOIN profiles AS profile ON profile.user_id = seller.user_id
CROSS JOIN LATERAL (
  SELECT CASE WHEN profile.listing_count > 0 THEN profile.listing_count ELSE (
    SELECT count(*) FROM (
      SELECT FROM product_sync_schedule AS row
      WHERE row.user_id = seller.user_id AND row.is_active LIMIT {UNCOUNTED_MAX}) AS few
  ) END AS count, coalesce(profile.guard_share, %(share)s) AS share
) AS catalog
CROSS JOIN LATERAL (SELECT CASE WHEN catalog.share >= 1 THEN 0
  ELSE greatest({MASS_MIN}, floor(catalog.share * catalog.count) + 1) END AS least) AS mass
CROSS JOIN LATERAL (
  SELECT count(*) FROM (
    SELECT FROM listing_state AS state
    WHERE state.user_id = seller.user_id AND state.moved_at > %(since)s
    ORDER BY state.moved_at LIMIT mass.least) AS changes
) AS repriced
CROSS JOIN LATERAL (
  SELECT count(*) FROM (
    SELECT FROM listing_state AS state
    WHERE state.user_id = seller.user_id AND state.emptied_at > %(since)s
    ORDER BY state.emptied_at LIMIT mass.least) AS changes
) AS emptied
"""
LIFT_MASS_GUARD = """
INSERT INTO profiles AS row (user_id, mass_approved_until, created_at, updated_at)
SELECT user_id, %(until)s, %(now)s, %(now)s FROM unnest(%(user_ids)s::text[]) AS user_id
ON CONFLICT (user_id) DO UPDATE SET
  mass_approved_until = greatest(row.mass_approved_until, excluded.mass_approved_until),
  updated_at = excluded.updated_at
"""
OWN_TERMS = f"SELECT {COLUMNS} FROM profiles AS profile WHERE user_id = %(user_id)s"
SET_TERMS = """
INSERT INTO profiles (user_id, {names}, created_at, updated_at)
VALUES (%(user_id)s, {values}, %(now)s, %(now)s)
ON CONFLICT (user_id) DO UPDATE SET {updates}, updated_at = %(now)s
"""
TERMS_EVENT = """
INSERT INTO sync_audit_log
  (user_id, sync_timestamp, event_type, old_value, new_value, created_at)
VALUES (%(user_id)s, %(now)s, 'terms_set', %(old)s::jsonb, %(new)s::jsonb, %(now)s)
"""
# Each map of locations that a seller with parts has; NULL is the deployment's.
LOCATIONS = "SELECT DISTINCT locations FROM profiles WHERE listing_count > 0"
CURRENCIES = """
SELECT DISTINCT profile.currency FROM unnest(%(user_ids)s::text[]) AS seller(user_id)
LEFT JOIN profiles AS profile USING (user_id)
"""
TIER = "SELECT tier FROM profiles WHERE user_id = %(user_id)s"
SET_TIER = """
INSERT INTO profiles (user_id, tier, jobs_tier, created_at, updated_at)
VALUES (%(user_id)s, %(tier)s, %(tier)s, %(now)s, %(now)s)
ON CONFLICT (user_id) DO UPDATE SET tier = excluded.tier, jobs_tier = excluded.tier,
  updated_at = excluded.updated_at
"""
TIER_EVENT = """
INSERT INTO sync_audit_log
  (user_id, sync_timestamp, event_type, old_value, new_value, created_at)
VALUES (%(user_id)s, %(now)s, 'tier_set', jsonb_build_object('tier', %(old)s::text),
  jsonb_build_object('tier', %(tier)s::text), %(now)s)
"""
# In the order of names, so that two counts at once do not deadlock.
COUNT = """
INSERT INTO profiles AS profile (user_id, listing_count, created_at, updated_at)
SELECT user_id, count(*) FILTER (WHERE is_active), %(now)s, %(now)s
FROM product_sync_schedule
WHERE %(user_ids)s::text[] IS NULL OR user_id = ANY(%(user_ids)s::text[])
GROUP BY user_id ORDER BY user_id
ON CONFLICT (user_id) DO UPDATE SET
  listing_count = excluded.listing_count, updated_at = excluded.updated_at
WHERE profile.listing_count <> excluded.listing_count
"""
# One step of the index for each seller, however long the schedule is.
NAMES = """
WITH RECURSIVE lister AS (
  (SELECT user_id FROM product_sync_schedule ORDER BY user_id LIMIT 1)
  UNION ALL
  SELECT (SELECT row.user_id FROM product_sync_schedule AS row
          WHERE row.user_id > lister.user_id ORDER BY row.user_id LIMIT 1)
  FROM lister WHERE lister.user_id IS NOT NULL
)
SELECT user_id FROM lister WHERE user_id IS NOT NULL
UNION SELECT user_id FROM profiles UNION SELECT user_id FROM connected_accounts ORDER BY user_id
"""


class Sellers(Queries):
    """Rows of `profiles` over the settings of the deployment."""

    def __init__(self, pool: Pool, defaults: SellerSettings) -> None:
        super().__init__(pool)
        self.defaults = defaults

    def over(self, pool: Pool) -> "Sellers":
        """Return the same over another pool, such as one with tenant isolation."""
        return Sellers(pool, self.defaults)

    def settings(
        self, user_ids: Collection[SellerId], now: datetime
    ) -> Mapping[SellerId, SellerSettings]:
        """Return the settings of each of these sellers, with a profile or without."""
        values = {
            "user_ids": sorted(user_ids),
            "share": self.defaults.guard.share_max,
            "since": now - DAY,
        }
        rows = self._rows(SETTINGS, values)
        return {user_id: self._settings(*facts) for user_id, *facts in rows}

    def own_terms(self, user_id: SellerId) -> Mapping[str, Term]:
        """Return a seller's own values, None where the deployment's apply."""
        row = self._first(OWN_TERMS, {"user_id": user_id})
        return dict(zip(TERMS, row or (None,) * len(TERMS), strict=True))

    def location_terms(self) -> list[Terms]:
        """Return terms with each map of locations in use; the deployment's if nothing is listed."""
        maps = [locations for (locations,) in self._rows(LOCATIONS)] or [None]
        return [self._with_locations(self.defaults.terms, text) for text in maps]

    def currency(self, user_ids: Collection[SellerId]) -> str:
        """Return the currency of these sellers' shops, the deployment's if they have several."""
        default, chosen = self.defaults.terms.currency, sorted(set(user_ids))
        rows = self._rows(CURRENCIES, {"user_ids": chosen})
        known = {own or default for (own,) in rows}
        return known.pop() if len(known) == 1 else default

    def set_terms(self, user_id: SellerId, changes: Mapping[str, Term], *, now: datetime) -> None:
        """Change some of a seller's values, None for the deployment's; raise InvalidError."""
        check_terms(changes)
        if not changes:
            return
        statement = SET_TERMS.format(
            names=", ".join(changes),
            values=", ".join(f"%({name})s" for name in changes),
            updates=", ".join(f"{name} = excluded.{name}" for name in changes),
        )
        values = {"user_id": user_id, "now": now}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            lock_seller(connection, user_id)
            row = connection.execute(OWN_TERMS, values).fetchone()
            before = dict(zip(TERMS, row or (None,) * len(TERMS), strict=True))
            connection.execute(statement, {**changes, **values})
            moved = [name for name, value in changes.items() if before[name] != value]
            if moved:
                event = {"old": _plain(before, moved), "new": _plain(changes, moved)}
                connection.execute(TERMS_EVENT, {**values, **event})

    def tier(self, user_id: SellerId) -> Tier:
        """Return a seller's tier."""
        row = self._first(TIER, {"user_id": user_id})
        return Tier.FREE if row is None else Tier(row[0])

    def orders_count(self, user_id: SellerId, *, now: datetime) -> int:
        """Return how many orders of this month the seller has used of the quota."""
        return orders_standing(self._pool, user_id, now=now)[1]

    def set_tier(
        self, user_id: SellerId, tier: Tier, *, quotas: Mapping[Tier, int], now: datetime
    ) -> int:
        """Set a seller's tier, with all jobs; return how many jobs may continue."""
        with guarded(), self._pool.connection() as connection, connection.transaction():
            lock_seller(connection, user_id)
            row = connection.execute(TIER, {"user_id": user_id}).fetchone()
            lifted = job_rows.set_tier(connection, user_id, tier, quota=quotas[tier], now=now)
            values = {"user_id": user_id, "tier": tier.value, "now": now}
            connection.execute(SET_TIER, values)
            old = Tier.FREE.value if row is None else row[0]
            if old != tier.value:
                connection.execute(TIER_EVENT, {**values, "old": old})
        return lifted

    def count_catalogs(self, now: datetime, user_ids: Collection[SellerId] | None = None) -> int:
        """Count the listings of all sellers, or of these; return how many counts changed."""
        chosen = None if user_ids is None else sorted(user_ids)
        return self._write(COUNT, {"user_ids": chosen, "now": now})

    def names(self) -> list[SellerId]:
        """Return every seller that has listings, own settings or a shop."""
        return [SellerId(row[0]) for row in self._rows(NAMES)]

    def known(self, name: str | None) -> SellerId | None:
        """Return the seller of that name, None for all; raise NotFoundError if it is unknown."""
        if name is None:
            return None
        names = self.names()
        if name not in names:
            close = get_close_matches(name, names, n=1)
            begins = "a seller begins with headway connect, import or publish"
            hint = f"did you mean {close[0]}?" if close else f"{begins}; see: headway shops"
            raise NotFoundError(f"there is no seller {name}; {hint}")
        return SellerId(name)

    def _settings(self, *facts: Any) -> SellerSettings:  # noqa: ANN401 - a row
        *chosen, mass_approved_until, catalog_count, repriced, emptied = facts
        counts = {MassChange.PRICES: repriced, MassChange.STOCK: emptied}
        own = {name: value for name, value in zip(TERMS, chosen, strict=True) if value is not None}
        guard = Guard(
            move_max=own.pop("guard_move", self.defaults.guard.move_max),
            share_max=own.pop("guard_share", self.defaults.guard.share_max),
        )
        if "price_basis" in own:
            own["basis"] = own.pop("price_basis")
        terms = self.defaults.terms
        if "markups" in own:
            own["markups"] = read_markups(own["markups"])
        terms = self._with_locations(terms, own.pop("locations", None))
        return SellerSettings(
            terms=replace(terms, **own),
            guard=guard,
            catalog_count=catalog_count,
            changed_count={kind: count for kind, count in counts.items() if count},
            mass_approved_until=mass_approved_until,
        )

    @staticmethod
    def _with_locations(terms: Terms, text: str | None) -> Terms:
        """Return terms with a seller's own map of locations, if there is one."""
        if text is None:
            return terms
        locations = read_locations(text)
        # The deployment knows these locations: the seller does not sell from them.
        unsold = [*terms.unsold, *(name for name in terms.locations if name not in locations)]
        return replace(terms, locations=locations, unsold=unsold)


def _plain(terms: Mapping[str, Term], names: Collection[str]) -> str:
    """Return these terms as an event has them; None is the deployment's value."""
    values = {name: terms[name] for name in names}
    return json.dumps({n: str(v) if isinstance(v, Decimal) else v for n, v in values.items()})


def lift_mass_guard(
    pool: Pool, user_ids: Collection[SellerId], *, until: datetime, now: datetime
) -> None:
    """Let mass changes of these sellers pass until then: a person has approved them."""
    values = {"user_ids": list(user_ids), "until": until, "now": now}
    with guarded(), pool.connection() as connection:
        connection.execute(LIFT_MASS_GUARD, values)
