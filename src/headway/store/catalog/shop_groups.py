"""Groups of shops: sellers of one owner, where the keys of the main one may act for the others.

A group is flat: a main seller has none itself. Who may act for whom is read for each request, so
that it ends at once.
"""

from datetime import datetime

from psycopg import Connection
from psycopg.rows import TupleRow

from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError
from headway.store.pool import guarded
from headway.store.queries import Queries

MEMBERS_MAX = 50

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('shop_groups', 0))"
MAIN = "SELECT main_seller FROM profiles WHERE user_id = %(seller)s"
MEMBERS = """
SELECT user_id FROM profiles WHERE main_seller = %(main)s ORDER BY user_id LIMIT %(limit)s
"""
IS_MEMBER = """
SELECT EXISTS (SELECT FROM profiles WHERE user_id = %(seller)s AND main_seller = %(main)s)
"""
ADD_MAIN = """
INSERT INTO profiles (user_id, created_at, updated_at) VALUES (%(main)s, %(now)s, %(now)s)
ON CONFLICT DO NOTHING
"""
# A new seller begins with what the owner pays for, and buys where the owner buys.
JOIN = """
INSERT INTO profiles AS row (user_id, tier, supplier, main_seller, created_at, updated_at)
SELECT %(seller)s, main.tier, main.supplier, main.user_id, %(now)s, %(now)s
FROM profiles AS main WHERE main.user_id = %(main)s
ON CONFLICT (user_id) DO UPDATE SET main_seller = excluded.main_seller,
  updated_at = excluded.updated_at
"""
LEAVE = """
UPDATE profiles SET main_seller = NULL, updated_at = %(now)s WHERE user_id = %(seller)s
"""
EVENT = """
INSERT INTO sync_audit_log
  (user_id, sync_timestamp, event_type, old_value, new_value, created_at)
VALUES (%(seller)s, %(now)s, 'shop_grouped', jsonb_build_object('main_seller', %(old)s::text),
  jsonb_build_object('main_seller', %(main)s::text), %(now)s)
"""


class ShopGroups(Queries):
    """Column `main_seller` of `profiles`."""

    def main_of(self, seller: SellerId) -> SellerId:
        """Return the main seller of a shop's group; the seller itself if it is in none."""
        row = self._first(MAIN, {"seller": seller})
        return seller if row is None or row[0] is None else SellerId(row[0])

    def shops_of(self, main: SellerId) -> list[SellerId]:
        """Return a main seller, and the others that its keys may act for."""
        rows = self._rows(MEMBERS, {"main": main, "limit": MEMBERS_MAX})
        return [main, *(SellerId(user_id) for (user_id,) in rows)]

    def is_member(self, seller: SellerId, main: SellerId) -> bool:
        """Return True if keys of the main seller may act for this one."""
        return bool(self._one(IS_MEMBER, {"seller": seller, "main": main})[0])

    def require_possible(self, seller: SellerId, main: SellerId) -> None:
        """Raise ConflictError if a seller cannot be in the group of this main one."""
        with guarded(), self._pool.connection() as connection:
            _require_possible(connection, seller, main)

    def put(self, seller: SellerId, main: SellerId | None, *, now: datetime) -> None:
        """Let the keys of a main seller act for another one, or no longer; raises ConflictError.

        A name without a seller begins one, with the tier and the supplier of the main seller.
        """
        values = {"seller": seller, "main": main, "now": now}
        with guarded(), self._pool.connection() as connection, connection.transaction():
            connection.execute(LOCK)
            before = _main_of(connection, seller)
            if main is None:
                connection.execute(LEAVE, values)
            else:
                _require_possible(connection, seller, main)
                connection.execute(ADD_MAIN, values)
                connection.execute(JOIN, values)
            if before != main:
                connection.execute(EVENT, {**values, "old": before})


def _main_of(connection: Connection[TupleRow], seller: SellerId) -> SellerId | None:
    row = connection.execute(MAIN, {"seller": seller}).fetchone()
    return None if row is None else row[0]


def _members(connection: Connection[TupleRow], main: SellerId) -> list[SellerId]:
    values = {"main": main, "limit": MEMBERS_MAX}
    return [user_id for (user_id,) in connection.execute(MEMBERS, values).fetchall()]


def _require_possible(connection: Connection[TupleRow], seller: SellerId, main: SellerId) -> None:
    """Raise ConflictError where a group would have two levels, two mains, or too many shops."""
    if seller == main:
        raise ConflictError(f"main_seller: {seller} cannot be a shop of itself")
    above = _main_of(connection, main)
    if above is not None:
        raise ConflictError(f"main_seller: {main} is a shop of {above}; name {above}")
    if below := _members(connection, seller):
        raise ConflictError(f"seller: {seller} has shops of its own: {', '.join(below[:5])}")
    other = _main_of(connection, seller)
    if other not in {None, main}:
        raise ConflictError(
            f"seller: {seller} is a shop of {other}; separate it first: headway group {seller}"
            " --alone"
        )
    members = _members(connection, main)
    if seller not in members and len(members) >= MEMBERS_MAX:
        raise ConflictError(f"main_seller: {main} has {MEMBERS_MAX} other shops; that is the most")
