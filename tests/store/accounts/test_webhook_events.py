"""Facts become events in the transaction that writes them, as the catalog describes them."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from psycopg import Rollback
from psycopg_pool import ConnectionPool
from tests.engine.webhook_setup import ACME, WebhookWorld, create_world

from headway.app.accounts import connect_account
from headway.core.accounts.outgoing_webhooks import DueEvent
from headway.core.accounts.webhook_catalog import EVENT_TYPES
from headway.store.accounts.event_deliveries import EventDeliveries
from headway.store.accounts.webhook_endpoints import WebhookEndpoints
from headway_lab.platforms import PRINTIFY
from headway_lab.virtual_clock import VirtualClock

MIGRATIONS = Path(__file__).parents[3] / "src/headway/store/migrations"
URL = "https://app.example.com/webhooks"
STATE = {"price": "12.00", "quantity": 3}


@pytest.fixture
def world(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> WebhookWorld:
    return create_world(pool, clock, tmp_path)


def bodies(world: WebhookWorld) -> list[dict[str, Any]]:
    """Return the bodies of all events that wait, in their order."""
    store = EventDeliveries(world.app.pool)
    now = world.clock.now()
    lease = store.claim(now, owner="test", lease_until=now, is_slow=False)
    assert lease is not None
    events: list[DueEvent] = list(store.due(lease, now, limit=100))
    return [json.loads(event.body) for event in events]


def listing(world: WebhookWorld, name: str, *, price: str = "5", state: str = "active") -> None:
    world.execute(
        "INSERT INTO listings AS row (account_id, external_id, user_id, platform, sku, state,"
        " price, checked_at, created_at, updated_at)"
        " VALUES (%s, %s, %s, 'etsy', 'MUG', %s, %s, %s, %s, %s)"
        " ON CONFLICT (account_id, external_id) DO UPDATE SET state = excluded.state,"
        " price = excluded.price, updated_at = excluded.updated_at",
        world.account_id, name, ACME, state, price, *[world.clock.now()] * 3,
    )  # fmt: skip


def history(world: WebhookWorld, kind: str, *, job: str | None = None) -> None:
    world.execute(
        "INSERT INTO sync_audit_log (user_id, sku, job_id, sync_timestamp, event_type, old_value,"
        " new_value, error_message) VALUES (%s, %s, %s, %s, %s, %s, %s, 'because')",
        ACME, None if job else "P=1", job, world.clock.now(), kind, None, json.dumps(STATE),
    )  # fmt: skip


def test_every_event_that_the_database_writes_is_as_the_catalog_describes_it(
    world: WebhookWorld,
) -> None:
    endpoint, _ = world.endpoint(URL)
    world.order("o1")
    world.clock.sleep(1)
    world.order("o1", status="shipped")
    world.execute(
        "INSERT INTO listing_walks (account_id, user_id, walks, updated_at)"
        " VALUES (%s, %s, '{}', now())",
        world.account_id, ACME,
    )  # fmt: skip
    listing(world, "l1")
    world.clock.sleep(1)
    listing(world, "l1", state="removed")
    connect_account(world.app.pool, ACME, "2001", platform=PRINTIFY, now=world.clock.now())
    world.execute("UPDATE connected_accounts SET status = 'disconnected', reason = 'left'")
    ((job,),) = world.execute("SELECT id::text FROM sync_jobs ORDER BY id LIMIT 1")
    mapping = dict(re.findall(r"\('(\w+)', '([a-z_.]+)'\)", trigger_source()))
    for kind, name in mapping.items():
        is_job = name.startswith(("account.", "quota."))
        history(world, kind, job=job if is_job else None)
    world.execute(
        "INSERT INTO webhook_events (type, user_id, subject, data, occurred_at) SELECT"
        " 'endpoint.disabled', 'acme', 'endpoint:' || id, jsonb_build_object('endpoint_id', id,"
        " 'url', url, 'reason', 'gone'), now() FROM webhook_endpoints"
    )
    WebhookEndpoints(world.app.pool).add_test(endpoint, now=world.clock.now())
    found = bodies(world)
    for body in found:
        jsonschema_rs.validator_for(EVENT_TYPES[body["type"]].schema).validate(body)
    assert {body["type"] for body in found} == set(EVENT_TYPES)
    assert [body["sequence"] for body in found] == sorted(body["sequence"] for body in found)


@pytest.mark.parametrize("kind", EVENT_TYPES.values(), ids=list(EVENT_TYPES))
def test_the_example_of_an_event_fits_its_schema(kind: Any) -> None:
    validator = jsonschema_rs.validator_for(kind.schema)
    validator.validate(kind.example)
    broken = {**kind.example, "data": {}}
    assert not validator.is_valid(broken)


def trigger_source() -> str:
    """Return the text of the trigger that maps the history to events."""
    (path,) = MIGRATIONS.glob("*_outgoing_webhooks.up.sql")
    text = path.read_text(encoding="utf-8")
    return text[text.index("CREATE FUNCTION webhook_history") :]


def test_an_order_that_is_written_again_unchanged_is_no_event(world: WebhookWorld) -> None:
    world.endpoint(URL)
    world.order("o1")
    world.order("o1")
    world.execute("UPDATE orders SET checked_at = checked_at + interval '1 hour'")
    assert [body["type"] for body in bodies(world)] == ["order.created"]


def test_an_update_names_the_fields_that_changed(world: WebhookWorld) -> None:
    world.endpoint(URL, "order.updated")
    world.order("o1")
    world.order("o1", status="shipped", total="6.00")
    world.execute("UPDATE orders SET updated_at = updated_at + interval '1 hour'")
    assert [body["data"]["changed"] for body in bodies(world)] == [["status", "total"], []]


def test_orders_from_before_the_account_was_connected_are_history(world: WebhookWorld) -> None:
    world.endpoint(URL)
    world.execute(
        "UPDATE connected_accounts SET created_at = %s + interval '1 hour'", world.clock.now()
    )
    world.order("old")
    assert world.is_empty()


def test_listings_that_the_first_walk_finds_are_no_events(world: WebhookWorld) -> None:
    world.endpoint(URL)
    listing(world, "l1")
    assert world.is_empty()


def test_an_event_is_undone_with_the_fact_that_it_reports(world: WebhookWorld) -> None:
    world.endpoint(URL)

    with world.app.pool.connection() as connection, connection.transaction():
        connection.execute("UPDATE connected_accounts SET status = 'disconnected'")
        assert connection.execute("SELECT count(*) FROM webhook_events").fetchone() == (1,)
        raise Rollback
    assert world.is_empty()


def test_nothing_is_recorded_unless_an_endpoint_receives_it(world: WebhookWorld) -> None:
    world.order("o1")
    world.endpoint(URL, "change.held")
    world.order("o2")
    assert world.execute("SELECT count(*) FROM webhook_events") == [(0,)]


def test_events_name_nobody_who_buys(world: WebhookWorld) -> None:
    world.endpoint(URL)
    world.execute("UPDATE connected_accounts SET owner_id = 'somebody'")
    world.order("o1")
    world.execute("UPDATE orders SET customer_id = 'c-77', updated_at = now()")
    assert "c-77" not in json.dumps(bodies(world))


def test_old_events_are_forgotten_with_their_deliveries(world: WebhookWorld) -> None:
    world.endpoint(URL)
    world.order("o1")
    world.clock.sleep(10)
    assert EventDeliveries(world.app.pool).forget(world.clock.now()) == 1
    assert world.execute("SELECT count(*) FROM event_deliveries") == [(0,)]
