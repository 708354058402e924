"""Pages are committed while a person disconnects, connects and upgrades: no deadlock."""

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from psycopg_pool import ConnectionPool

from headway.app.accounts import connect_account
from headway.core.accounts.jobs import DataKind, Tier
from headway.core.accounts.pagination import Page, PageStep
from headway.core.accounts.warehouse import Order, Records
from headway.core.catalog.change_detection import Terms
from headway.core.catalog.guard import SellerSettings
from headway.core.catalog.listings import SellerId
from headway.errors import StoreError
from headway.store.accounts.connections import disconnect
from headway.store.accounts.warehouse import write
from headway.store.catalog.sellers import Sellers
from headway.store.pool import guarded
from headway_lab.platforms import ETSY, PRINTIFY

NOW = datetime(2026, 3, 10, tzinfo=UTC)
ROUNDS = 40
ORDER = Order(
    external_id="1", status="paid", is_open=True, currency="EUR", total=Decimal(1), placed_at=NOW
)
# As a commit does: the job's row first, for its fence.
HOLD = "SELECT FROM sync_jobs WHERE account_id = %s AND kind = 'orders' ORDER BY id FOR UPDATE"


def test_page_commits_and_operator_commands_never_deadlock(
    shared_pool: ConnectionPool,
) -> None:
    seller = SellerId("a")
    sellers = Sellers(shared_pool, SellerSettings(terms=Terms(locations={}, currency="USD")))
    shops = {ETSY: "1", PRINTIFY: "2"}
    mine = [
        connect_account(shared_pool, seller, shop, platform=platform, now=NOW).bare
        for platform, shop in shops.items()
    ]

    def commit(number: int) -> None:
        account, moment = mine[number % 2], NOW + timedelta(minutes=number)
        page = Page(records=Records(orders=(replace(ORDER, external_id=f"{number}"),)))
        step = PageStep(cursor={}, horizon_at=moment)
        with guarded(), shared_pool.connection() as connection, connection.transaction():
            connection.execute(HOLD, [account.id])
            write(connection, account, page, step, kind=DataKind.ORDERS, asked_at=NOW, now=moment)

    def refuse(number: int) -> None:
        with guarded(), shared_pool.connection() as connection, connection.transaction():
            disconnect(connection, mine[number % 2], "refused", now=NOW)

    def join(number: int) -> None:
        account = mine[number % 2]
        connect_account(shared_pool, seller, account.shop, platform=account.platform, now=NOW)

    def pay(number: int) -> None:
        tier = list(Tier)[number % 4]
        sellers.set_tier(seller, tier, quotas=dict.fromkeys(Tier, 10**6), now=NOW)

    troubles: list[StoreError] = []

    def repeat(act: Callable[[int], None]) -> None:
        try:
            for number in range(ROUNDS):
                act(number)
        except StoreError as error:
            troubles.append(error)

    threads = [threading.Thread(target=repeat, args=[act]) for act in (commit, refuse, join, pay)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []
    assert sellers.orders_count(seller, now=NOW) == ROUNDS
    with shared_pool.connection() as connection:
        tiers = connection.execute("SELECT DISTINCT tier FROM sync_jobs").fetchall()
    assert tiers == [(sellers.tier(seller),)]
