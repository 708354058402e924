"""Notices to sellers: each once, by its topic and subject.

A subject names the cause and its start, so that a repeated event causes a new notice.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from psycopg import Connection

from headway.core.catalog.listings import SellerId
from headway.store.pool import guarded
from headway.store.queries import Queries

ADD = """
INSERT INTO notices (user_id, topic, subject, text, created_at)
VALUES (%(user_id)s, %(topic)s, %(subject)s, %(text)s, %(now)s)
ON CONFLICT ON CONSTRAINT notices_unique DO NOTHING
"""
LIST = """
SELECT id::text, user_id AS seller, topic, subject, text, created_at, delivered_at FROM notices
WHERE user_id = %(user_id)s ORDER BY created_at DESC, id LIMIT %(limit)s
"""

# Only tokens that a person must renew, not those with a refresh token. A credential key ends with
# the shop.
EXPIRING = """
INSERT INTO notices (user_id, topic, subject, text, created_at)
SELECT account.user_id, 'token_expiring', concat_ws(' ', token.credential_key, token.name,
  token.version),
  account.platform || ' shop ' || coalesce(nullif(account.title, ''), account.shop)
    || ' must be connected again by '
    || to_char(token.expires_at AT TIME ZONE 'UTC', 'FMDD Mon YYYY'), %(now)s
FROM credential AS token JOIN connected_accounts AS account
  ON account.platform = split_part(token.credential_key, ':', 1)
  AND account.shop = regexp_replace(token.credential_key, '^.*:', '')
  AND account.status = 'connected'
WHERE token.expires_at > %(now)s AND token.expires_at < %(until)s AND (token.name = 'refresh'
  OR NOT EXISTS (SELECT FROM credential AS other
                 WHERE other.credential_key = token.credential_key AND other.name = 'refresh'))
ON CONFLICT ON CONSTRAINT notices_unique DO NOTHING
"""
EXPIRES_SOON = timedelta(days=14)


class NoticeTopic(StrEnum):
    """What a notice is about."""

    JOB_DEAD = "job_dead"
    DISCONNECTED = "account_disconnected"
    PRICE_HELD = "price_held"
    PLAN_LIMIT = "plan_limit_reached"
    TOKEN_EXPIRING = "token_expiring"  # noqa: S105 - a word, no token


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One notice to one seller."""

    id: str
    """The notice's id. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    seller: SellerId
    topic: NoticeTopic
    """What it is about."""
    subject: str
    """The part, job or account it is about. Example: `WF338109=K3`"""
    text: str
    """What the seller reads. Example: `The price of WF338109=K3 is held for review.`"""
    created_at: datetime
    delivered_at: datetime | None
    """When it was delivered; null if it has not been."""


def subject_of(id_: str, since: datetime) -> str:
    """Return the subject of a notice: the job, account or token, and since when."""
    return f"{id_} {since:%Y-%m-%dT%H:%M:%S.%fZ}"


def add_notice(
    connection: Connection[Any],
    topic: NoticeTopic,
    subject: str,
    *,
    user_id: SellerId,
    text: str,
    now: datetime,
) -> bool:
    """Store a notice in the caller's transaction; return False if it exists already."""
    values = {"topic": topic, "subject": subject, "user_id": user_id, "text": text, "now": now}
    return connection.execute(ADD, values).rowcount == 1


class Notices(Queries):
    """Table `notices`."""

    def add(
        self, topic: NoticeTopic, subject: str, *, user_id: SellerId, text: str, now: datetime
    ) -> bool:
        """Store a notice; return False if it exists already."""
        with guarded(), self._pool.connection() as connection:
            return add_notice(connection, topic, subject, user_id=user_id, text=text, now=now)

    def warn_of_tokens(self, now: datetime) -> int:
        """Store a notice, once, for each token that expires soon; return how many."""
        values = {"now": now, "until": now + EXPIRES_SOON}
        return self._write(EXPIRING, values)

    def list(self, user_id: SellerId, *, limit: int = 100) -> list[Notice]:
        """Return a seller's notices, newest first."""
        return self._read(Notice, LIST, {"user_id": user_id, "limit": limit})
