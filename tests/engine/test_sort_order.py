"""A platform that sorts a list in another way than asked for costs no order."""

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.narrowing_setup import make_shop

from headway_lab.platforms import ETSY


@pytest.mark.parametrize("job_type", ("incremental", "backfill"))
def test_all_orders_are_read_though_etsy_ignores_the_sort_order(
    pool: ConnectionPool, job_type: str
) -> None:
    shop = make_shop(pool, ETSY)
    ids = []
    for _ in range(250):
        ids.append(str(shop.simulator.place_order(shop.number)))
        shop.pulls.rows.clock.sleep(1)
    shop.simulator.shop(shop.number).ignores_sort_order = True
    shop.add_job("orders", job_type)
    shop.run(hours=0.05)
    assert shop.ids("orders") == set(ids)
    if job_type == "incremental":
        shop.simulator.cancel(shop.number, int(ids[3]), is_quiet=False)
        new = str(shop.simulator.place_order(shop.number))
        shop.run(hours=0.2)
        assert new in shop.ids("orders")
        status = shop.pulls.rows.one("SELECT status FROM orders WHERE external_id = %s", ids[3])
        assert status == "canceled"
