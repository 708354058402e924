"""Customers who are merged or deleted at Shopify lose their name and mail."""

import json

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.narrowing_setup import DOMAIN, Shop, make_shop

from headway.providers.shopify.webhooks import parse_webhook
from headway.store.accounts.webhooks import Webhooks
from headway_lab.platforms import SHOPIFY
from headway_lab.simulators.shopify.webhooks import Delivery

ROWS = "SELECT external_id, name, email FROM customers"


def take(shop: Shop, delivery: Delivery) -> None:
    headers = {name.lower(): value for name, value in delivery.headers.items()}
    webhook = parse_webhook(SHOPIFY, headers, json.loads(delivery.body))
    Webhooks(shop.pulls.rows.pool).take(webhook, now=shop.pulls.rows.clock.now())


@pytest.mark.parametrize("is_merged", (True, False))
def test_a_customer_who_is_gone_loses_name_and_mail(
    pool: ConnectionPool, *, is_merged: bool
) -> None:
    shop = make_shop(pool, SHOPIFY)
    add = shop.simulator.add_customer
    kept = add(DOMAIN, "Ada", email="ada@example.com")
    gone = add(DOMAIN, "Ada L.", email="al@example.com")
    shop.add_job("customers")
    shop.run(hours=0.1)
    assert len(shop.pulls.rows.ask(ROWS)) == 2
    delivery = shop.simulator.merge_customers(DOMAIN, kept, gone)
    if not is_merged:
        delivery = shop.simulator.hook("customers/delete", gone, shop=DOMAIN)
    take(shop, delivery)
    shop.run(hours=0.5)
    assert set(shop.pulls.rows.ask(ROWS)) == {(kept, "Ada", "ada@example.com"), (gone, "", "")}
