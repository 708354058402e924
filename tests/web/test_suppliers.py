"""/api/suppliers: secrets are never returned, and lists are paged."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.conftest import START
from tests.web.api_requests import ApiClient
from tests.web.keys import auth_headers

from headway.app import App, build
from headway.app.providers import stored_secrets
from headway.config import Settings
from headway.core.access import Role
from headway.core.catalog.listings import SellerId, Sku, SupplierName
from headway.core.limits.breaker import FAILURES_MAX, Breaker
from headway.operations.callers import operator as operator_caller
from headway.operations.suppliers import SupplierStatuses, worst_suppliers
from headway.store.catalog.suppliers import Suppliers
from headway.web.site import create
from headway_lab.virtual_clock import VirtualClock

SUPPLIERS = "/api/suppliers"
SECRETS = ("s3cret-of-the-client", "s3cret-word")
EAST = {
    "name": "east", "client_id": "east-id", "client_secret": SECRETS[0], "username": "us",
    "password": SECRETS[1], "url": "https://east.example",
}  # fmt: skip


@pytest.fixture
def app(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> App:
    settings = Settings(data_dir=tmp_path, boeing_client_id="main-id")
    for seller in ("acme", "down", "fresh", "old"):
        with pool.connection() as connection:
            connection.execute("INSERT INTO profiles (user_id) VALUES (%s)", (seller,))
    return build(settings, clock, pool)


@pytest.fixture
def operator(app: App, pool: ConnectionPool, clock: VirtualClock) -> ApiClient:
    return ApiClient(create(app, real_time=clock), headers=auth_headers(pool))


def everything(pool: ConnectionPool) -> str:
    """Return all that the database holds, as text."""
    with pool.connection() as connection:
        tables = connection.execute(
            "SELECT format('%I', table_name) FROM information_schema.tables"
            " WHERE table_schema = 'public'"
        ).fetchall()
        return str([connection.execute(f"SELECT * FROM {name}").fetchall() for (name,) in tables])


def test_secrets_are_never_returned_logged_or_stored_in_clear_text(
    operator: ApiClient, app: App, pool: ConnectionPool, caplog: pytest.LogCaptureFixture
) -> None:
    once = {"Idempotency-Key": "k1"}
    added = operator.post(SUPPLIERS, json=EAST, headers=once)
    again = operator.post(SUPPLIERS, json=EAST, headers=once)
    assert (added.status_code, again.status_code, again.json()) == (201, 201, added.json())
    assert again.headers["Idempotency-Replayed"] == "true"
    assert added.json() == {
        "name": "east", "client_id": "east-id", "username": "us", "url": "https://east.example",
        "kind": "boeing", "options": {}, "is_new": True,
    }  # fmt: skip
    secrets = stored_secrets(SupplierName("east"), app.settings, pool)
    assert (secrets["client_secret"], secrets["password"]) == SECRETS
    wrong = operator.post(SUPPLIERS, json={**EAST, "client_secret": f"{SECRETS[0]} "})
    long = operator.post(SUPPLIERS, json={**EAST, "password": SECRETS[1] * 1000})
    assert (wrong.status_code, long.status_code) == (422, 422)
    assert ("client_secret" in wrong.text, "password" in long.text) == (True, True)
    output = (
        everything(pool)
        + caplog.text
        + operator.get(SUPPLIERS).text
        + operator.get("/api/audit").text
    )
    for secret in SECRETS:
        assert secret not in output + added.text + wrong.text + long.text


@pytest.mark.parametrize(
    ("change", "status", "detail"),
    (
        ({"name": "East"}, 422, "name: a supplier's name is"),
        ({"name": "main"}, 422, "name: a supplier's name is"),
        ({"client_id": ""}, 422, "client_id"),
        ({"username": "a\nb"}, 422, "username"),
        ({"url": "ftp://east.example"}, 422, "url must be an address"),
        ({"client_id": "main-id"}, 409, "client id of main"),
        ({"more": 1}, 422, "more"),
    ),
)
def test_an_invalid_supplier_is_refused_by_field(
    operator: ApiClient, pool: ConnectionPool, change: dict[str, Any], status: int, detail: str
) -> None:
    refused = operator.post(SUPPLIERS, json={**EAST, **change})
    assert (refused.status_code, detail in refused.json()["detail"]) == (status, True), refused.text
    assert Suppliers(pool).all() == []


def test_the_list_is_paged_and_shows_the_status_of_each_supplier(
    operator: ApiClient, app: App, pool: ConnectionPool
) -> None:
    names = [f"s{number}" for number in range(5)]
    for name in names:
        operator.post(SUPPLIERS, json={**EAST, "name": name, "client_id": f"{name}-id"})
    assigned = operator.post(f"{SUPPLIERS}/s2/sellers", json={"seller": "acme"})
    assert assigned.json() == {"supplier": "s2", "seller": "acme", "moved": 0}
    app.listings.add([(SellerId("acme"), Sku("P1"))], policy=app.policy, now=START)
    app.breakers.save(
        app.for_supplier(SupplierName("s2")).limit_key, Breaker().failed(START, "503")
    )
    with pool.connection() as connection:
        connection.execute("UPDATE product_sync_schedule SET last_successful_sync = %s", (START,))
        connection.execute("UPDATE profiles SET listing_count = 1")
        connection.execute(
            "INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, lease_until)"
            " SELECT gen_random_uuid(), 'boeing:s2-id', 'w', 1, %s::timestamptz - age, now()"
            " FROM unnest(ARRAY[interval '0', '1 hour', '25 hours']) AS age",
            (START,),
        )
    items, cursor = [], ""
    while cursor is not None:
        page = operator.get(f"{SUPPLIERS}?limit=2{cursor and f'&cursor={cursor}'}").json()
        items, cursor = items + page["items"], page["next_cursor"]
    assert [supplier["name"] for supplier in items] == ["main", *names]
    s2 = items[3]
    assert (s2["sellers"], s2["listings"], s2["calls"], s2["breaker"]["failures"]) == (1, 1, 2, 1)
    assert s2["oldest_read_at"] is not None
    assert operator.get(f"{SUPPLIERS}?cursor=strange").status_code == 422


def test_a_supplier_in_use_and_the_main_supplier_cannot_be_removed(
    operator: ApiClient, pool: ConnectionPool
) -> None:
    operator.post(SUPPLIERS, json=EAST)
    operator.post(f"{SUPPLIERS}/east/sellers", json={"seller": "acme"})
    kept = operator.delete(f"{SUPPLIERS}/east")
    assert (kept.status_code, "acme buys from east" in kept.text) == (409, True)
    assert operator.delete(f"{SUPPLIERS}/main").status_code == 409
    assert operator.delete(f"{SUPPLIERS}/west").status_code == 404
    assert operator.post(f"{SUPPLIERS}/west/sellers", json={"seller": "a"}).status_code == 404
    operator.post(f"{SUPPLIERS}/main/sellers", json={"seller": "acme"})
    assert operator.delete(f"{SUPPLIERS}/east").json()["name"] == "east"
    with pool.connection() as connection:
        query = "SELECT event_type, actor FROM sync_audit_log WHERE event_type LIKE 'supplier%%'"
        rows = connection.execute(query).fetchall()
    assert {kind for kind, _ in rows} == {"supplier_added", "supplier_chosen", "supplier_removed"}
    assert all(actor.startswith("operator") for _, actor in rows), "the audit says who"


def test_one_supplier_is_paused_and_resumed_by_its_name(
    operator: ApiClient, app: App, clock: VirtualClock, pool: ConnectionPool
) -> None:
    operator.post(SUPPLIERS, json=EAST)
    operator.post(f"{SUPPLIERS}/east/sellers", json={"seller": "acme"})
    for seller in ("acme", "bolt"):
        app.listings.add([(SellerId(seller), Sku("P1"))], policy=app.policy, now=START)
    east = {"kind": "supplier", "supplier": "east"}
    (made,) = operator.post("/api/sync/pause", json={**east, "reason": "wrong"}).json()["pauses"]
    assert (made["kind"], made["supplier"], made["reason"]) == ("supplier", "east", "wrong")
    shown_to = {
        seller: ApiClient(
            create(app, real_time=clock), headers=auth_headers(pool, Role.SELLER, seller)
        )
        for seller in ("acme", "bolt")
    }
    paused = {
        seller: len(asking.get("/api/sync/pauses").json()["pauses"])
        for seller, asking in shown_to.items()
    }
    assert paused == {"acme": 1, "bolt": 0}
    why = operator.get("/api/sync/explain/P1").json()["listings"]
    assert {listing["seller"]: listing["explanation"]["state"] == "paused" for listing in why} == {
        "acme": True,
        "bolt": False,
    }
    assert "Reading the supplier east is paused" in operator.get("/api/alerts").text
    assert operator.post("/api/sync/pause", json={**east, "supplier": "west"}).status_code == 404
    wrong = operator.post("/api/sync/pause", json={**east, "kind": "all"})
    assert (wrong.status_code, "supplier: " in wrong.text) == (422, True)
    assert shown_to["acme"].post("/api/sync/pause", json=east).status_code == 403
    (left,) = operator.post("/api/sync/resume", json={"kind": "supplier"}).json()["resumed"]
    assert (left["is_done"], left["supplier"]) == (False, None)
    (done,) = operator.post("/api/sync/resume", json=east).json()["resumed"]
    assert (done["is_done"], done["supplier"], done["message"]) == (True, "east", "resumed")


def test_the_worst_suppliers_are_first_with_the_time_of_their_next_call(
    operator: ApiClient, app: App, pool: ConnectionPool
) -> None:
    caller = operator_caller(app, "test")
    assert worst_suppliers(caller, limit=10) == SupplierStatuses(first=(), count=1)
    for name in ("fresh", "old", "down", "empty"):
        operator.post(SUPPLIERS, json={**EAST, "name": name, "client_id": f"{name}-id"})
    for hours, name in enumerate(("down", "fresh", "old")):
        operator.post(f"{SUPPLIERS}/{name}/sellers", json={"seller": name})
        app.listings.add([(SellerId(name), Sku("P1"))], policy=app.policy, now=START)
        with pool.connection() as connection:
            connection.execute(
                "UPDATE product_sync_schedule SET last_successful_sync = %s, priority = 'scheduled'"
                " WHERE user_id = %s",
                (START - timedelta(hours=hours), name),
            )
    broken = Breaker()
    for _ in range(FAILURES_MAX):
        broken = broken.failed(START, "503")
    app.breakers.save(app.for_supplier(SupplierName("down")).limit_key, broken)
    operator.post("/api/sync/pause", json={"kind": "supplier", "supplier": "old"})
    worst = worst_suppliers(caller, limit=3)
    assert ([supplier.view.name for supplier in worst.first], worst.count) == (
        ["down", "old", "fresh"],
        5,
    )
    down, old, fresh = worst.first
    assert down.leaves_at is not None
    assert down.leaves_at >= (broken.open_until or START)
    assert (old.leaves_at, old.pause is not None) == (None, True)
    assert (fresh.leaves_at is not None, fresh.pause) == (True, None)
    assert [supplier.view.name for supplier in worst_suppliers(caller, limit=9).first][-2:] == [
        "empty",
        "main",
    ]
