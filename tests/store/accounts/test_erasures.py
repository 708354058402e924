"""Erasures delete all of a seller, an account or a customer, of nobody else, and for good."""

from dataclasses import asdict, replace
from datetime import timedelta

import psycopg
import pytest
from psycopg_pool import ConnectionPool
from tests.store.accounts.erasure_world import (
    LATER,
    NOW,
    ErasureWorld,
    buyer_id,
    buyer_words,
    erase_buyer,
    erase_whole,
    mentions,
    page_of,
)

from headway.core.accounts.erasure import ErasureKind, ErasureStatus, proof_hash
from headway.core.catalog.listings import LimitKey, SellerId
from headway.errors import ConflictError
from headway.store.accounts.credentials import Credentials
from headway.store.accounts.erasure_requests import whole_subject
from headway.store.accounts.erasure_tables import DELETED, EMPTIED
from headway_lab.platforms import ETSY, SHOPIFY

ACME, ZENITH = SellerId("acme"), SellerId("zenith")
OWNED = """
SELECT DISTINCT table_name FROM information_schema.columns
JOIN pg_class ON relname = table_name AND relkind IN ('r', 'p') AND NOT relispartition
WHERE table_schema = 'public' AND column_name IN ('user_id', 'account_id', 'seller')
"""


@pytest.fixture
def world(pool: ConnectionPool) -> ErasureWorld:
    world = ErasureWorld(pool)
    world.settle(ACME)
    world.settle(ZENITH)
    return world


def left_of(world: ErasureWorld, *words: str) -> list[str]:
    return mentions(world.pool, *words)


def test_every_table_with_a_column_for_a_seller_or_an_account_is_in_the_list(
    world: ErasureWorld,
) -> None:
    listed = {table.name for table in DELETED}
    assert {name for (name,) in world.ask(OWNED)} - listed - EMPTIED == set()


def test_nothing_of_an_erased_seller_is_left_but_hashes_and_numbers(world: ErasureWorld) -> None:
    others = len(left_of(world, "zenith"))
    world.erase_fully(erase_whole(world, ACME))
    etsy = world.accounts[ACME, ETSY].shop
    assert left_of(world, "acme", etsy, *buyer_words("acme", 1), *buyer_words("acme", 2)) == []
    assert len(left_of(world, "zenith")) == others, "and of nobody else"
    (erasure,) = world.erasures.some(None, limit=9)
    assert (erasure.status, erasure.seller, erasure.actor) == ("done", None, "operations")
    assert erasure.counts["orders"] == 4


def test_nothing_of_an_erased_account_is_left_and_the_sellers_other_shop_stays(
    world: ErasureWorld,
) -> None:
    gone = world.accounts[ACME, SHOPIFY]
    world.erase_fully(erase_whole(world, ACME, gone.id))
    assert left_of(world, gone.shop, f"\t{gone.id}") == [
        line for line in left_of(world, gone.id) if line.startswith("tombstones")
    ]
    kept = world.accounts[ACME, ETSY]
    count = "SELECT count(*) FROM orders WHERE account_id = %s"
    assert (world.one(count, gone.id), world.one(count, kept.id)) == (0, 2)
    assert world.one("SELECT count(*) FROM product_sync_schedule WHERE user_id = 'acme'") == 3
    assert world.one("SELECT count(*) FROM listing_state WHERE applied IS NOT NULL") == 3
    assert world.one("SELECT count(*) FROM profiles WHERE user_id = 'acme'") == 1


def test_an_erased_customer_is_named_nowhere_and_the_order_stays_in_the_books(
    world: ErasureWorld,
) -> None:
    others = len(left_of(world, *buyer_words("acme", 2))), len(left_of(world, "zenith"))
    world.erase_fully(erase_buyer(world, ACME, 1))
    name, email, tracking, id_ = buyer_words("acme", 1)
    assert left_of(world, name, email, tracking) == []
    lines = [line for line in left_of(world, id_) if f"{id_}9" not in line]
    assert lines == []
    kept = "SELECT total, customer_id FROM orders WHERE external_id = %s"
    assert [tuple(map(str, row)) for row in world.ask(kept, f"{id_}9")] == [("9.50", "None")] * 2
    assert (len(left_of(world, *buyer_words("acme", 2))), len(left_of(world, "zenith"))) == others


def test_a_later_pull_brings_nothing_of_an_erased_customer_back(world: ErasureWorld) -> None:
    world.erase_fully(erase_buyer(world, ACME, 1))
    before = left_of(world, *buyer_words("acme", 1))
    for platform in (SHOPIFY, ETSY):
        world.put(world.accounts[ACME, platform], page_of("acme", 1))
    after = left_of(world, *buyer_words("acme", 1))
    assert [line for line in after if "unreadable_records" not in line] == before
    (raw,) = {str(row[0]) for row in world.ask(
        "SELECT raw FROM unreadable_records WHERE external_id = %s", f"{buyer_id('acme', 1)}8"
    )}  # fmt: skip
    assert raw == "{}"
    world.put(world.accounts[ZENITH, SHOPIFY], page_of("acme", 1))
    count = "SELECT count(*) FROM customers WHERE external_id = %s"
    assert world.one(count, buyer_id("acme", 1)) == 1, "in another shop, it is another customer"


def test_a_new_customer_with_an_erased_address_stays_away_too(world: ErasureWorld) -> None:
    world.erase_fully(erase_buyer(world, ACME, 1))
    page = page_of("acme", 2)
    email = buyer_words("acme", 1)[1].upper()
    (row,) = page.customers
    again = replace(page, customers=(replace(row, external_id="4711999", email=email),))
    world.put(world.accounts[ACME, SHOPIFY], again)
    assert left_of(world, "4711999", email) == []


def test_a_renamed_shop_keeps_its_erased_customers_away(world: ErasureWorld) -> None:
    world.erase_fully(erase_buyer(world, ACME, 1))
    old = world.accounts[ACME, SHOPIFY]
    moved = Credentials(world.pool).move(
        LimitKey(f"shopify:app:{old.shop}"), LimitKey("shopify:app:new.myshopify.com"), now=NOW
    )
    world.put(old, page_of("acme", 1))
    assert moved
    assert left_of(world, *buyer_words("acme", 1)[:3]) == []


def test_an_erased_shop_and_seller_are_connected_again_only_on_purpose_and_when_it_is_done(
    world: ErasureWorld,
) -> None:
    id_ = erase_whole(world, ACME)
    world.erasures.run(id_, now=NOW)
    with pytest.raises(ConflictError, match="being erased, until about 12:15 UTC"):
        world.connect(ACME, SHOPIFY, after_erasure=True)
    world.erasures.run(id_, now=LATER)
    with pytest.raises(ConflictError, match=r"was erased at 2026-03-10 12:15 UTC; .*on purpose"):
        world.connect(ACME, SHOPIFY)
    for row in (
        "INSERT INTO profiles (user_id) VALUES ('acme')",
        (
            "INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)"
            " VALUES ('acme', 'P1', 1, now())"
        ),
    ):
        with pytest.raises(psycopg.Error, match="the seller was erased"):
            world.ask(row)
    world.connect(ACME, SHOPIFY, after_erasure=True)
    world.put(world.accounts[ACME, SHOPIFY], page_of("acme", 1))
    world.erasures.work(LATER + timedelta(days=1))
    assert world.one("SELECT count(*) FROM orders WHERE user_id = 'acme'") == 1
    world.connect(ACME, SHOPIFY)


def test_a_customer_stays_erased_in_a_shop_that_is_erased_and_connected_again(
    world: ErasureWorld,
) -> None:
    world.erase_fully(erase_buyer(world, ACME, 1))
    world.erase_fully(erase_whole(world, ACME))
    world.connect(ACME, SHOPIFY, after_erasure=True)
    world.put(world.accounts[ACME, SHOPIFY], page_of("acme", 1))
    assert left_of(world, *buyer_words("acme", 1)[:3]) == []


def test_an_erasure_that_is_interrupted_after_any_batch_is_resumed(world: ErasureWorld) -> None:
    id_ = erase_whole(world, ACME)
    stops = 0
    while world.erasures.run(id_, now=NOW, goes_on=lambda: False).status is ErasureStatus.RUNNING:
        stops += 1
    world.erasures.run(id_, now=LATER)
    assert stops > 20
    assert left_of(world, "acme") == []


def test_what_a_late_worker_writes_is_found_by_the_sweep(world: ErasureWorld) -> None:
    id_ = erase_whole(world, ACME)
    world.erasures.run(id_, now=NOW)
    late = (
        "INSERT INTO sync_audit_log (user_id, sync_timestamp, event_type) VALUES ('acme', %s, %s)"
    )
    world.ask(late, NOW, "sync_completed")
    world.erasures.work(NOW + timedelta(minutes=1))
    assert len(left_of(world, "acme")) > 1
    world.erasures.work(LATER)
    assert left_of(world, "acme") == []


def test_the_preview_counts_what_the_erasure_deletes_and_deletes_nothing(
    world: ErasureWorld,
) -> None:
    with world.pool.connection() as connection:
        subject = whole_subject(connection, ACME)
    preview = world.erasures.preview(subject, now=NOW)
    id_ = erase_whole(world, ACME)
    assert world.one("SELECT count(*) FROM orders WHERE user_id = 'acme'") == 4
    world.erase_fully(id_)
    (erasure,) = world.erasures.some(None, limit=1)
    for table in ("orders", "line_items", "customers", "payments", "product", "sync_jobs"):
        assert preview[table] == erasure.counts[table], table


def test_the_proof_holds_no_personal_data_and_its_hash_is_of_the_rest(world: ErasureWorld) -> None:
    id_ = erase_whole(world, ACME)
    erasure = world.erasures.run(id_, now=NOW)
    proof = world.erasures.proof(erasure)
    fields = {**asdict(proof), "tombstones": list(proof.tombstones)}
    assert proof_hash(fields) == proof.sha256
    assert proof_hash({**fields, "counts": {}}) != proof.sha256
    assert "acme" not in str(fields)
    assert erasure.kind is ErasureKind.SELLER
    event = "SELECT new_value ->> 'sha256' FROM sync_audit_log WHERE event_type = 'data_erased'"
    assert world.one(event) == proof.sha256


def test_two_requests_for_one_seller_are_one_erasure(world: ErasureWorld) -> None:
    assert erase_whole(world, ACME) == erase_whole(world, ACME)
