"""The statements that copy the rows of a design document's database into our tables.

`old` is a row of theirs. What a table of theirs lacks is NULL, or the default that is given here.
"""

from collections.abc import Mapping

from headway.core.catalog.adoption import (
    EVENT_TYPES,
    HISTORY,
    OTHERS,
    SCHEDULE,
    DesignDocument,
    TableAdoption,
    TableShape,
    source_of,
)

# Where the tables of the documents stay, untouched.
ASIDE = "before_headway"
GOOD = "('success', 'no_change', 'updated')"
NOT_PUBLISHED = (
    "was not in the shop when the database was taken over; to publish it: headway publish"
)
# Their newest row of a part counts; older ones stay where they are.
NEWEST_FIRST = "DISTINCT ON (old.user_id::text, old.sku::text)"


def copy_rows(
    table: TableAdoption, theirs: TableShape, ours: TableShape, document: DesignDocument
) -> str:
    """Return the statement that fills one table; it binds `now`."""
    values = {
        column: _value(table.table, column, theirs, ours)
        for column in ours.columns
        if (source := source_of(table.table, column, theirs.columns)) is not None
        and not (column == "id" and theirs.columns[source] != "uuid")
    }
    values |= _COMPUTED[table.table](theirs.columns, document)
    values |= {name: f'old."{column}"' for column, name in table.carried}
    # What is computed from several columns needs names for its steps.
    steps = _schedule_steps(theirs.columns, document) if table.table == SCHEDULE else ""
    return (
        f"INSERT INTO {table.table} ({', '.join(_quoted(name) for name in values)})\n"
        f"SELECT {_distinct(table.table)} {', '.join(values.values())}\n"
        f"FROM {ASIDE}.{table.table} AS old {steps}\n"
        f"{_condition(table.table)} {_order(table.table, theirs.columns)}"
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _value(table: str, column: str, theirs: TableShape, ours: TableShape) -> str:
    source = source_of(table, column, theirs.columns)
    value = f'old."{source}"'
    if theirs.columns[str(source)] != ours.columns[column]:
        value = f"{value}::{ours.columns[column]}"
    # Times and texts that we require, and a document leaves open.
    if column in {"created_at", "updated_at", "sync_timestamp"}:
        return f"coalesce({value}, %(now)s)"
    if column in {"title", "description_html", "vendor"}:
        return f"coalesce({value}, '')"
    return value


def _distinct(table: str) -> str:
    return NEWEST_FIRST if table in OTHERS else ""


def _condition(table: str) -> str:
    if table == HISTORY:
        known = ", ".join(f"'{kind}'" for kind in EVENT_TYPES)
        return f"WHERE old.event_type IN ({known})"
    return "" if table == SCHEDULE else "WHERE old.user_id IS NOT NULL AND old.sku IS NOT NULL"


def _order(table: str, columns: Mapping[str, str]) -> str:
    if table not in OTHERS:
        return ""
    newest = "".join(f", old.{name} DESC NULLS LAST" for name in ("updated_at",) if name in columns)
    return f"ORDER BY old.user_id::text, old.sku::text{newest}"


def _column(columns: Mapping[str, str], name: str, default: str) -> str:
    return f"coalesce(old.{name}, {default})" if name in columns else default


def _schedule_steps(columns: Mapping[str, str], document: DesignDocument) -> str:
    """Name what several columns of the schedule follow from: slot, failures, last outcome."""
    failures = f"greatest({_column(columns, 'consecutive_failures', '0')}, 0)"
    outcome = _column(columns, "last_sync_status", "NULL")
    if document is not DesignDocument.PLAN_V2:
        status = _column(columns, "sync_status", "'pending'")
        # A row that is stuck waits again, as the documents' own reset leaves it.
        outcome = f"CASE WHEN {status} IN ('success', 'failed') THEN {status} END"
    hour, minute = "least(old.hour_bucket, 23)", _column(columns, "minute_offset", "0")
    if "sync_slot" in columns:
        slot = "least(greatest(old.sync_slot, 0), 1439)"
        hour, minute = f"{slot} / 60", f"{slot} %% 60"
    today = "date_trunc('day', %(now)s AT TIME ZONE 'UTC')"
    return f"""
CROSS JOIN LATERAL (SELECT {hour} AS hour, {minute} AS minute, {failures} AS failures,
  coalesce({outcome}, 'pending') AS outcome, {_column(columns, "is_active", "true")} AS is_active,
  {_column(columns, "sync_status", "''")} = 'syncing' AS is_stuck) AS was
CROSS JOIN LATERAL (SELECT ({today} + make_interval(hours => was.hour, mins => was.minute))
  AT TIME ZONE 'UTC' AS today) AS slot"""


def _schedule(columns: Mapping[str, str], document: DesignDocument) -> dict[str, str]:
    read_at = _column(columns, "last_sync_at", "NULL::timestamptz")
    good_at = f"CASE WHEN was.outcome IN {GOOD} AND NOT was.is_stuck THEN {read_at} END"
    if document is DesignDocument.SIMPLIFIED:  # a failure leaves its last_sync_at
        good_at = read_at
    if "last_successful_sync" in columns:
        day = "old.last_successful_sync"
        good_at = (
            f"CASE WHEN was.outcome IN {GOOD} AND (old.last_sync_at AT TIME ZONE 'UTC')::date"
            f" = {day} THEN old.last_sync_at ELSE {day}::timestamp AT TIME ZONE 'UTC' END"
        )
    # Without a due time of its own a row was due once in a day, at its hour.
    due_at = "old.next_sync_at"
    if "next_sync_at" not in columns:
        due_at = (
            "CASE WHEN was.is_stuck OR was.outcome = 'failed' THEN %(now)s"
            f" WHEN ({read_at} AT TIME ZONE 'UTC')::date = (%(now)s AT TIME ZONE 'UTC')::date"
            " THEN slot.today + interval '1 day' ELSE slot.today END"
        )
    values = {
        "hour_bucket": "was.hour",
        "minute_offset": "was.minute",
        "next_sync_at": due_at,
        "priority": "CASE WHEN was.is_active AND was.failures > 0 THEN 'retry'"
        " ELSE 'scheduled' END",
        "is_active": "was.is_active",
        "sync_status": "CASE WHEN NOT was.is_active AND was.failures > 0 THEN 'parked'"
        f" WHEN was.outcome IN {GOOD} THEN 'success' ELSE was.outcome END",
        "last_sync_status": "was.outcome",
        "last_successful_sync": good_at,
        "consecutive_failures": "was.failures",
        "sync_priority": _column(columns, "sync_priority", "0"),
        "manual_slot_override": _column(columns, "manual_slot_override", "false"),
    }
    in_stock = _column(columns, "last_boeing_in_stock", "NULL::boolean")
    if "last_quantity" in columns:
        in_stock = "old.last_quantity > 0"
    values["last_inventory_status"] = (
        f"CASE WHEN {in_stock} THEN 'in_stock' WHEN NOT {in_stock} THEN 'out_of_stock' END"
    )
    return values


def _product(columns: Mapping[str, str], _: DesignDocument) -> dict[str, str]:
    del columns
    return {"shop_sku": "old.sku::text"}


def _staging(columns: Mapping[str, str], _: DesignDocument) -> dict[str, str]:
    product_id = source_of("product_staging", "shopify_product_id", columns)
    is_created = (
        "EXISTS (SELECT FROM product WHERE product.user_id = old.user_id::text"
        " AND product.sku = old.sku::text AND product.shopify_product_id IS NOT NULL)"
    )
    if product_id:
        is_created = f"(old.{product_id} IS NOT NULL OR {is_created})"
    batch = _column(columns, "batch_id", "NULL")
    batch = f"{batch}::uuid" if columns.get("batch_id") in (None, "uuid") else "NULL::uuid"
    return {
        "shop_sku": "old.sku::text",
        "batch_id": f"coalesce({batch}, gen_random_uuid())",
        "status": f"CASE WHEN {is_created} THEN 'created' ELSE 'blocked' END",
        "reason": f"CASE WHEN {is_created} THEN '' ELSE '{NOT_PUBLISHED}' END",
    }


def _raw(columns: Mapping[str, str], _: DesignDocument) -> dict[str, str]:
    batch = columns.get("batch_id")
    return {
        "raw_payload": _column(columns, "raw_payload", "'{}'"),
        "batch_id": "old.batch_id" if batch == "uuid" else "NULL",
    }


def _history(columns: Mapping[str, str], _: DesignDocument) -> dict[str, str]:
    return {"sync_timestamp": _column(columns, "sync_timestamp", "%(now)s")}


_COMPUTED = {
    SCHEDULE: _schedule,
    "product": _product,
    "product_staging": _staging,
    "boeing_raw_data": _raw,
    HISTORY: _history,
}
