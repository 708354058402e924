"""The databases that the design documents describe, with 500 products each.

The rows include what a shop that has run for months has: products that were never read, that are
stuck, that fail, that were deactivated, and a part that two sellers list.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

FOLDER = Path(__file__).parent
ROWS = 500
SELLERS = ("acme", "bolt", "0b9f6d1e-5f0a-4c1d-9a53-6f0f5f6c1a11")
DAY = timedelta(days=1)


@dataclass(frozen=True)
class FormerShop:
    """One document's database: its SQL, and how its schedule names what all of them have."""

    file: str
    document: str
    policy: str
    columns: tuple[str, ...]


SYSTEM_DESIGN = FormerShop(
    "system_design", "system-design", "packed", ("hour_bucket", "sync_status", "last_error",
    "last_price", "last_quantity"))  # fmt: skip
SEPARATE_RETRY = FormerShop(
    "separate_retry", "separate-scheduled-and-retry", "split", ("hour_bucket", "sync_status",
    "last_successful_sync", "last_error", "last_price", "last_quantity"))  # fmt: skip
SIMPLIFIED = FormerShop(
    "simplified", "simplified-implementation", "rolling", ("sync_slot", "next_sync_at",
    "sync_status", "last_error", "last_price", "last_quantity"))  # fmt: skip
PLAN_V2 = FormerShop(
    "plan_v2", "implementation-plan-v2", "anchored", ("hour_bucket", "minute_offset",
    "next_sync_at", "last_sync_started_at", "last_sync_status", "last_sync_error",
    "last_boeing_price", "last_boeing_quantity", "last_boeing_in_stock", "sync_priority",
    "manual_slot_override"))  # fmt: skip
FORMER_SHOPS = (SYSTEM_DESIGN, SEPARATE_RETRY, PLAN_V2, SIMPLIFIED)
STATES = ("success",) * 7 + ("failed", "pending", "syncing")


def create(connection: psycopg.Connection[Any], shop: FormerShop, now: datetime) -> None:
    """Create the tables of a document and fill them."""
    for name in ("products", shop.file):
        connection.execute((FOLDER / f"{name}.sql").read_text().encode())
    schedule = [schedule_row(shop, number, now) for number in range(ROWS)]
    insert(connection, "product_sync_schedule", schedule)
    # Ten products were never given a place in the schedule: what backfill is for.
    products = [product_row(number, now) for number in range(ROWS + 10)]
    insert(connection, "product", products)
    insert(connection, "product_staging", [staging_row(number, now) for number in range(ROWS + 20)])
    raw = [(*key(number), Jsonb({"lineItems": [number]})) for number in range(50)]
    insert(connection, "boeing_raw_data", [dict(zip(RAW, row, strict=True)) for row in raw])
    if shop is PLAN_V2:
        insert(connection, "sync_audit_log", [event_row(number, now) for number in range(ROWS)])


RAW = ("user_id", "sku", "raw_payload")


def key(number: int) -> tuple[str, str]:
    """Return seller and part number; every tenth part is listed by two sellers."""
    return SELLERS[number % len(SELLERS)], f"WF{330000 + number - number % 10 // 9}=K3"


def schedule_row(shop: FormerShop, number: int, now: datetime) -> dict[str, Any]:
    state = STATES[number % len(STATES)]
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    hour, minute = number % 24, number * 7 % 60
    slot = midnight + timedelta(hours=hour, minutes=minute)
    is_known = state != "pending"
    read_at = (slot if slot < now else slot - DAY) if is_known else None
    failures = 0 if state != "failed" else 1 + number // 10 % 5
    seller, sku = key(number)
    price, quantity = round(12.5 + number * 0.37, 2), number % 40
    outcome = {"success": ("success", "no_change", "updated")[number % 3], "syncing": "success"}
    row = {
        "user_id": seller,
        "sku": sku,
        "hour_bucket": hour,
        "minute_offset": minute,
        "sync_slot": hour * 60 + minute,
        "sync_status": state,
        "last_sync_status": outcome.get(state, state),
        "next_sync_at": slot if slot > now else slot + DAY,
        "last_sync_at": read_at,
        "last_sync_started_at": now - timedelta(hours=2) if state == "syncing" else read_at,
        "last_successful_sync": read_at.date() - timedelta(days=failures) if read_at else None,
        "last_error": "Not found in Boeing response" if failures else None,
        "last_sync_error": "Not found in Boeing response" if failures else None,
        "consecutive_failures": failures,
        "last_boeing_hash": f"{number:032x}" if is_known else None,
        "last_price": price if is_known else None,
        "last_boeing_price": price if is_known else None,
        "last_quantity": quantity if is_known else None,
        "last_boeing_quantity": quantity if is_known else None,
        "last_boeing_in_stock": quantity > 0 if is_known else None,
        "is_active": failures < 5 and number % 97 != 0,
        "sync_priority": 5 if number % 50 == 0 else 0,
        "manual_slot_override": number % 61 == 0,
    }
    common = ("user_id", "sku", "last_sync_at", "consecutive_failures", "last_boeing_hash",
              "is_active")  # fmt: skip
    return {name: row[name] for name in (*common, *shop.columns)}


def product_row(number: int, now: datetime) -> dict[str, Any]:
    seller, sku = key(number)
    return {
        "user_id": seller,
        "sku": sku,
        "title": f"Fastener {number}",
        "list_price": round(12.5 + number * 0.37, 2),
        "price": round((12.5 + number * 0.37) * 1.1, 2),
        "inventory_quantity": number % 40,
        "shopify_product_id": f"gid://shopify/Product/{7000 + number}",
        "shopify_variant_id": f"gid://shopify/ProductVariant/{9000 + number}",
        "shopify_inventory_item_id": f"gid://shopify/InventoryItem/{8000 + number}",
        "warehouse_note": f"shelf {number}" if number % 5 == 0 else None,
        "updated_at": now - DAY,
    }


def staging_row(number: int, now: datetime) -> dict[str, Any]:
    """Return a row of product_staging; the last ten were fetched and never published."""
    product = product_row(number, now)
    names = ("user_id", "sku", "title", "list_price", "price", "inventory_quantity", "updated_at")
    row = {name: product[name] for name in names}
    is_published = number < ROWS + 10
    row["shopify_product_id"] = product["shopify_product_id"] if is_published else None
    row["status"] = "published" if is_published else "fetched"
    return row


def event_row(number: int, now: datetime) -> dict[str, Any]:
    seller, sku = key(number)
    kinds = ("sync_started", "sync_completed", "price_changed", "sync_failed", "dispatch_started")
    kind = kinds[number % len(kinds)]
    is_price = kind == "price_changed"
    return {
        "user_id": seller,
        "sku": sku,
        "sync_timestamp": now - timedelta(hours=number),
        "event_type": kind,
        "old_value": Jsonb({"price": 10 + number}) if is_price else None,
        "new_value": Jsonb({"price": 11 + number}) if is_price else None,
        "error_message": "timeout" if kind == "sync_failed" else None,
        "error_code": "TIMEOUT" if kind == "sync_failed" else None,
        "task_id": f"celery-{number}",
    }


def insert(connection: psycopg.Connection[Any], table: str, rows: list[dict[str, Any]]) -> None:
    names = list(rows[0])
    values = ", ".join(f"%({name})s" for name in names)
    statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({values})"
    with connection.cursor() as cursor:
        cursor.executemany(statement.encode(), rows)


NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
