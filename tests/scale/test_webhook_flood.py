"""Ten times the usual webhooks, over sockets: each is stored once, and many wake one job."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import httpx
from tests.scale.conftest import Report
from tests.scale.deployment import CLOCK
from tests.scale.storm import Storm
from tests.scale.truth import breaches

from headway_lab.simulators.shopify.apps import AppSecret
from headway_lab.simulators.shopify.webhooks import Delivery

ORDERS, COPIES, SENDERS = 150, 10, 24
# If the flood takes long, further runs are spaced, and what is left waits for the next one.
FORGOTTEN = """
SELECT count(*) FROM webhook_deliveries AS delivery WHERE handled_at IS NULL AND NOT EXISTS (
  SELECT FROM sync_jobs AS job WHERE job.account_id = delivery.account_id
    AND job.kind = delivery.kind AND status = 'queued'
    AND starts_with(wait_reason, 'many webhooks'))
"""


def test_each_webhook_of_a_flood_is_stored_once(day: Storm, report: Report) -> None:
    deployment, plain = day.deployment, day.group.environ
    day.group.environ = {**plain, "HEADWAY_SHOPIFY_CLIENT_SECRET": AppSecret().client_secret}
    day.group.start("api", "--port", "0")
    day.group.environ = plain
    for _ in range(3):
        day.group.start("worker")
    match = re.search(r"http://127.0.0.1:\d+", day.group.until_output("Headway serves"))
    assert match is not None
    deliveries = []
    for number in range(ORDERS):
        domain = deployment.domain("acme" if number % 2 else "birch")
        order = deployment.shops.place_order(domain, [("P0", 1)])
        deliveries += [deployment.shops.hook("orders/create", order, shop=domain)] * COPIES
    began_s = CLOCK.monotonic()
    with (
        httpx.Client(base_url=match[0], timeout=60, trust_env=False) as client,
        ThreadPoolExecutor(SENDERS) as senders,
    ):

        def send(delivery: Delivery) -> int:
            path, headers = "/webhooks/shopify", dict(delivery.headers)
            return client.post(path, content=delivery.body, headers=headers).status_code

        answers = Counter(senders.map(send, deliveries))
    took_s = CLOCK.monotonic() - began_s
    assert answers.keys() <= {200, 429, 503}
    assert answers[200] == len(deliveries), "no delivery was refused"
    assert deployment.one("SELECT count(*) FROM webhook_deliveries") == ORDERS
    woken = deployment.one("SELECT count(*) FROM sync_audit_log WHERE event_type = 'job_woken'")
    runs = "SELECT count(*) FROM sync_jobs WHERE platform = 'shopify' AND kind = 'orders'"
    assert deployment.one(runs + " AND NOT is_backfill") == 2
    recovery_s = day.settle()
    report(
        f"{len(deliveries)} webhooks of {ORDERS} orders in {took_s:.0f} s woke two jobs {woken}"
        f" times; all settled {recovery_s:.0f} s later"
    )
    assert woken < ORDERS
    assert deployment.one(FORGOTTEN) == 0
    assert breaches(deployment) == []
