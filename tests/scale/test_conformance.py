"""Conformance suite for every runner: the embedded one and Celery."""

from decimal import Decimal

from tests.scale.conftest import Runner
from tests.scale.deployment import Deployment

from headway.core.catalog.listings import SellerId, Sku
from headway.core.pauses import PauseKind
from headway.operations.listings import TriggerBody, trigger
from headway.operations.pauses import PauseBody, ResumeBody, pause, resume

PARTS = tuple(f"P{number}" for number in range(12))
OLD, NEW = Decimal("11.00"), Decimal("22.00")
COUNT_OPEN_CALLS = """
SELECT count(*) FROM call_ledger WHERE status = 'begun' AND NOT EXISTS (
  SELECT FROM dispatch_leases WHERE carried #>> '{day,id}' = permit_id::text)
"""


def shows(deployment: Deployment, price: Decimal, *skus: str, seller: str = "acme") -> bool:
    return all(deployment.price(seller, sku) == price for sku in skus)


def test_everything_due_is_fetched_pushed_and_pulled_within_every_limit(
    runner: Runner, deployment: Deployment
) -> None:
    deployment.add_seller("acme", *PARTS)
    deployment.add_seller("birch", *PARTS[:3])
    deployment.trade("acme", "P0", orders=3)
    deployment.trade("birch", "P0", orders=3)
    runner.start()
    runner.until(lambda: deployment.is_read(*PARTS))
    runner.until(lambda: shows(deployment, OLD, *PARTS))
    runner.until(lambda: shows(deployment, OLD, *PARTS[:3], seller="birch"))
    runner.until(deployment.is_pulled)
    assert deployment.one("SELECT count(*) FROM orders") == 2 * 3 * 3
    assert deployment.refusals == [0, 0, 0, 0]


def test_a_triggered_part_joins_the_next_call_and_a_paused_one_does_not(
    runner: Runner, deployment: Deployment
) -> None:
    deployment.add_seller("acme", *PARTS)
    runner.start()
    runner.until(lambda: shows(deployment, OLD, *PARTS))
    deployment.catalog.stock("P0", "20")
    deployment.catalog.stock("P1", "20")
    acme, both = SellerId("acme"), [Sku("P0"), Sku("P1")]
    trigger(deployment.operator, TriggerBody(skus=both, seller=acme))
    first = {"kind": PauseKind.LISTING, "skus": both[:1], "seller": acme}
    pause(deployment.operator, PauseBody(**first))
    runner.until(lambda: shows(deployment, NEW, "P1"))
    assert shows(deployment, OLD, "P0")
    resume(deployment.operator, ResumeBody(**first))
    runner.until(lambda: shows(deployment, NEW, "P0"))


def test_a_failing_step_is_reported_and_retried_until_it_succeeds(
    runner: Runner, deployment: Deployment
) -> None:
    deployment.add_seller("acme", *PARTS)
    deployment.do("ALTER TABLE push_intent RENAME TO mislaid")
    runner.start()
    line = runner.until_output("the database refused")
    assert "push_intent" in line
    deployment.do("ALTER TABLE mislaid RENAME TO push_intent")
    runner.until(lambda: shows(deployment, OLD, *PARTS))


def test_a_stop_finishes_the_running_steps_and_loses_nothing(
    runner: Runner, deployment: Deployment
) -> None:
    deployment.add_seller("acme", *PARTS)
    deployment.add_seller("birch", *PARTS[:3])
    deployment.trade("acme", "P0", orders=3)
    deployment.trade("birch", "P0", orders=3)
    runner.start()
    runner.until_output("push: ")
    assert set(runner.stop()) == {0}
    runner.until_output("Headway has stopped.")
    assert not deployment.one(COUNT_OPEN_CALLS), (
        "no call is left open, except those handed to the next worker"
    )
    assert not deployment.one(
        "SELECT count(*) FROM connected_accounts WHERE push_owner IS NOT NULL"
    )
    in_hand = "SELECT count(*) FROM dispatch_leases WHERE carried ? 'job'"
    running = "SELECT count(*) FROM sync_jobs WHERE status = 'running'"
    assert deployment.one(running) == deployment.one(in_hand), (
        "released, or handed to the next worker"
    )
    runner.start()
    runner.until(
        lambda: shows(deployment, OLD, *PARTS) and shows(deployment, OLD, "P0", seller="birch")
    )
    runner.until(lambda: deployment.one("SELECT count(*) FROM orders") == 2 * 3 * 3)
    assert deployment.refusals == [0, 0, 0, 0]


def test_a_bug_stops_loudly(runner: Runner, deployment: Deployment) -> None:
    deployment.add_seller("acme", "P0")
    runner.start()
    runner.until(lambda: shows(deployment, OLD, "P0"))
    deployment.do("""UPDATE listing_state SET desired = '{"price": "ten"}', push_at = now()""")
    assert "please report it: " in runner.until_output("push stopped at a bug")
    runner.until(lambda: runner.ended() == 1)
