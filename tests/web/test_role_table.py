"""Every request of the API, sent by every role, for its own data and for another seller's.

The table in docs/reference/access.md says what must happen. A request without a row fails, and
so does a row without a request; the failure prints the row that is likely to be right.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from fastapi.routing import iter_route_contexts
from psycopg_pool import ConnectionPool
from pydantic import SecretStr
from tests.conftest import HTTP_TIMEOUT_S, NO_ROOTS, START, fresh_database
from tests.web.privacy_rows import add_privacy_rows

from headway.app import App, build
from headway.app.accounts import connect_account
from headway.clock import fresh_id
from headway.config import Settings
from headway.core.access import AccessGrant, Need, Principal, Role
from headway.core.catalog.listings import SellerId, Sku, SupplierName
from headway.core.pauses import PauseKind
from headway.errors import StoreError
from headway.operations.callers import seller_or_operator
from headway.operations.pauses import PauseBody, pause
from headway.store.access.keys import ApiKeys
from headway.store.access.sessions import Sessions
from headway.store.catalog.suppliers import SupplierRow, Suppliers
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway.web.access import NEED
from headway.web.login import PageRoute
from headway.web.server import SiteServer, address, listen
from headway.web.site import create
from headway_lab.platforms import SHOPIFY
from headway_lab.virtual_clock import VirtualClock

DOC = Path(__file__).parents[2] / "docs" / "reference" / "access.md"
OWN, OTHER = "acme", "bolt"
SHARED = "SHARED=1"
PUBLIC = "public"
NOTHING = "n/a"
COLUMNS = (
    "operator", "reader", "seller, own", "seller, another's", "reader of one, own",
    "reader of one, another's", "permits", "nobody",
)  # fmt: skip
ROLES: dict[str, tuple[Role, str | None]] = {
    "operator": (Role.OPERATOR, None),
    "reader": (Role.READER, None),
    "seller": (Role.SELLER, OWN),
    "reader of one": (Role.READER, OWN),
    "permits": (Role.PERMITS, None),
}
# Path parameter → its value in these tests; others come from the document's examples.
NAMED = {
    "sku", "job", "account_id", "batch_id", "run_id", "key_id", "endpoint_id", "erasure_id",
    "request_id",
}  # fmt: skip
OF_SELLERS = {
    "sku", "job", "account_id", "batch_id", "endpoint_id", "erasure_id", "request_id",
}  # fmt: skip
# Bodies of requests whose example does not fit; `{sku}` and the seller are filled in.
BODIES: Mapping[str, Mapping[str, Any]] = {
    "PUT /api/sync/products/{sku}/slot": {"hour": 6},
    # A limit that is new makes everybody wait.
    "POST /api/permits": {"limit": "main", "max_wait_s": 3600},
    # Without a name it is refused, but only after the caller's rights.
    "POST /api/erasures": {"kind": "customer", "platform": "shopify"},
    "POST /api/erasures/preview": {"kind": "customer", "platform": "shopify"},
    # Another number than is missing, so that the hold stays for the next who asks.
    "POST /api/removals/confirm": {"platform": "shopify", "missing": 14},
    "POST /api/removals/dismiss": {"platform": "shopify", "missing": 14},
    "POST /api/sync/rollback": {"to": (START - timedelta(days=1)).isoformat(), "skus": ["{sku}"]},
}
OWN_ACCOUNT = "FROM connected_accounts WHERE user_id = %(seller)s"
OWN_ORDER = "FROM orders WHERE user_id = %(seller)s"
# A record of each kind, of the seller's account.
RECORDS = (
    (
        "INSERT INTO orders (account_id, external_id, user_id, platform, status, is_open, currency,"
        " placed_at, checked_at, created_at, updated_at) SELECT id, '1', user_id, platform, 'open',"
        f" true, 'USD', %(now)s, %(now)s, %(now)s, %(now)s {OWN_ACCOUNT}"
    ),
    (
        "INSERT INTO line_items (account_id, order_id, external_id, user_id, quantity, currency)"
        f" SELECT account_id, '1', '1', user_id, 1, 'USD' {OWN_ORDER}"
    ),
    (
        "INSERT INTO shipments (account_id, order_id, external_id, user_id)"
        f" SELECT account_id, '1', '1', user_id {OWN_ORDER}"
    ),
    (
        "INSERT INTO refunds (account_id, order_id, external_id, user_id, amount, currency)"
        f" SELECT account_id, '1', '1', user_id, 1, 'USD' {OWN_ORDER}"
    ),
    (
        "INSERT INTO listings (account_id, external_id, user_id, platform, state, checked_at,"
        " created_at, updated_at) SELECT id, '1', user_id, platform, 'active', %(now)s, %(now)s,"
        f" %(now)s {OWN_ACCOUNT}"
    ),
    (
        "INSERT INTO customers (account_id, external_id, user_id, platform, created_at, updated_at)"
        f" SELECT id, '1', user_id, platform, %(now)s, %(now)s {OWN_ACCOUNT}"
    ),
    (
        "INSERT INTO payments (account_id, external_id, user_id, platform, kind, amount, currency,"
        " paid_at, created_at, updated_at) SELECT id, '1', user_id, platform, 'sale', 1, 'USD',"
        f" %(now)s, %(now)s, %(now)s {OWN_ACCOUNT}"
    ),
)
# Settings that some requests need.
SET_UP: dict[str, Any] = {
    "public_url": "https://headway.example",
    "shopify_client_id": "app",
    "shopify_client_secret": SecretStr("secret"),
    "notify_urls": SecretStr("json://127.0.0.1:9"),
}
# Pages without a login: the login itself, and what platforms and links call.
MANY_PAGES = 10
OPEN_PAGES = ("/login", "/logout", "/switch", "/connect/", "/openapi.json", "/runbook/")


@dataclass(frozen=True)
class Row:
    need: str
    cells: Mapping[str, str]


@cache
def rows() -> Mapping[str, Row]:
    """Read the table in the docs."""
    table = {}
    for line in DOC.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if re.match(r"`(GET|POST|PUT|DELETE|PATCH) ", cells[0]):
            words = dict(zip(COLUMNS, cells[2:], strict=True))
            table[cells[0].strip("`")] = Row(need=cells[1], cells=words)
    return table


class NoDatabase:
    """A missing database: the document needs none."""

    def connection(self) -> Any:
        raise StoreError("there is none")


@cache
def document() -> Mapping[str, Any]:
    return create(build(Settings(), VirtualClock(START), NoDatabase())).openapi()


def operations() -> dict[str, Mapping[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }


def schema_of(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a request's body; empty if it has none."""
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    name = schema.get("$ref", "").rpartition("/")[2]
    shape: Mapping[str, Any] = document()["components"]["schemas"].get(name, schema)
    return shape


def parameters(operation: Mapping[str, Any], place: str) -> dict[str, Mapping[str, Any]]:
    return {
        parameter["name"]: parameter
        for parameter in operation.get("parameters", [])
        if parameter["in"] == place
    }


def names_seller(operation: Mapping[str, Any]) -> bool:
    named = [parameters(operation, place) for place in ("query", "path")]
    body = schema_of(operation).get("properties", {})
    return any({"seller", "sellers"} & names.keys() for names in (*named, body))


def names_thing(operation: Mapping[str, Any]) -> bool:
    body = schema_of(operation).get("properties", {})
    return "skus" in body or bool(OF_SELLERS & set(parameters(operation, "path")))


def likely_row(name: str) -> str:
    """Return the row that a new request probably needs."""
    operation = operations()[name]
    need = operation.get(NEED, PUBLIC)
    cells = []
    for column in COLUMNS:
        role, is_another = column.partition(",")[0], column.endswith("another's")
        if need == PUBLIC:
            cells.append("allowed")
            continue
        of = ROLES.get(role)
        user = of and Principal(id="", name="", role=of[0], seller=of[1] and SellerId(of[1]))
        if user is None or not user.may(Need(need)):
            cells.append("refused")
        elif not is_another:
            cells.append("allowed")
        elif names_thing(operation):
            cells.append("hidden")
        else:
            cells.append("refused" if names_seller(operation) else NOTHING)
    return f"| `{name}` | {need} | {' | '.join(cells)} |"


@pytest.mark.parametrize("name", operations())
def test_every_request_has_a_row_and_requires_that_role(name: str) -> None:
    row = rows().get(name)
    assert row is not None, f"add to {DOC.name}:\n{likely_row(name)}"
    assert row.need == operations()[name].get(NEED, PUBLIC)


def test_every_row_belongs_to_a_request() -> None:
    assert rows().keys() <= operations().keys()


def test_every_page_outside_the_document_requires_a_login() -> None:
    site = create(
        build(Settings(public_url="https://x.example"), VirtualClock(START), NoDatabase())
    )
    documented = set(site.openapi()["paths"])
    pages = 0
    for context in iter_route_contexts(site.routes):
        path = context.path_format or context.path or ""
        is_page = isinstance(context.original_route, PageRoute)
        pages += is_page
        assert path in documented or path.startswith((*OPEN_PAGES, "/static")) or is_page, path
    assert pages > MANY_PAGES


@dataclass(frozen=True)
class TwoSellers:
    """Two sellers with one of everything, and a key for every role."""

    app: App
    client: httpx.Client
    things: Mapping[str, Mapping[str, str]]
    keys: Mapping[str, Mapping[str, str]]

    def send(self, name: str, seller: str, user: str, *, with_seller: bool) -> httpx.Response:
        """Send a request about that seller's data; `with_seller` names the seller in it."""
        operation, (method, _, path) = operations()[name], name.partition(" ")
        values = dict(self.things[seller])
        if "key_id" in path:
            grant = AccessGrant(name=fresh_id(), role=Role.READER)
            values["key_id"] = ApiKeys(self.app.pool).add_key(grant, now=START)[0].id
        if path.startswith("/api/suppliers/"):
            values["name"] = f"supplier-{fresh_id()[:8]}"
            row = SupplierRow(
                name=SupplierName(values["name"]), client_id=values["name"], username="us"
            )
            Suppliers(self.app.pool).add(row, now=START)
        if path.startswith("/api/webhook-endpoints"):
            values["endpoint_id"] = self._endpoint(seller)
        if "permit_id" in path:
            values["permit_id"] = self._permit(user)
        if path.startswith("/api/sessions"):
            values["session_id"] = self._logged_in()
        for word in parameters(operation, "path"):
            path = path.replace("{" + word + "}", quote(values[word], safe=""))
        query = {
            word: str(parameter.get("example") or (parameter["schema"].get("examples") or [""])[0])
            for word, parameter in parameters(operation, "query").items()
            if parameter.get("required")
        }
        if with_seller and "seller" in parameters(operation, "query"):
            query["seller"] = seller
        body = self._body(name, operation, seller, with_seller=with_seller)
        return self.client.request(
            method, path, params=query, json=body, headers=self.keys.get(user, {})
        )

    def _endpoint(self, seller: str) -> str:
        """Add an endpoint of this seller with one event; return its id."""
        endpoint_id, now = fresh_id(), self.app.clock.now()
        with self.app.pool.connection() as connection:
            connection.execute(
                "INSERT INTO webhook_endpoints (id, user_id, url, created_at, updated_at)"
                " VALUES (%s, %s, 'https://app.example.com/webhooks', %s, %s)",
                (endpoint_id, seller, now, now),
            )
            connection.execute(
                "INSERT INTO webhook_events (type, user_id, subject, data, occurred_at)"
                " VALUES ('order.created', %s, 'order:1', '{}', %s)",
                (seller, now),
            )
        return endpoint_id

    def _permit(self, user: str) -> str:
        """Return the id of a permit that this user took, or of none if they may take none."""
        body, headers = {"limit": "main", "max_wait_s": 3600}, self.keys.get(user, {})
        taken = self.client.post("/api/permits", json=body, headers=headers)
        return str(taken.json()["id"]) if taken.status_code == httpx.codes.CREATED else fresh_id()

    def _logged_in(self) -> str:
        """Log in the user that the example names; return the id of the session."""
        sessions, grant = (
            Sessions(self.app.pool),
            AccessGrant(name="acme-app", role=Role.OPERATOR),
        )
        sessions.begin(grant, expires_at=START + timedelta(hours=1), now=START)
        return sessions.live(now=START)[0].id

    def _body(
        self, name: str, operation: Mapping[str, Any], seller: str, *, with_seller: bool
    ) -> Any:
        shape = schema_of(operation)
        if not shape:
            return None
        content = operation["requestBody"]["content"]["application/json"]
        body = dict(BODIES.get(name) or content.get("example") or {})
        body.pop("all", None)
        body.pop("seller", None)
        if "skus" in shape.get("properties", {}):
            body["skus"] = [self.things[seller]["sku"]]
        if with_seller and "seller" in shape.get("properties", {}):
            body["seller"] = seller
        if "sellers" in shape.get("properties", {}):
            body["sellers"] = [seller]
        if name == "POST /api/keys":
            body = {"name": fresh_id(), "role": "reader"}
        return body


@pytest.fixture(scope="module")
def shared_world(
    postgres: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TwoSellers]:
    """Yield one world for all requests that change nothing."""
    with (
        fresh_database(postgres) as dsn,
        open_pool(dsn) as pool,
        serve_world(pool, tmp_path_factory.mktemp("shared")) as world,
    ):
        yield world


@pytest.fixture
def world(request: pytest.FixtureRequest, name: str) -> Iterator[TwoSellers]:
    if name.startswith("GET "):
        yield request.getfixturevalue("shared_world")
        return
    pool, folder = request.getfixturevalue("pool"), request.getfixturevalue("tmp_path")
    with serve_world(pool, folder) as own:
        yield own


@contextmanager
def serve_world(pool: ConnectionPool, folder: Path) -> Iterator[TwoSellers]:
    clock = VirtualClock(START)
    app = build(Settings(data_dir=folder, **SET_UP), clock, pool)
    things = {seller: fill(app, seller) for seller in (OWN, OTHER)}
    for seller in things:
        pause(seller_or_operator(app, "test", SellerId(seller)), PauseBody(kind=PauseKind.SELLER))
    keys = {}
    for user, (role, seller) in ROLES.items():
        owner = None if seller is None else SellerId(seller)
        _, secret = ApiKeys(pool).add_key(
            AccessGrant(name=user, role=role, seller=owner), now=START
        )
        keys[user] = {"Authorization": f"Bearer {secret}"}
    listener = listen("127.0.0.1", 0)
    server = SiteServer(create(app, real_time=clock), listener)
    server.start()
    try:
        with httpx.Client(
            base_url=address(listener), timeout=HTTP_TIMEOUT_S, trust_env=False, verify=NO_ROOTS
        ) as client:
            yield TwoSellers(app=app, client=client, things=things, keys=keys)
    finally:
        server.stop()


def fill(app: App, seller: str) -> dict[str, str]:
    """Give a seller one of everything; return the name of each."""
    user_id, now = SellerId(seller), app.clock.now()
    sku = f"{seller}=1/A B"
    app.listings.add([(user_id, Sku(sku)), (user_id, Sku(SHARED))], policy=app.policy, now=now)
    connect_account(app.pool, user_id, f"{seller}.myshopify.com", platform=SHOPIFY, now=now)
    batch_id, run_id = fresh_id(), fresh_id()
    with app.pool.connection() as connection:
        connection.execute(
            "INSERT INTO listing_state (user_id, sku, held_reason, held_at)"
            " VALUES (%s, %s, 'up by 200 per cent', %s)",
            (seller, sku, now),
        )
        connection.execute(
            "INSERT INTO product_staging (user_id, sku, shop_sku, batch_id)"
            " VALUES (%s, %s, %s, %s)",
            (seller, sku, sku, batch_id),
        )
        connection.execute(
            "INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, new_value)"
            " VALUES (%s, %s, %s, 'price_changed', '{\"price\": \"1.00\"}')",
            (seller, sku, now),
        )
        connection.execute(
            "INSERT INTO runs (id, kind, request, created_at) VALUES (%s, 'plan', '{}', %s)",
            (run_id, now),
        )
        connection.execute(
            "INSERT INTO listing_walks (account_id, user_id, walks, known, missing, held_reason,"
            " held_since, updated_at) SELECT id, user_id, '{}', 20, 15, 'many at once', %s, %s"
            " FROM connected_accounts WHERE user_id = %s",
            (now, now, seller),
        )
        for statement in RECORDS:
            connection.execute(statement, {"seller": seller, "now": now})
        request_id, erasure_id = add_privacy_rows(connection, seller, now)
        account_id, job_id = connection.execute(
            "SELECT account_id::text, id::text FROM sync_jobs WHERE user_id = %s LIMIT 1",
            (seller,),
        ).fetchone() or ("", "")
    return {
        "sku": sku, "job": job_id, "account_id": account_id, "batch_id": batch_id,
        "run_id": run_id, "seller": seller, "request_id": request_id, "erasure_id": erasure_id,
        "upload": "0" * 64, "number": "0",
        "shop": f"{seller}.myshopify.com",
    }  # fmt: skip


def check_response(word: str, response: httpx.Response, user: str, *, is_named: bool) -> None:
    """Compare a response with the table; `is_named` means that it is about a seller's data."""
    status = response.status_code
    if word == "refused":
        assert status == (401 if user == "nobody" else 403), response.text
    elif word == "hidden":
        assert status == 404, response.text
    else:
        assert word == "allowed"
        is_read = response.request.method == "GET"
        assert status == 200 if is_read else status in {200, 201, 202, 409, 422}, response.text
        if user in {"seller", "reader of one"} and status < 300:
            assert OTHER not in response.text, "it shows what is another seller's"
            assert OWN in response.text or not (is_read and is_named), "it shows what is one's own"


@pytest.mark.parametrize("name", [request for request in rows() if request in operations()])
def test_every_role_is_allowed_or_refused_as_in_the_table(world: TwoSellers, name: str) -> None:
    row, operation = rows()[name], operations()[name]
    if row.need == PUBLIC:
        statuses = {
            world.send(name, OWN, user, with_seller=False).status_code
            for user in (*ROLES, "nobody")
        }
        assert len(statuses) == 1, "who asks makes no difference"
        assert statuses != {403}
        return
    is_named = names_seller(operation) or names_thing(operation)
    # The operator is last: a seller cannot change what an operator paused.
    for column, word in reversed(row.cells.items()):
        user, is_another = column.partition(",")[0], column.endswith("another's")
        if word == NOTHING:
            continue
        owner = OTHER if is_another else OWN
        if is_another and names_seller(operation):
            check_response(
                "refused",
                world.send(name, owner, user, with_seller=True),
                user,
                is_named=is_named,
            )
        with_seller = not (is_another and names_thing(operation))
        check_response(
            word,
            world.send(name, owner, user, with_seller=with_seller),
            user,
            is_named=is_named,
        )
        if user in {"operator", "reader"}:
            check_response(
                word,
                world.send(name, OTHER, user, with_seller=True),
                user,
                is_named=is_named,
            )
