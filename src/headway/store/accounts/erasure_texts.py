"""Texts of others that may name whom an erasure is about: messages, reasons, events."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection, sql

from headway.core.accounts.erasure import scrub, scrub_cursor

Values = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """Columns of a table whose words may name somebody; `where` bounds the rows."""

    table: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    where: str = "true"


# Rows of others, and of the deployment, that may mention a seller, a shop or a customer.
TEXTS: tuple[Texts, ...] = (
    Texts(
        table="sync_audit_log",
        key=("id", "sync_timestamp"),
        columns=("actor", "error_message", "old_value", "new_value", "task_id"),
        # A group names the sellers that are in it to each other.
        where="(user_id IN ('', %(user_id)s) OR event_type = 'shop_grouped')",
    ),
    Texts(
        table="sync_jobs",
        key=("id",),
        columns=("cursor", "last_error", "wait_reason"),
        where="user_id = %(user_id)s",
    ),
    Texts(
        table="connected_accounts",
        key=("id",),
        columns=("reason", "wait_reason"),
        where="user_id = %(user_id)s",
    ),
    Texts(table="notices", key=("id",), columns=("text",), where="user_id = %(user_id)s"),
    Texts(table="outbox", key=("id",), columns=("key", "title", "body", "error")),
    Texts(table="alert_states", key=("name", "subject"), columns=("sentence", "link")),
    Texts(
        table="webhook_events", key=("id",), columns=("data",), where="user_id IN ('', %(user_id)s)"
    ),
    Texts(table="event_deliveries", key=("endpoint_id", "event_id"), columns=("error", "reply")),
    Texts(table="pauses", key=("id",), columns=("reason", "actor")),
    Texts(
        table="unreadable_records",
        key=("account_id", "kind", "external_id"),
        columns=("reason",),
        where="user_id = %(user_id)s",
    ),
    Texts(table="runs", key=("id",), columns=("request", "result", "error", "output", "actor")),
    Texts(table="housekeeping", key=("step",), columns=("error",)),
    Texts(table="breaker", key=("limit_key",), columns=("reason",)),
    Texts(table="call_ledger", key=("permit_id", "limit_key"), columns=("result", "owner")),
    Texts(table="erasures", key=("id",), columns=("actor",)),
)
JSON_COLUMNS: Mapping[str, frozenset[str]] = {
    "sync_audit_log": frozenset({"old_value", "new_value"}),
    "sync_jobs": frozenset({"cursor"}),
    "webhook_events": frozenset({"data"}),
    "runs": frozenset({"request", "result"}),
}


def mentions(texts: Texts, values: Values, after: tuple[Any, ...] | None) -> tuple[sql.SQL, Values]:
    """Return the query for rows that contain one of the words, after the one with this key."""
    key, columns = ", ".join(texts.key), ", ".join(texts.columns)
    whole = f"concat_ws(' ', {', '.join(f'{name}::text' for name in texts.columns)})"
    places = {f"after_{place}": part for place, part in enumerate(after or ())}
    later = f"AND ({key}) > ({', '.join(f'%({name})s' for name in places)})" if places else ""
    query = (
        f"SELECT {key}, {columns} FROM {texts.table} WHERE {texts.where} {later}"
        f" AND EXISTS (SELECT FROM unnest(%(spellings)s::text[]) AS word"
        f" WHERE strpos({whole}, word) > 0 OR strpos(lower({whole}), word) > 0)"
        f" ORDER BY {key} LIMIT %(rows)s"
    )
    return sql.SQL(query), {**values, **places}


def replace_words(
    connection: Connection[Any], texts: Texts, row: tuple[Any, ...], words: Sequence[str]
) -> bool:
    """Write a row without the words; return False if it contained them as parts of others only."""
    keys, old = row[: len(texts.key)], row[len(texts.key) :]
    new = [
        scrub_cursor(value, words) if name == "cursor" else scrub(value, words)
        for name, value in zip(texts.columns, old, strict=True)
    ]
    if new == list(old):
        return False
    if "key" in texts.columns:  # it stays unique
        place = texts.columns.index("key")
        new[place] = old[place] if new[place] == old[place] else f"{new[place]} {keys[0]}"
    jsons = JSON_COLUMNS.get(texts.table, frozenset())
    packed = [
        json.dumps(value) if name in jsons and value is not None else value
        for name, value in zip(texts.columns, new, strict=True)
    ]
    sets = ", ".join(f"{name} = %s" for name in texts.columns)
    where = " AND ".join(f"{name} = %s" for name in texts.key)
    query = sql.SQL(f"UPDATE {texts.table} SET {sets} WHERE {where}")
    connection.execute(query, [*packed, *keys])
    return True
