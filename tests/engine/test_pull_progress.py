"""Law L16: a run that makes no progress ends, waits longer each time, and names its reason."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.narrowing_setup import make_shop
from tests.engine.pull_setup import PlainWalk, Pulls, make_pulls, page_of
from tests.engine.test_pull_trouble import row, run_for

from headway.core.accounts.pagination import RUN, Cursor, PageRequest
from headway_lab.platforms import ETSY, PRINTIFY
from headway_lab.simulators.reply import SimReply
from headway_lab.simulators.tied_faults import EndlessList, FaultyServer


@pytest.fixture
def pulls(pool: ConnectionPool) -> Pulls:
    return make_pulls(pool)


@dataclass(frozen=True)
class CircularWalk(PlainWalk):
    """A list whose pages come round again."""

    length: int = 1

    def ask(self, cursor: Cursor) -> PageRequest:
        page = cursor[RUN]["page"] % self.length
        return PageRequest(what="orders", values={"page": page})


@pytest.mark.parametrize("length", (1, 3, 40))
def test_a_list_that_comes_round_again_fails_with_that_reason(pulls: Pulls, length: int) -> None:
    pulls.walk = CircularWalk(length=length)
    job_id = pulls.rows.add("a")
    pulls.script.answers = [page_of("1", more=True) for _ in range(50_000)]
    pulls.drive("no progress", steps=20_000)
    status, retries, error = row(pulls, job_id, "status, retry_count, last_error")
    assert (status, retries) == ("failed", 1)
    assert "no progress: orders was asked for again" in error
    if length > 3:
        return
    run_for(pulls, 120)
    assert row(pulls, job_id, "status, retry_count") == ("dead", 5)
    pulls.walk = PlainWalk()
    pulls.script.answers = []
    pulls.rows.ask(
        "UPDATE sync_jobs SET status = 'queued', next_run_at = %s", pulls.rows.clock.now()
    )
    pulls.drive("done", steps=1000)
    assert "stuck" not in row(pulls, job_id, "cursor")


def test_a_long_list_has_no_limit_of_calls_as_long_as_it_goes_on(pulls: Pulls) -> None:
    job_id = pulls.rows.add("a", tier="pro", job_type="backfill")
    pulls.script.answers = [page_of(str(number), more=True) for number in range(120)]
    pulls.drive("done", steps=2000)
    assert row(pulls, job_id, "status") == "completed"
    assert pulls.rows.one("SELECT count(*) FROM orders") == 120


def test_a_total_that_flickers_does_not_keep_a_walk_for_ever(pool: ConnectionPool) -> None:
    shop = make_shop(pool, PRINTIFY)
    for _ in range(35):
        shop.simulator.place_order(shop.number)
        shop.pulls.rows.clock.sleep(1)
    answer, calls = shop.server.handle, 0

    def flicker(method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        nonlocal calls
        calls += 1
        reply = answer(method, path, headers, body)
        if not re.search(r"page=2\b", path):
            return reply
        return replace(reply, body=reply.body.replace(b'"total": 35', b'"total": 34'))

    shop.server.handle = flicker
    job_id = shop.add_job("orders")
    shop.run(hours=2)
    assert calls < 400
    assert "no progress" in shop.job(job_id, "last_error")


def test_a_list_that_answers_the_same_to_every_request_ends_with_that_reason(
    pool: ConnectionPool,
) -> None:
    shop = make_shop(pool, ETSY)
    for _ in range(4):
        shop.simulator.place_order(shop.number)
    shop.server.handle = FaultyServer(
        shop.server.handle, [EndlessList(shop_mark=f"/{shop.number}/")]
    )
    job_id = shop.add_job("orders")
    shop.run(hours=0.5)
    assert shop.server.failures == 0
    assert "no progress: receipts was asked for again and brought the same" in shop.job(
        job_id, "last_error"
    )
    assert shop.job(job_id, "queries_used") < 200
