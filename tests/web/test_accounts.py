"""The API of the account lane over a real server and a real database."""

import html
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg_pool import ConnectionPool
from pydantic import TypeAdapter
from tests.conftest import HTTP_TIMEOUT_S, NO_ROOTS
from tests.store.accounts.lane import Lane
from tests.web.keys import auth_headers

from headway.app import build
from headway.config import Settings
from headway.core.accounts.jobs import JobStatus, Tier
from headway.core.catalog.listings import SellerId
from headway.operations.accounts import AccountPage, QuotaList, SellersPlan
from headway.operations.jobs import JobPage
from headway.store.accounts.connections import ConnectedShops
from headway.store.accounts.job_list import JobView
from headway.web.server import SiteServer, address, listen
from headway.web.site import create
from headway_lab.platforms import ETSY, PRINTIFY
from headway_lab.virtual_clock import VirtualClock

NOBODY = "0b9f9c3e-6c93-4a3c-8a54-5d7b0a3d9f11"


@pytest.fixture
def lane(pool: ConnectionPool, clock: VirtualClock) -> Lane:
    return Lane(pool, clock)


@pytest.fixture
def api(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Iterator[httpx.Client]:
    app = build(Settings(data_dir=tmp_path, etsy_day_limit=100), clock, pool)
    listener = listen("127.0.0.1", 0)
    server = SiteServer(create(app, refresh_s=0), listener)
    server.start()
    try:
        with httpx.Client(
            base_url=address(listener),
            headers=auth_headers(pool),
            timeout=HTTP_TIMEOUT_S,
            trust_env=False,
            verify=NO_ROOTS,
        ) as client:
            yield client
    finally:
        server.stop()


def refused(response: httpx.Response, status: int) -> str:
    """Return the detail of an expected error response."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return str(response.json()["detail"])


def read(kind: Any, response: httpx.Response) -> Any:
    """Read a reply as the type that the operation returns."""
    return TypeAdapter(kind).validate_json(response.content)


def jobs_at(api: httpx.Client, path: str, **params: Any) -> Sequence[JobView]:
    response = api.get(path, params=params)
    assert response.status_code == 200, response.text
    return read(JobPage, response).jobs


def test_accounts_are_listed_with_their_sellers_quotas(api: httpx.Client, lane: Lane) -> None:
    lane.connect()
    page = read(AccountPage, api.get("/api/accounts"))
    assert len(page.accounts) == 9
    assert {(seller.seller, seller.orders_max) for seller in page.sellers} == {
        ("prime", 5000),
        ("grove", 1500),
        ("fern", 50),
    }
    response = api.get("/api/accounts", params={"seller": "fern", "platform": "etsy"})
    (one,) = read(AccountPage, response).accounts
    assert (one.seller, one.platform, one.tier) == ("fern", "etsy", "free")


def test_jobs_are_listed_in_their_order_with_reasons(api: httpx.Client, lane: Lane) -> None:
    lane.connect()
    jobs = jobs_at(api, "/api/jobs", limit=5)
    assert [job.place for job in jobs] == [1, 2, 3, 4, 5]
    assert {job.seller for job in jobs} == {"prime"}
    assert all(job.reason for job in jobs)
    assert {job.platform for job in jobs_at(api, "/api/jobs", platform="etsy")} == {"etsy"}


@pytest.mark.parametrize("path", ("/api/jobs", "/api/accounts"))
def test_lists_are_paged_by_cursor_and_by_link_header(
    api: httpx.Client, lane: Lane, path: str
) -> None:
    lane.connect()
    name = path.rpartition("/")[2]
    all_ids = [item["id"] for item in api.get(path, params={"limit": 500}).json()[name]]
    ids, address = [], f"{path}?limit=4"
    while address:
        response = api.get(address)
        ids += [item["id"] for item in response.json()[name]]
        address = response.links["next"]["url"] if response.json()["next_cursor"] else ""
    assert ids == all_ids
    assert len(all_ids) > 4
    assert "begin without one" in refused(api.get(path, params={"cursor": "x"}), 422)


def test_jobs_are_filtered_by_status_and_by_account(api: httpx.Client, lane: Lane) -> None:
    lane.connect()
    job, _ = lane.claim()
    (running,) = jobs_at(api, "/api/jobs", status="running")
    assert (running.id, running.state) == (job.id, "running")
    assert jobs_at(api, "/api/jobs", status="dead") == ()
    account_jobs = jobs_at(api, f"/api/accounts/{job.account.id}/jobs")
    assert account_jobs[0].id == job.id
    assert {job.account_id for job in account_jobs} == {job.account.id}


def test_a_job_is_explained_by_its_id(api: httpx.Client, lane: Lane) -> None:
    lane.connect(Tier.FREE)
    (first, *_) = jobs_at(api, "/api/jobs")
    one = read(JobView, api.get(f"/api/jobs/{first.id}"))
    assert (one.name, one.place) == (first.name, 1)


def test_a_dead_job_is_revived_once(api: httpx.Client, lane: Lane) -> None:
    lane.connect(Tier.FREE)
    job, _ = lane.claim()
    settled = {"next_run_at": None, "retry_count": 5, "reason": "malformed", "now": lane.now}
    lane.jobs.settle(job, JobStatus.DEAD, **settled)  # type: ignore[arg-type]
    response = api.post(f"/api/jobs/{job.id}/revive")
    assert read(JobView, response).status == "queued"
    assert "is not dead" in refused(api.post(f"/api/jobs/{job.id}/revive"), 409)


def test_a_job_that_waits_is_made_due_and_keeps_its_place_in_time(
    api: httpx.Client, lane: Lane
) -> None:
    lane.connect(Tier.FREE)
    lane.ask("UPDATE sync_jobs SET next_run_at = next_run_at + interval '1 hour'")
    (first, *_) = jobs_at(api, "/api/jobs")
    assert first.place is None
    made = read(JobView, api.post(f"/api/jobs/{first.id}/run"))
    assert (made.place, made.due_at) == (1, lane.now)


@pytest.mark.parametrize("status", ("dead", "cancelled", "completed"))
def test_a_job_that_does_not_wait_is_not_made_due(
    api: httpx.Client, lane: Lane, status: str
) -> None:
    lane.connect(Tier.FREE)
    lane.ask(
        "UPDATE sync_jobs SET status = %s, next_run_at = NULL, job_type = 'backfill'"
        " WHERE is_backfill",
        status,
    )
    (job, *_) = lane.ask("SELECT id::text FROM sync_jobs WHERE status = %s", status)
    assert "cannot be made due" in refused(api.post(f"/api/jobs/{job[0]}/run"), 409)


def test_a_job_of_a_disconnected_account_waits_for_a_person(api: httpx.Client, lane: Lane) -> None:
    lane.connect(Tier.FREE)
    ConnectedShops(lane.pool).disconnect(SellerId("fern"), "revoked", platform=ETSY, now=lane.now)
    account = lane.accounts["fern", ETSY]
    (first, *_) = jobs_at(api, f"/api/accounts/{account.id}/jobs")
    assert "revoked" in refused(api.post(f"/api/jobs/{first.id}/run"), 409)


def test_more_sellers_are_planned_for_each_platform_with_a_day(
    api: httpx.Client, lane: Lane
) -> None:
    lane.connect()
    (etsy,) = read(SellersPlan, api.get("/api/plan/sellers?sellers=10000&tier=pro")).platforms
    assert (etsy.platform, etsy.first_calls) == ("etsy", 200_000)
    assert etsy.wanted > 0, "of those who are there"
    assert etsy.days > 1
    assert api.get("/api/plan/sellers?sellers=0").status_code == 422


def test_quotas_come_with_their_curve_and_a_forecast(api: httpx.Client, lane: Lane) -> None:
    lane.connect()
    response = read(QuotaList, api.get("/api/quotas"))
    (etsy,) = response.quotas
    assert (etsy.platform, etsy.limit, etsy.left) == ("etsy", 100, 100)
    assert (len(etsy.hours), len(etsy.past), len(etsy.forecast.points)) == (24, 25, 25)
    assert "key" not in api.get("/api/quotas").json()["quotas"][0]


@pytest.mark.parametrize("job", (NOBODY, "nonsense"))
def test_an_unknown_job_is_not_found(api: httpx.Client, job: str) -> None:
    assert "no such job" in refused(api.get(f"/api/jobs/{job}"), 404)
    assert "no such job" in refused(api.post(f"/api/jobs/{job}/run"), 404)
    assert "no such job" in refused(api.post(f"/api/jobs/{job}/revive"), 404)
    assert "no such account" in refused(api.get(f"/api/accounts/{job}/jobs"), 404)


def test_an_invalid_query_names_the_parameter(api: httpx.Client) -> None:
    assert "status" in refused(api.get("/api/jobs", params={"status": "asleep"}), 422)
    assert "platform" in refused(api.get("/api/accounts", params={"platform": "ebay"}), 422)
    assert "limit" in refused(api.get("/api/jobs", params={"limit": 0}), 422)


def test_the_page_shows_accounts_queue_quota_and_dead_jobs(api: httpx.Client, lane: Lane) -> None:
    assert "No account is connected" in api.get("/accounts").text
    lane.connect()
    job, _ = lane.claim()
    lane.jobs.settle(
        job, JobStatus.DEAD, next_run_at=None, retry_count=5, reason="malformed", now=lane.now
    )
    ConnectedShops(lane.pool).disconnect(
        SellerId("fern"), "the grant was revoked", platform=ETSY, now=lane.now
    )
    trouble = html.unescape(api.get("/trouble").text)
    assert "The grant was revoked" in trouble
    assert "headway connect etsy --seller fern" in trouble
    assert f'data-verb="POST /api/jobs/{job.id}/revive"' in trouble
    page = html.unescape(api.get("/accounts").text)
    assert "0 of 10 places" in page
    assert "the next free worker takes it" in page
    assert "Enough for the next 24 h" in page
    (series,) = re.findall(r'data-series="([^"]*)"', api.get("/accounts").text)
    curve = json.loads(html.unescape(series))
    assert (curve["limit"], len(curve["past"]), len(curve["next"])) == (100, 25, 25)


def test_the_error_of_a_platform_is_escaped_on_the_page(api: httpx.Client, lane: Lane) -> None:
    lane.connect(Tier.FREE)
    hostile = "<script>alert(1)</script>"
    ConnectedShops(lane.pool).disconnect(SellerId("fern"), hostile, platform=PRINTIFY, now=lane.now)
    lane.ask("UPDATE connected_accounts SET title = %s", hostile)
    for path in ("/accounts", "/trouble"):
        page = api.get(path).text
        assert hostile not in page
        assert "&lt;script&gt;" in page
    assert api.get("/api/sync/status").json()["accounts"]["accounts"][0]["trouble"] == hostile
