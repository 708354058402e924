"""What is stored of a seller or an account, table by table: the one list that erasures follow.

A test compares it with the database: every table with a column for a seller or an account is here.
"""

from dataclasses import dataclass

from headway.core.dispatch import STOREFRONT

OF_SELLER = "user_id = %(user_id)s"
OF_ACCOUNT = "account_id = ANY(%(account_ids)s::uuid[])"
# A shop's parts are listed under its seller, and only the storefront has them.
OF_STOREFRONT = f"user_id = %(user_id)s AND '{STOREFRONT}' = ANY(%(platforms)s::text[])"
# Limit keys and token keys begin with the platform and end with the shop, its owner or the account.
OF_KEYS = """
(split_part({column}, ':', 1), regexp_replace({column}, '^.*:', '')) IN (
  SELECT * FROM unnest(%(key_platforms)s::text[], %(key_names)s::text[]))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedTable:
    """Which rows of a table are deleted with a seller, and which with an account."""

    name: str
    seller: str | None = OF_SELLER
    account: str | None = None


def _keyed(name: str, column: str) -> ErasedTable:
    condition = OF_KEYS.format(column=column)
    return ErasedTable(name=name, seller=condition, account=condition)


_BOTH = {"seller": f"({OF_SELLER} OR {OF_ACCOUNT})", "account": OF_ACCOUNT}
OF_JOBS = f"""
user_id = %(user_id)s AND (new_value ->> 'account' = ANY(%(account_ids)s)
  OR job_id IN (SELECT id FROM sync_jobs WHERE {OF_ACCOUNT})
  OR (new_value ->> 'platform' = ANY(%(platforms)s)
    AND (new_value ->> 'shop' = ANY(%(shops)s) OR old_value ->> 'shop' = ANY(%(shops)s))))
"""
# What a broker's message carries from worker to worker.
CARRIED = """
EXISTS (SELECT FROM unnest(%(account_ids)s::text[]) AS id
        WHERE strpos(subject || coalesce(carried::text, ''), id) > 0)
"""
# A subject names an account, or the key of its token.
OF_NOTICES = f"""
{OF_SELLER} AND EXISTS (SELECT FROM unnest(%(account_ids)s::text[] || %(shops)s::text[]) AS name
                        WHERE strpos(subject || ' ' || text, name) > 0)
"""
OF_EVENTS = f"{OF_SELLER} AND data ->> 'account_id' = ANY(%(account_ids)s::text[])"
IN_BYTES = """
EXISTS (SELECT FROM unnest(%(words)s::text[]) AS word
        WHERE position(convert_to(word, 'UTF8') IN {column}) > 0)
"""
# In this order: who may act goes first, rows that others refer to go last.
DELETED: tuple[ErasedTable, ...] = (
    # What waits to be sent to applications, and the seller's own endpoints with their secrets.
    ErasedTable(
        name="event_deliveries",
        seller=f"""(user_id = %(user_id)s
          OR event_id IN (SELECT id FROM webhook_events WHERE {OF_SELLER}))""",
        account=f"event_id IN (SELECT id FROM webhook_events WHERE {OF_EVENTS})",
    ),
    ErasedTable(name="webhook_events", account=OF_EVENTS),
    ErasedTable(
        name="credential",
        seller=f"""credential_key IN (
          SELECT 'webhook:' || id FROM webhook_endpoints WHERE {OF_SELLER})""",
    ),
    ErasedTable(name="webhook_endpoints"),
    ErasedTable(
        name="idempotency",
        seller=f"""(
      principal IN (SELECT 'key:' || id FROM access_keys WHERE {OF_SELLER}
        UNION SELECT 'session:' || id FROM sessions WHERE {OF_SELLER})
      OR {IN_BYTES.format(column="body")})""",
        account=IN_BYTES.format(column="body"),
    ),
    ErasedTable(name="sessions"),
    ErasedTable(name="login_links"),
    ErasedTable(name="access_keys"),
    ErasedTable(
        name="oauth_flows",
        account="user_id = %(user_id)s AND platform = ANY(%(platforms)s) AND shop = ANY(%(shops)s)",
    ),
    ErasedTable(name="import_chunks", seller=IN_BYTES.format(column="content")),
    ErasedTable(
        name="outbox",
        seller=f"notice_id IN (SELECT id FROM notices WHERE {OF_SELLER})",
        account=f"notice_id IN (SELECT id FROM notices WHERE {OF_NOTICES})",
    ),
    ErasedTable(name="notices", account=OF_NOTICES),
    ErasedTable(
        name="alert_states",
        seller="seller = %(user_id)s",
        account="seller = %(user_id)s AND EXISTS (SELECT FROM unnest(%(shops)s::text[]) AS shop"
        " WHERE strpos(subject, shop) > 0)",
    ),
    ErasedTable(name="dispatch_leases", seller=CARRIED, account=CARRIED),
    ErasedTable(name="pauses"),
    ErasedTable(name="privacy_requests", **_BOTH),
    ErasedTable(name="line_items", **_BOTH),
    ErasedTable(name="shipments", **_BOTH),
    ErasedTable(name="refunds", **_BOTH),
    ErasedTable(name="payments", **_BOTH),
    ErasedTable(name="orders", **_BOTH),
    ErasedTable(name="customers", **_BOTH),
    ErasedTable(name="listings", **_BOTH),
    ErasedTable(name="listing_walks", **_BOTH),
    ErasedTable(name="unreadable_records", **_BOTH),
    # Deletions of the records above are noted there.
    ErasedTable(name="record_deletions", **_BOTH),
    ErasedTable(name="webhook_deliveries", seller=OF_ACCOUNT, account=OF_ACCOUNT),
    ErasedTable(name="push_intent", **_BOTH),
    ErasedTable(name="boeing_raw_data", account=OF_STOREFRONT),
    ErasedTable(name="product_staging", account=OF_STOREFRONT),
    ErasedTable(name="product", account=OF_STOREFRONT),
    ErasedTable(name="listing_search"),
    ErasedTable(name="listing_state"),
    ErasedTable(name="product_sync_schedule"),
    ErasedTable(name="sync_audit_log", account=OF_JOBS),
    ErasedTable(name="sync_jobs", **_BOTH),
    ErasedTable(
        name="connected_accounts",
        seller="(user_id = %(user_id)s OR id = ANY(%(account_ids)s::uuid[]))",
        account="id = ANY(%(account_ids)s::uuid[])",
    ),
    ErasedTable(name="profiles"),
)
# What is kept until no worker can still need it: limits hold during an erasure, too.
KEYED: tuple[ErasedTable, ...] = (
    _keyed("credential", "credential_key"),
    _keyed("credential_refresh", "credential_key"),
    _keyed("breaker", "limit_key"),
    _keyed("rate_budgets", "limit_key"),
    _keyed("call_ledger", "limit_key"),
    _keyed("limiter", "limit_key"),
    _keyed("family", "limit_key"),
)
# Not deleted, but emptied of the seller: what was erased for the seller earlier stays proven.
EMPTIED = frozenset({"erasures", "tombstones"})
