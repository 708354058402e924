"""Find a permit by its id, and only for the program that holds it."""

from headway.store.queries import Queries

# A permit that waits is in its limiter's state; one that has begun is in the ledger too.
KEYS = """
SELECT limit_key FROM limiter
WHERE state -> 'waiting' @> jsonb_build_array(
  jsonb_build_object('id', %(permit_id)s::text, 'owner', %(owner)s::text))
UNION
SELECT limit_key FROM call_ledger
WHERE permit_id = %(permit_id)s::uuid AND owner = %(owner)s
"""


class PermitHolders(Queries):
    """Who holds which permit."""

    def limit_key(self, permit_id: str, *, owner: str) -> str | None:
        """Return the limit key of a permit; None if this owner holds no such permit."""
        row = self._first(KEYS, {"permit_id": permit_id, "owner": owner})
        return None if row is None else str(row[0])
