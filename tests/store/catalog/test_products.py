"""A file goes in as a whole: in few statements, or not at all, and nobody's shop SKU twice."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from psycopg import Cursor
from psycopg_pool import ConnectionPool

from headway.core.catalog.intake import COLUMNS, ImportResult, ImportRow, RefusedRow, ShopSkuForm
from headway.core.catalog.listings import SellerId, Sku
from headway.core.catalog.storefront import Gid
from headway.core.timetable.policies.rolling import Rolling
from headway.errors import InvalidError, StoreError
from headway.store.access.isolation import TenantPool
from headway.store.catalog.listings import Listings
from headway.store.catalog.products import Products
from headway.store.pool import open_pool
from headway.store.timetable.schedule import Schedule
from headway_lab.virtual_clock import VirtualClock

PRODUCTS = """
SELECT user_id, sku, shop_sku, title, shopify_product_id, shopify_variant_id FROM product
ORDER BY user_id, sku
"""
VALUES = "SELECT sku, family, value_weight FROM product_sync_schedule ORDER BY user_id, sku"
SLOTS = "SELECT user_id, sku FROM product_sync_schedule ORDER BY user_id, sku"


@pytest.fixture
def products(pool: ConnectionPool) -> Products:
    return Products(pool)


def ask(pool: ConnectionPool, statement: str, *values: object) -> list[Any]:
    with pool.connection() as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []


def row(line: int, sku: str, seller: str = "acme", **more: Any) -> ImportRow:
    return ImportRow(line=line, sku=Sku(sku), seller=SellerId(seller), **more)


def take_in(
    products: Products,
    clock: VirtualClock,
    *rows: ImportRow | RefusedRow,
    form: ShopSkuForm = "same",
    is_rehearsal: bool = False,
) -> ImportResult:
    return products.take_in(
        rows, form=form, policy=Rolling(), now=clock.now(), is_rehearsal=is_rehearsal
    )


def counts(imported: ImportResult) -> tuple[int, int, int, int]:
    return (imported.added, imported.updated, imported.unchanged, len(imported.refused))


def reasons(imported: ImportResult) -> dict[int, str]:
    return {refusal.line: refusal.reason for refusal in imported.refused}


def test_a_product_enters_with_its_slot(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    imported = take_in(
        products, clock, row(2, "A=K3", title="Bolt", shopify_product_id=Gid("g1")), form="base"
    )
    assert counts(imported) == (1, 0, 0, 0)
    assert imported.sellers == ["acme"]
    assert ask(pool, PRODUCTS) == [("acme", "A=K3", "A", "Bolt", "g1", None)]
    (slot,) = ask(pool, "SELECT priority, next_sync_at, sync_status FROM product_sync_schedule")
    assert slot == ("scheduled", Rolling().place(Sku("A=K3"), clock.now()).next_sync_at, "pending")


def test_spellings_that_differ_in_case_or_spaces_are_one_part(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    imported = take_in(
        products, clock, row(2, "WF1=K3"), row(3, "wf1=k3"), row(4, "wf1=k3", "zenith")
    )
    assert counts(imported) == (2, 0, 0, 1)
    assert "wf1=k3 and WF1=K3 in line 2 differ only in case or spaces" in reasons(imported)[3]
    imported = take_in(products, clock, row(2, "Wf1=K3"), row(3, "WF1=K3"), row(4, "WF1=K4"))
    assert "one part" in reasons(imported)[3]
    imported = take_in(products, clock, row(2, "Wf1=K3"), row(3, "WF1=K5"))
    assert counts(imported)[0] == 1
    assert "the part is listed as WF1=K3" in reasons(imported)[2]
    assert ask(pool, SLOTS) == [
        ("acme", "WF1=K3"),
        ("acme", "WF1=K4"),
        ("acme", "WF1=K5"),
        ("zenith", "wf1=k3"),
    ]


def test_what_is_there_gets_only_what_the_file_gives(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    take_in(products, clock, row(2, "A=K3", title="Bolt", shopify_product_id=Gid("g1")))
    Listings(pool).add([(SellerId("acme"), Sku("B"))], policy=Rolling(), now=clock.now())
    ask(pool, "UPDATE product_sync_schedule SET priority = 'manual'")
    rows = (row(2, "A=K3", shopify_variant_id=Gid("v1")), row(3, "B"))
    # Another form by now: a part keeps the shop SKU under which the shop knows it.
    assert counts(take_in(products, clock, *rows, form="base")) == (1, 1, 0, 0)
    assert ask(pool, PRODUCTS)[0] == ("acme", "A=K3", "A=K3", "Bolt", "g1", "v1")
    assert counts(take_in(products, clock, *rows, form="base")) == (0, 0, 2, 0)
    assert ask(
        pool, "SELECT DISTINCT priority, count(*) FROM product_sync_schedule GROUP BY 1"
    ) == [("manual", 2)]


def test_a_part_that_is_there_without_a_slot_gets_one(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    take_in(products, clock, row(2, "A"))
    ask(pool, "DELETE FROM product_sync_schedule")
    assert counts(take_in(products, clock, row(2, "A"))) == (0, 0, 1, 0)
    assert ask(pool, SLOTS) == [("acme", "A")]


def test_other_ids_mean_that_the_shop_must_be_read_again(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    ids = {"shopify_variant_id": Gid("v1")}
    other = {"shopify_variant_id": Gid("v3")}
    take_in(products, clock, row(2, "A", **ids), row(3, "B", **other), row(4, "A", "zenith", **ids))
    ask(
        pool,
        "INSERT INTO listing_state (user_id, sku, desired, applied) SELECT user_id, sku, '{}', '{}'"
        " FROM product",
    )
    take_in(products, clock, row(2, "A", shopify_variant_id=Gid("v2")), row(3, "B", **other))
    states = "SELECT user_id, sku, applied IS NULL, push_at FROM listing_state ORDER BY 1, 2"
    assert ask(pool, states) == [
        ("acme", "A", True, clock.now()),
        ("acme", "B", False, None),
        ("zenith", "A", False, None),
    ]


def test_a_new_part_gets_its_family_and_weight(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    rows = (row(2, "A", family="Hexcel", weight=2.5), row(3, "B", sales=0.0, tier="pro"))
    assert counts(take_in(products, clock, *rows, row(4, "C"))) == (3, 0, 0, 0)
    assert ask(pool, VALUES) == [("A", "Hexcel", 2.5), ("B", None, 0.04), ("C", None, 1)]


def test_a_known_part_gets_its_new_weight_and_nothing_else_changes(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    keys = ("A", "B", "C", "D", "E")
    take_in(products, clock, *(row(n, sku, family="Old", weight=2.0) for n, sku in enumerate(keys)))
    take_in(products, clock, row(9, "A", "zenith"))
    rest = (
        "SELECT to_jsonb(row) - ARRAY['family', 'value_weight'] FROM product_sync_schedule AS row"
    )
    before = ask(pool, f"{rest} ORDER BY user_id, sku")
    clock.sleep(3600)
    rows = (
        row(2, "A", family="New"),
        row(3, "B", weight=3.0),
        row(4, "C", family="Old", weight=2.0),
        row(5, "D"),
        row(6, "E", weight=5.0, title="Bolt"),
    )
    assert counts(take_in(products, clock, *rows)) == (0, 3, 2, 0)
    valued = [("A", "New", 2), ("B", "Old", 3), ("C", "Old", 2), ("D", "Old", 2), ("E", "Old", 5)]
    assert ask(pool, VALUES) == [*valued, ("A", None, 1)]
    assert counts(take_in(products, clock, *rows)) == (0, 0, 5, 0)
    assert ask(pool, f"{rest} ORDER BY user_id, sku") == before


def test_a_listing_that_has_no_product_yet_is_added_and_weighed(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    Listings(pool).add([(SellerId("acme"), Sku("A"))], policy=Rolling(), now=clock.now())
    assert ask(pool, VALUES) == [("A", None, 1)]
    assert counts(take_in(products, clock, row(2, "A", weight=3.0))) == (1, 0, 0, 0)
    assert ask(pool, VALUES) == [("A", None, 3)]


def test_a_part_that_is_being_read_is_weighed_and_its_reader_still_holds_it(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    take_in(products, clock, row(2, "A"))
    schedule = Schedule(pool)
    (claimed,) = schedule.claim(
        [Sku("A")], now=clock.now(), owner="w", lease_until=clock.now() + timedelta(minutes=1)
    )
    assert counts(take_in(products, clock, row(2, "A", family="Hexcel", weight=9.0))) == (
        0,
        1,
        0,
        0,
    )
    lease = "SELECT sync_status, fence, lease_owner FROM product_sync_schedule"
    assert ask(pool, lease) == [("syncing", claimed.fence, "w")]
    assert schedule.release([claimed], suspicion={}) == 1
    assert ask(pool, VALUES) == [("A", "Hexcel", 9)]


def test_an_import_and_a_settle_of_the_same_part_do_not_wait_for_each_other(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    """A settle has the schedule's row and wants the state's; an import changes both."""
    take_in(products, clock, row(2, "A", shopify_variant_id=Gid("v1")))
    ask(pool, "INSERT INTO listing_state (user_id, sku, desired) VALUES ('acme', 'A', '{}')")
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    done: list[ImportResult] = []
    other = row(2, "A", shopify_variant_id=Gid("v2"), weight=4.0)
    importing = threading.Thread(target=lambda: done.append(take_in(products, clock, other)))
    with pool.connection() as settling, settling.transaction():
        settling.execute("SELECT FROM product_sync_schedule FOR UPDATE")
        importing.start()
        while importing.is_alive() and ask(pool, waiting) == [(0,)]:
            pass
        settling.execute("UPDATE listing_state SET observed = '{}'")
    importing.join()
    assert [counts(product) for product in done] == [(0, 1, 0, 0)]
    assert ask(pool, VALUES) == [("A", None, 4)]


def test_a_part_twice_in_a_file_goes_in_once(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    imported = take_in(
        products, clock, row(2, "A", title="first"), row(3, "B"), row(9, "A"), row(10, "A")
    )
    assert counts(imported) == (2, 0, 0, 2)
    assert reasons(imported) == {
        9: "sku: the part is in line 2 already",
        10: "sku: the part is in line 2 already",
    }
    assert imported.refused[0].cells["sku"] == "A"
    assert set(imported.refused[0].cells) == set(COLUMNS)
    assert ask(pool, PRODUCTS)[0][3] == "first"


def test_a_refused_row_is_reported_as_it_is_in_the_file(
    products: Products, clock: VirtualClock
) -> None:
    again = (
        row(3, "A", family="Hexcel", sales=0.0, margin=1.5, tier="pro"),
        row(4, "A", weight=0.1),
    )
    first, second = take_in(products, clock, row(2, "A"), *again).refused
    names = ("family", "weight", "sales", "margin", "tier")
    assert [first.cells[name] for name in names] == ["Hexcel", "", "0.0", "1.5", "pro"]
    assert [second.cells[name] for name in names] == ["", "0.1", "", "", ""]


def test_two_parts_that_would_be_one_in_the_shop_are_both_refused(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    rows = (row(2, "A=K3"), row(3, "A=E9"), row(4, "B", shop_sku="C"), row(5, "C"), row(6, "D"))
    imported = take_in(products, clock, *rows, form="base")
    assert set(reasons(imported)) == {2, 3, 4, 5}
    assert reasons(imported)[2] == "shop_sku: A would be the shop SKU of 2 parts of this file"
    assert imported.refused[2].cells["shop_sku"] == "C", "as the file gave it"
    assert imported.refused[3].cells["shop_sku"] == ""
    assert ask(pool, SLOTS) == [("acme", "D")]


def test_a_shop_sku_that_is_another_parts_is_refused_and_its_owner_stays(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    take_in(products, clock, row(2, "A=K3"), form="base")
    ask(
        pool,
        "INSERT INTO product_staging (user_id, sku, shop_sku, batch_id, status) VALUES"
        " ('acme', 'S=1', 'S', gen_random_uuid(), 'normalized'),"
        " ('acme', 'T=1', 'T', gen_random_uuid(), 'blocked')",
    )
    rows = (row(2, "A=E9"), row(3, "A=K3", title="Bolt"), row(4, "S=2"), row(5, "T=2"))
    imported = take_in(products, clock, *rows, form="base")
    assert counts(imported) == (1, 1, 0, 2)
    assert reasons(imported) == {
        2: "shop_sku: A is the shop SKU of A=K3",
        4: "shop_sku: S is the shop SKU of S=1",
    }
    assert [row[1] for row in ask(pool, PRODUCTS)] == ["A=K3", "T=2"]


def test_an_import_does_not_rename_a_part_in_the_shop(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    take_in(products, clock, row(2, "A"))
    imported = take_in(products, clock, row(2, "A", shop_sku="B"), row(3, "C", shop_sku="C"))
    assert reasons(imported) == {
        2: "shop_sku: in the shop the part is A, which an import does not change"
    }
    assert [row[2] for row in ask(pool, PRODUCTS)] == ["A", "C"]


def test_sellers_are_walled_off_from_each_other(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    take_in(products, clock, row(2, "A", title="of acme", shopify_product_id=Gid("g1")))
    imported = take_in(products, clock, row(2, "A", "zenith"), row(3, "B", "zenith", shop_sku="X"))
    assert counts(imported) == (2, 0, 0, 0)
    assert take_in(products, clock, row(2, "C", shop_sku="X")).added == 1
    assert ask(pool, PRODUCTS)[0] == ("acme", "A", "A", "of acme", "g1", None)
    assert ask(pool, PRODUCTS)[2] == ("zenith", "A", "A", "", None, None)


def test_a_dry_run_reports_the_same_and_changes_nothing(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    rows = (row(2, "A"), row(3, "A"), RefusedRow(line=4, reason="sku: empty", cells={}))
    rehearsed = take_in(products, clock, *rows, is_rehearsal=True)
    assert ask(pool, PRODUCTS) == ask(pool, SLOTS) == []
    assert take_in(products, clock, *rows) == rehearsed
    assert counts(rehearsed) == (1, 0, 0, 2)
    weighed = row(2, "A", family="Hexcel", weight=2.0)
    assert take_in(products, clock, weighed, is_rehearsal=True).updated == 1
    assert ask(pool, VALUES) == [("A", None, 1)]


def broken(error: Exception, rows: int = 30_000) -> Iterator[ImportRow]:
    """Yield rows until something happens; the server has most of them by then."""
    for number in range(rows):
        yield row(number, f"P{number}")
    raise error


@pytest.mark.parametrize("error", (InvalidError("line 9 is not UTF-8"), KeyboardInterrupt()))
def test_a_file_that_breaks_off_leaves_nothing(
    products: Products, pool: ConnectionPool, clock: VirtualClock, error: Exception
) -> None:
    with pytest.raises(type(error)):
        products.take_in(broken(error), form="same", policy=Rolling(), now=clock.now())
    assert ask(pool, PRODUCTS) == ask(pool, SLOTS) == []


def test_a_connection_that_dies_on_the_last_row_leaves_nothing(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    def severed() -> Iterator[ImportRow]:
        yield row(2, "A")
        ask(
            pool,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE 'COPY arriving%%'",
        )
        yield row(3, "B")

    with pytest.raises(StoreError):
        products.take_in(severed(), form="same", policy=Rolling(), now=clock.now())
    assert ask(pool, PRODUCTS) == ask(pool, SLOTS) == []


@pytest.mark.parametrize("rows", (10_000, pytest.param(100_000, marks=pytest.mark.campaign)))
def test_many_rows_cost_no_more_statements_than_one(
    database: str, clock: VirtualClock, rows: int
) -> None:
    lines: list[str] = []

    class Counting(Cursor[Any]):
        def execute(self, query: Any, *more: Any, **named: Any) -> Any:
            lines.append(str(query))
            return super().execute(query, *more, **named)

        def copy(self, statement: Any, *more: Any, **named: Any) -> Any:
            lines.append(str(statement))
            return super().copy(statement, *more, **named)

    def statements_of(size: int) -> list[str]:
        lines.clear()
        parts = (row(number, f"P{number}") for number in range(size))
        imported = Products(pool).take_in(parts, form="same", policy=Rolling(), now=clock.now())
        assert imported.added + imported.unchanged == size
        # Many rows also let the planner count again.
        return [statement for statement in lines if not statement.startswith("ANALYZE product")]

    with open_pool(database, size=1) as pool:
        with pool.connection() as only:
            only.cursor_factory = Counting
        assert any("INSERT INTO product " in statement for statement in statements_of(1))
        assert statements_of(rows) == statements_of(1)
        assert ask(pool, "SELECT count(*) FROM product") == [(rows,)]
        slots = "SELECT count(*), count(DISTINCT hour_bucket) FROM product_sync_schedule"
        assert ask(pool, slots) == [(rows, 24)]


def test_what_has_no_slot_is_found_in_order_and_by_seller(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    take_in(products, clock, *(row(n, f"P{n}") for n in range(5)), row(9, "Z", "zenith"))
    ask(pool, "DELETE FROM product_sync_schedule WHERE sku <> 'P2'")
    assert products.unscheduled_count() == 5
    assert products.unscheduled_count(seller=SellerId("acme")) == 4
    first = products.unscheduled(limit=3)
    assert first == [("acme", "P0"), ("acme", "P1"), ("acme", "P3")]
    assert products.unscheduled(after=first[-1], limit=3) == [("acme", "P4"), ("zenith", "Z")]


def test_a_variant_belongs_to_one_part(
    products: Products, pool: ConnectionPool, clock: VirtualClock
) -> None:
    take_in(products, clock, row(2, "A", shopify_variant_id=Gid("v1")))
    imported = take_in(
        products,
        clock,
        row(2, "A", shopify_variant_id=Gid("v1"), title="Bolt"),
        row(3, "B", shopify_variant_id=Gid("v1")),
        row(4, "C", shopify_variant_id=Gid("v2")),
        row(5, "D", shopify_variant_id=Gid("v2")),
        row(6, "E", "other", shopify_variant_id=Gid("v1")),
    )
    assert {line: reason.partition(":")[0] for line, reason in reasons(imported).items()} == {
        3: "shopify_variant_id",
        4: "shopify_variant_id",
        5: "shopify_variant_id",
    }
    assert "variant of A" in reasons(imported)[3]
    swapped = take_in(
        products,
        clock,
        row(2, "A", shopify_variant_id=Gid("v3")),
        row(3, "B", shopify_variant_id=Gid("v1")),
    )
    assert reasons(swapped) == {}


def test_an_import_is_in_the_history_with_actor_old_and_new_value(
    pool: ConnectionPool, clock: VirtualClock
) -> None:
    products = Products(TenantPool(pool, actor="ann", seller=None))
    first = row(2, "A", title="Bolt", shopify_variant_id=Gid("v1"))
    for part in (first, first, row(2, "A", shopify_variant_id=Gid("v2"), weight=3.0)):
        take_in(products, clock, part)
        clock.sleep(1)
    take_in(products, clock, row(2, "B"), is_rehearsal=True)
    rows = ask(
        pool,
        "SELECT actor, sku, old_value, new_value FROM sync_audit_log"
        " WHERE event_type = 'part_imported' ORDER BY sync_timestamp",
    )
    assert [(actor, sku) for actor, sku, _, _ in rows] == [("ann", "A")] * 2
    new = {"shop_sku": "A", "title": "Bolt", "shopify_variant_id": "v1"}
    assert rows[0][2:] == (None, new)
    assert rows[1][2] == {**new, "value_weight": 1}
    assert rows[1][3] == {**new, "shopify_variant_id": "v2", "value_weight": 3}
