"""What sellers are told: each news once, by its topic and subject.

A subject says of what and since when, so that what happens again is news again.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from psycopg import Connection
from psycopg_pool import ConnectionPool

from headway.core.model import SellerId
from headway.store.pool import guarded

ADD = """
INSERT INTO notices (user_id, topic, subject, text, created_at)
VALUES (%(user_id)s, %(topic)s, %(subject)s, %(text)s, %(now)s)
ON CONFLICT ON CONSTRAINT notices_once DO NOTHING
"""
LIST = """
SELECT id::text, user_id, topic, subject, text, created_at, delivered_at FROM notices
WHERE user_id = %(user_id)s ORDER BY created_at DESC, id LIMIT %(limit)s
"""


class Topic(StrEnum):
    """What a notice is about."""

    JOB_DEAD = "job_dead"
    DISCONNECTED = "account_disconnected"
    TOKEN_EXPIRING = "token_expiring"  # noqa: S105 - a word, no token


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One piece of news for one seller."""

    id: str
    user_id: SellerId
    topic: Topic
    subject: str
    text: str
    created_at: datetime
    delivered_at: datetime | None


def subject_of(id_: str, since: datetime) -> str:
    """Return the subject of what has been so with this job, account or token since then."""
    return f"{id_} {since:%Y-%m-%dT%H:%M:%S.%fZ}"


def add_notice(
    connection: Connection[Any],
    topic: Topic,
    subject: str,
    *,
    user_id: SellerId,
    text: str,
    now: datetime,
) -> bool:
    """Tell a seller, in the caller's transaction; False if that was told already."""
    values = {
        "topic": topic.value,
        "subject": subject,
        "user_id": user_id,
        "text": text,
        "now": now,
    }
    return connection.execute(ADD, values).rowcount == 1


class Notices:
    """Table `notices`."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def add(
        self, topic: Topic, subject: str, *, user_id: SellerId, text: str, now: datetime
    ) -> bool:
        """Tell a seller; False if that was told already."""
        with guarded(), self._pool.connection() as connection:
            return add_notice(connection, topic, subject, user_id=user_id, text=text, now=now)

    def list(self, user_id: SellerId, *, limit: int = 100) -> list[Notice]:
        """Return what a seller was told, the newest first."""
        with guarded(), self._pool.connection() as connection:
            rows = connection.execute(LIST, {"user_id": user_id, "limit": limit}).fetchall()
        return [
            Notice(
                id=id_,
                user_id=SellerId(whose),
                topic=Topic(topic),
                subject=subject,
                text=text,
                created_at=created_at,
                delivered_at=delivered_at,
            )
            for id_, whose, topic, subject, text, created_at, delivered_at in rows
        ]
