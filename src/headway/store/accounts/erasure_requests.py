"""Requests to erase a seller, an account or a customer, in the transaction of who asks for it."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from psycopg import Connection

from headway.core.accounts.erasure import (
    ErasedAccount,
    Erasure,
    ErasureKind,
    ErasureSubject,
    account_words,
    packed_subject,
)
from headway.core.accounts.jobs import Account
from headway.core.catalog.listings import SellerId
from headway.store.accounts.credentials import DELETE_TOKENS
from headway.store.accounts.job_rows import cancel, lock_seller
from headway.store.accounts.tombstones import email_key
from headway.store.queries import read_as

REASON = "erased on request"
COLUMNS = """
id::text, kind, status, cause, actor, user_id AS seller, platform,
encode(subject_hash, 'hex') AS subject_hash, counts, requested_at, erased_at, sweep_at, done_at
"""
LOCK_ACCOUNTS = """
SELECT FROM connected_accounts WHERE id = ANY(%(account_ids)s::uuid[]) ORDER BY id FOR UPDATE
"""
ENTER = f"""
INSERT INTO erasures (kind, cause, actor, user_id, platform, subject, subject_hash, requested_at)
VALUES (%(kind)s, %(cause)s, %(actor)s, %(user_id)s, %(platform)s, %(subject)s::jsonb,
  erased_hash(%(hash_kind)s, %(hash_platform)s, %(name)s), %(now)s)
RETURNING {COLUMNS}
"""
ADD_STONES = """
INSERT INTO tombstones (erasure_id, kind, platform, account_id, shop_hash, hash)
SELECT %(id)s, entry.kind, entry.platform, nullif(entry.account_id, '')::uuid,
  CASE WHEN entry.shop <> '' THEN erased_hash('shop', entry.platform, entry.shop) END,
  erased_hash(entry.kind, entry.platform, entry.name)
FROM jsonb_to_recordset(%(stones)s::jsonb)
  AS entry (kind text, platform text, account_id text, shop text, name text)
ON CONFLICT DO NOTHING
"""
SAME = f"""
SELECT {COLUMNS} FROM erasures WHERE kind = %(kind)s AND status <> 'done'
  AND subject_hash = erased_hash(%(hash_kind)s, %(hash_platform)s, %(name)s)
  AND user_id = %(user_id)s ORDER BY requested_at LIMIT 1
"""
STOP_ACCOUNT = """
UPDATE connected_accounts SET status = 'disconnected', jobs_status = 'disconnected',
  is_leaving = true,
  reason = %(reason)s,
  push_fence = push_fence + 1, updated_at = %(now)s WHERE id = %(account_id)s
"""
ACCOUNTS = """
SELECT id::text, platform, shop, CASE WHEN NOT EXISTS (
    SELECT FROM connected_accounts AS other
    WHERE other.platform = account.platform AND other.owner_id = account.owner_id
      AND other.id <> account.id AND (%(id)s::text IS NOT NULL OR other.user_id <> account.user_id))
  THEN owner_id ELSE '' END AS owner_id, title
FROM connected_accounts AS account
WHERE user_id = %(user_id)s AND (%(id)s::text IS NULL OR id::text = %(id)s)
ORDER BY platform, shop
"""
Values = dict[str, Any]


def whole_subject(
    connection: Connection[Any], user_id: SellerId, account_id: str | None = None
) -> ErasureSubject:
    """Return a seller with all accounts, or one account; an owner of others, too, is left out."""
    values = {"user_id": user_id, "id": account_id}
    accounts = tuple(read_as(connection, ErasedAccount, ACCOUNTS, values))
    is_seller = account_id is None
    words = account_words(accounts, besides=() if is_seller else (user_id,))
    return ErasureSubject(
        kind=ErasureKind.SELLER if is_seller else ErasureKind.ACCOUNT,
        user_id=user_id,
        accounts=accounts,
        words=(*words, user_id) if is_seller else words,
    )


def enter(
    connection: Connection[Any],
    subject: ErasureSubject,
    *,
    cause: str,
    actor: str = "",
    now: datetime,
) -> Erasure:
    """Store what is to be erased, and stop its accounts, in the caller's transaction."""
    values = {**bound_values(subject, now), **_hashed(subject), "cause": cause, "actor": actor}
    values |= {"kind": subject.kind, "subject": packed_subject(subject)}
    is_whole = subject.kind is not ErasureKind.CUSTOMER
    if is_whole:
        lock_seller(connection, subject.user_id)
    for same in read_as(connection, Erasure, SAME, values):
        if is_whole:
            return same
    # A page that is being stored is waited for; a later one sees the hashes.
    connection.execute(LOCK_ACCOUNTS, values)
    (erasure,) = read_as(connection, Erasure, ENTER, values)
    stones = json.dumps(list(_stones(subject)))
    connection.execute(ADD_STONES, {"id": erasure.id, "stones": stones})
    return erasure


def stop_accounts(connection: Connection[Any], subject: ErasureSubject, *, now: datetime) -> None:
    """Cancel the jobs of the accounts and delete their tokens: nobody is told."""
    lock_seller(connection, subject.user_id)
    for account in subject.accounts:
        bare = Account(
            id=account.id,
            user_id=subject.user_id,
            platform=account.platform,
            shop=account.shop,
            owner_id=account.owner_id,
        )
        cancel(connection, bare, REASON, now=now)
        values = {"account_id": account.id, "reason": REASON, "now": now}
        connection.execute(STOP_ACCOUNT, values)
    connection.execute(DELETE_TOKENS, bound_values(subject, now))


def bound_values(subject: ErasureSubject, now: datetime) -> Values:
    """Return what the statements of an erasure are bound to."""
    spellings = {spelling for word in subject.words for spelling in _spellings(word)}
    keys = {
        (account.platform, name)
        for account in subject.accounts
        for name in (account.shop, account.owner_id, account.id)
        if name
    }
    return {
        "subject": subject,
        "user_id": subject.user_id,
        "account_ids": subject.account_ids,
        "platforms": [account.platform for account in subject.accounts],
        "shops": [account.shop for account in subject.accounts],
        "key_platforms": [platform for platform, _ in sorted(keys)],
        "key_names": [name for _, name in sorted(keys)],
        "customer_ids": list(subject.customer_ids),
        "emails": [email_key(email) for email in subject.emails],
        "order_ids": list(subject.order_ids),
        "words": list(subject.words),
        "spellings": sorted(spellings),
        "now": now,
    }


def _spellings(word: str) -> Iterator[str]:
    """Yield how a word may be written in a column: in small letters, and in JSON."""
    for spelling in (word, word.lower()):
        yield spelling
        yield json.dumps(spelling, ensure_ascii=False)[1:-1]


def _hashed(subject: ErasureSubject) -> Mapping[str, Any]:
    """Return what the hash of a subject is of, and the columns that name it."""
    if subject.kind is ErasureKind.SELLER:
        return {"hash_kind": "seller", "hash_platform": "", "name": subject.user_id,
                "platform": None}  # fmt: skip
    account = subject.accounts[0]
    if subject.kind is ErasureKind.ACCOUNT:
        name = account.shop
    else:
        name = "\n".join((*sorted(subject.customer_ids), *sorted(map(email_key, subject.emails))))
    platforms = {account.platform for account in subject.accounts}
    return {
        "hash_kind": subject.kind.value,
        "hash_platform": account.platform,
        "name": name,
        "platform": account.platform if len(platforms) == 1 else None,
    }


def _stones(subject: ErasureSubject) -> Iterator[Mapping[str, str]]:
    """Yield what keeps the data of a subject from coming back."""
    if subject.kind is ErasureKind.SELLER:
        yield {"kind": "seller", "platform": "", "name": subject.user_id}
    for account in subject.accounts:
        own = {"platform": account.platform, "account_id": account.id, "shop": account.shop}
        if subject.kind is not ErasureKind.CUSTOMER:
            yield {**own, "kind": "account", "name": account.shop}
            continue
        yield from ({**own, "kind": "customer", "name": name} for name in subject.customer_ids)
        yield from ({**own, "kind": "email", "name": email_key(name)} for name in subject.emails)
        yield from ({**own, "kind": "order", "name": name} for name in subject.order_ids)
