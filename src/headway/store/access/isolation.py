"""Tenant isolation: a pool whose transactions name the actor and see one seller's rows at most.

The database itself hides what belongs to other sellers (row-level security, see the migrations):
a query that forgets its seller finds nothing. What is set lasts as long as the transaction, so it
works through a transaction pooler, and nothing is left behind on the connection.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from psycopg import Connection
from psycopg.rows import TupleRow

from headway.core.catalog.listings import SellerId
from headway.store.pool import Pool

ROLE = "headway_seller"
# One round trip for all; set_config with true is SET LOCAL, for the role as well.
ACT = "SELECT set_config('headway.actor', %s, true)"
ENTER = f"""
SELECT set_config('headway.actor', %s, true), set_config('headway.seller', %s, true),
  set_config('role', '{ROLE}', true)
"""


class TenantPool:
    """A pool for one person: writes name the actor, and a seller sees only their own rows."""

    def __init__(self, pool: Pool, *, actor: str, seller: SellerId | None = None) -> None:
        self._pool = pool
        self._actor = actor
        self._seller = seller

    @contextmanager
    def connection(self) -> Iterator[Connection[TupleRow]]:
        """Lend a connection inside one transaction, which the end of the block commits."""
        with self._pool.connection() as connection, connection.transaction():
            if self._seller is None:
                connection.execute(ACT, (self._actor,))
            else:
                connection.execute(ENTER, (self._actor, self._seller))
            yield connection
