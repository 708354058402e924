"""Permits for other programs: taken, begun and settled over the API."""

from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from psycopg_pool import ConnectionPool
from tests.operations.sample import SampleDeployment
from tests.web.api_requests import ApiClient
from tests.web.keys import auth_headers

from headway.core.access import Role
from headway.core.pauses import Pause, PauseKind
from headway_lab.virtual_clock import VirtualClock

MAIN = {"limit": "main", "max_wait_s": 120, "timeout_s": 60, "purpose": "nightly import"}


@pytest.fixture
def program(site: FastAPI, pool: ConnectionPool, clock: VirtualClock) -> ApiClient:
    client = ApiClient(site, headers=auth_headers(pool, Role.PERMITS))
    # A limit that is new waits for one window, because nobody knows what was sent before.
    for limit in ("main", "etsy:day"):
        settle(client, take(client, limit=limit, max_wait_s=3600).json(), outcome="unsent")
    clock.sleep(120)
    return client


def take(client: ApiClient, **body: object) -> httpx.Response:
    return client.post("/api/permits", json={**MAIN, **body})


def settle(client: ApiClient, permit: dict[str, Any], **body: object) -> httpx.Response:
    return client.post(f"/api/permits/{permit['id']}/settle", json=body)


def begin(client: ApiClient, permit: dict[str, Any]) -> httpx.Response:
    return client.post(f"/api/permits/{permit['id']}/begin")


def ledger(sample: SampleDeployment, permit: dict[str, Any]) -> dict[str, Any]:
    with sample.app.pool.connection() as connection:
        row = connection.execute(
            "SELECT owner, purpose, status, result, http_status FROM call_ledger"
            " WHERE permit_id = %s",
            [permit["id"]],
        ).fetchone()
    names = ("owner", "purpose", "status", "result", "http_status")
    return dict(zip(names, row or (), strict=True))


def test_a_permit_is_granted_settled_and_in_the_ledger(
    program: ApiClient, sample: SampleDeployment
) -> None:
    taken = take(program)
    assert taken.status_code == 201
    permit = taken.json()
    assert (permit["state"], permit["limit"]) == ("granted", "main")
    assert 0 < permit["send_within_s"] < permit["finish_within_s"] == 60
    done = settle(program, permit, outcome="answered", http_status=200)
    assert done.json()["state"] == "settled"
    row = ledger(sample, permit)
    assert (row["purpose"], row["status"], row["result"]) == ("nightly import", "sent", "ok")
    assert row["http_status"] == 200
    assert settle(program, permit).status_code == 200, "settling again changes nothing"


def test_the_third_call_of_a_minute_waits_for_its_permit(
    program: ApiClient, clock: VirtualClock
) -> None:
    for _ in range(2):
        settle(program, take(program).json())
        clock.sleep(1)
    permit = take(program).json()
    assert permit["state"] == "waiting"
    assert 0 < permit["wait_s"] <= 61
    assert begin(program, permit).json()["state"] == "waiting", "it is too early"
    clock.sleep(permit["wait_s"])
    assert begin(program, permit).json()["state"] == "granted"


def test_a_wait_that_would_be_too_long_is_refused_with_the_time_to_try_again(
    program: ApiClient,
) -> None:
    for _ in range(2):
        take(program)
    refused = take(program, max_wait_s=0)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 125
    assert refused.json()["detail"].startswith("max_wait_s: ")


def test_a_permit_that_is_given_back_is_free_at_once(program: ApiClient) -> None:
    for _ in range(5):
        permit = take(program, max_wait_s=0).json()
        assert permit["state"] == "granted"
        settle(program, permit, outcome="unsent")


def test_a_permit_that_nobody_settles_counts_until_its_time_is_over(
    program: ApiClient, sample: SampleDeployment, clock: VirtualClock
) -> None:
    lost = take(program, timeout_s=30).json()
    permit, asked_s = take(program).json(), clock.monotonic()
    while permit["state"] == "waiting":
        clock.sleep(permit["wait_s"])
        permit = begin(program, permit).json()
    assert clock.monotonic() - asked_s >= 60, "two calls are 30 s apart: from the end of the lease"
    assert ledger(sample, lost)["status"] == "lost"


def test_a_permit_belongs_to_the_key_that_took_it(
    program: ApiClient, site: FastAPI, pool: ConnectionPool
) -> None:
    permit = take(program).json()
    other = ApiClient(site, headers=auth_headers(pool, Role.PERMITS))
    for response in (begin(other, permit), settle(other, permit)):
        assert response.status_code == 404
    assert settle(program, permit).status_code == 200


def test_while_the_supplier_is_paused_nobody_gets_a_permit(
    program: ApiClient, sample: SampleDeployment, clock: VirtualClock
) -> None:
    now = clock.now()
    pause = Pause(kind=PauseKind.SUPPLIER, since=now, actor="ops", reason="stocktaking")
    sample.app.pauses.pause(pause, now)
    answer = take(program).json()
    assert (answer["id"], answer["state"]) == (None, "waiting")
    assert "paused by ops" in answer["reason"]
    sample.app.pauses.resume(PauseKind.SUPPLIER, now=now)
    assert take(program).json()["state"] == "granted"


def test_a_refusal_that_a_program_met_pauses_the_limit_for_all(
    program: ApiClient, sample: SampleDeployment, clock: VirtualClock
) -> None:
    settle(program, take(program).json(), outcome="throttled", http_status=429, retry_after_s=300)
    status = sample.app.limiter.status(sample.app.limit_key)
    assert status.reason == "too many requests"
    assert status.paused_until is not None
    assert (status.paused_until - clock.now()).total_seconds() >= 300


def test_a_permit_of_higher_priority_is_begun_first(
    program: ApiClient, clock: VirtualClock
) -> None:
    for _ in range(2):
        settle(program, take(program).json())
    low = take(program, priority="low", max_wait_s=600).json()
    manual = take(program, priority="manual", max_wait_s=600).json()
    assert manual["wait_s"] < 65
    clock.sleep(manual["wait_s"])
    assert begin(program, manual).json()["state"] == "granted"
    assert begin(program, low).json()["state"] in {"granted", "waiting"}


def test_the_limit_of_a_platform_has_permits_too(program: ApiClient) -> None:
    assert take(program, limit="etsy:day").json()["state"] == "granted"
    unknown = take(program, limit="nothing")
    assert unknown.status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    (
        ({"timeout_s": 0}, "timeout_s"),
        ({"max_wait_s": -1}, "max_wait_s"),
        ({"cost": 0}, "cost"),
        ({"priority": "first"}, "priority"),
        ({"shop": "x"}, "shop"),
    ),
)
def test_a_field_that_makes_no_sense_is_named(
    body: dict[str, object], field: str, program: ApiClient
) -> None:
    response = take(program, **body)
    assert response.status_code == 422
    assert response.json()["detail"].startswith(field)


def test_a_key_for_permits_opens_nothing_else(program: ApiClient) -> None:
    for path in ("/api/sync/held", "/api/limits", "/api/me", "/api/keys"):
        assert program.get(path).status_code == 403
