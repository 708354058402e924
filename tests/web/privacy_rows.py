"""A customer's request for data and an erasure of a seller, for the table of roles."""

from datetime import datetime
from typing import Any

from psycopg import Connection

REQUEST = """
INSERT INTO privacy_requests (account_id, user_id, platform, customer_id, requested_at, due_at)
SELECT id, user_id, platform, '7001', %(now)s, %(now)s
FROM connected_accounts WHERE user_id = %(seller)s RETURNING id::text
"""
ERASURE = """
INSERT INTO erasures (kind, status, cause, actor, user_id, subject_hash, requested_at, erased_at)
VALUES ('customer', 'done', 'person', %(seller)s || ' app', %(seller)s, 'h', %(now)s, %(now)s)
RETURNING id::text
"""


def add_privacy_rows(connection: Connection[Any], seller: str, now: datetime) -> tuple[str, str]:
    """Return the id of a request and of an erasure of a seller."""
    values = {"seller": seller, "now": now}
    request = connection.execute(REQUEST, values).fetchone()
    erasure = connection.execute(ERASURE, values).fetchone()
    assert request is not None
    assert erasure is not None
    return request[0], erasure[0]
