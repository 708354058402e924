"""Records over the API: what each role reads, and what tools read with SQL."""

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool
from tests.operations.sample import ACME, BEST, SampleDeployment
from tests.web.api_requests import ApiClient
from tests.web.keys import auth_headers

from headway.core.access import Role
from headway.errors import ForbiddenError, NotFoundError
from headway.operations import records
from headway.operations.record_fields import OrderPage
from headway.store.accounts.records import KINDS
from headway.web.site import create
from headway_lab.platforms import ETSY, SHOPIFY

ROWS = """
WITH owner AS (SELECT * FROM connected_accounts WHERE platform = 'etsy'), placed AS (
  INSERT INTO orders (account_id, external_id, user_id, platform, status, is_open, currency, total,
    placed_at, checked_at, created_at, updated_at)
  SELECT id, 'o-' || user_id, user_id, platform, 'open', true, 'USD', 129.90, now(), now(), now(),
    now() FROM owner RETURNING account_id, external_id, user_id
)
INSERT INTO line_items (account_id, order_id, external_id, user_id, quantity, price, currency)
SELECT account_id, external_id, 'l-' || user_id, user_id, 2, 64.95, 'USD' FROM placed
"""


@pytest.fixture
def stored(sample: SampleDeployment) -> SampleDeployment:
    sample.execute(ROWS)
    return sample


def test_a_seller_reads_its_own_records_and_nobody_elses(stored: SampleDeployment) -> None:
    everybody = records.orders(stored.operator)
    assert {row.seller for row in everybody.items} == {ACME, BEST}
    mine = records.orders(stored.seller(ACME))
    assert [row.seller for row in mine.items] == [ACME]
    (row,) = mine.items
    assert (row.id, row.total, row.is_deleted) == ("o-acme", Decimal("129.90"), False)
    (line,) = records.line_items(stored.seller(ACME)).items
    assert (line.order_id, line.platform, line.price) == ("o-acme", ETSY, Decimal("64.95"))
    with pytest.raises(ForbiddenError):
        records.orders(stored.seller(ACME), seller=BEST)
    other = next(row.account_id for row in everybody.items if row.seller == BEST)
    with pytest.raises(NotFoundError):
        records.orders(stored.seller(ACME), account=other)
    # A cursor gives no access: it is a place in the order, and nothing else.
    again = records.orders(
        stored.seller(BEST), cursor=records.orders(stored.seller(ACME), limit=1).next_cursor
    )
    assert {row.seller for row in again.items} <= {BEST}


def test_records_are_filtered_by_platform_and_account(stored: SampleDeployment) -> None:
    caller = stored.operator
    assert records.orders(caller, platform=SHOPIFY).items == ()
    (row,) = records.orders(
        caller, account=records.orders(caller, seller=BEST).items[0].account_id
    ).items
    assert row.seller == BEST
    assert records.orders(caller, seller=BEST, platform=ETSY).items == (row,)


def test_the_cursor_stays_good_when_nothing_is_left(stored: SampleDeployment) -> None:
    def read(cursor: str | None) -> OrderPage:
        return records.orders(stored.operator, cursor=cursor, limit=1)

    first = read(None)
    second = read(first.next_cursor)
    assert (first.has_more, second.has_more) == (True, False)
    end = read(second.next_cursor)
    assert (end.items, end.has_more) == ((), False)
    stored.execute("UPDATE orders SET status = 'shipped' WHERE user_id = 'acme'")
    changed = read(end.next_cursor)
    assert [(row.id, row.status) for row in changed.items] == [("o-acme", "shipped")]
    stored.execute("DELETE FROM line_items WHERE user_id = 'best'")
    stored.execute("DELETE FROM orders WHERE user_id = 'best'")
    gone = read(changed.next_cursor)
    assert [(row.id, row.is_deleted, row.total) for row in gone.items] == [("o-best", True, None)]


def test_http_gives_money_as_text_and_names_the_schema(
    stored: SampleDeployment, pool: ConnectionPool
) -> None:
    api = ApiClient(create(stored.app, refresh_s=0), headers=auth_headers(pool, Role.SELLER, ACME))
    answer = api.get("/api/records/orders?limit=1").json()
    assert answer["schema_version"] == 1
    assert [row["total"] for row in answer["items"]] == ["129.90"]
    assert api.get(f"/api/records/orders?cursor={answer['next_cursor']}").json()["items"] == []
    refused = api.get("/api/records/orders?cursor=nonsense")
    assert (refused.status_code, "cursor" in refused.json()["detail"]) == (422, True)


@pytest.fixture
def analyst(pool: ConnectionPool, database: str) -> Iterator[Callable[[str], list[Any]]]:
    """Log in as a person of the role for tools."""
    with pool.connection() as connection:
        connection.execute("CREATE ROLE analyst LOGIN PASSWORD 'pass' IN ROLE headway_reader")
    dsn = make_conninfo(database, user="analyst", password="pass")

    def ask(statement: str) -> list[Any]:
        with psycopg.connect(dsn, autocommit=True) as connection:
            return connection.execute(statement).fetchall()

    yield ask
    with pool.connection() as connection:
        connection.execute("DROP ROLE analyst")


def test_the_role_for_tools_reads_the_views_and_nothing_else(
    stored: SampleDeployment, analyst: Callable[[str], list[Any]]
) -> None:
    assert sorted(analyst("SELECT seller, id, total FROM records_v1_orders")) == [
        ("acme", "o-acme", Decimal("129.90")),
        ("best", "o-best", Decimal("129.90")),
    ]
    assert len(analyst("SELECT * FROM records_v1_line_items WHERE platform = 'etsy'")) == 2
    for table in (*KINDS, "credential", "access_keys", "connected_accounts", "profiles"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            analyst(f"SELECT * FROM {table}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        analyst("DELETE FROM records_v1_orders")


def test_a_seller_does_not_reach_the_views(stored: SampleDeployment) -> None:
    caller = stored.seller(ACME)
    with pytest.raises(Exception, match="permission denied"), caller.own.pool.connection() as own:
        own.execute("SELECT * FROM records_v1_orders")


@pytest.mark.parametrize("name", KINDS)
def test_a_view_has_the_fields_of_the_api(pool: ConnectionPool, name: str) -> None:
    statement = "SELECT column_name FROM information_schema.columns WHERE table_name = %s"
    with pool.connection() as connection:
        rows = connection.execute(statement, (f"records_v1_{name}",)).fetchall()
    fields = set(records.RECORDS[name].__dataclass_fields__) - {"is_deleted"}
    assert {column for (column,) in rows} == fields
