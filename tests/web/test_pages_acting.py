"""Sections of the page after events and actions."""

import html
import json
import re
from datetime import timedelta

import pytest
from fastapi import FastAPI
from psycopg_pool import ConnectionPool
from tests.operations.sample import ACME, BEST_ONLY, HELD, HELD_REMOVALS, SampleDeployment
from tests.web.api_requests import ApiClient
from tests.web.keys import auth_headers
from tests.web.test_pages import PART, PATHS, panel, read

from headway.clock import SystemClock
from headway.core.access import Role
from headway.core.pauses import PauseKind
from headway.operations.pauses import PauseBody, pause
from headway.store.monitoring.processes import Presence, Processes


@pytest.fixture
def reader(site: FastAPI, pool: ConnectionPool) -> ApiClient:
    return ApiClient(site, headers=auth_headers(pool, Role.READER))


def test_a_seat_of_another_seller_shows_only_its_priority(
    sample: SampleDeployment, operator: ApiClient, seller: ApiClient
) -> None:
    sample.execute("UPDATE product_sync_schedule SET priority = 'manual' WHERE user_id = 'best'")
    assert BEST_ONLY in read(operator, "/")
    own = html.unescape(read(seller, "/"))
    assert "another seller's part" in own
    assert "Last calls" not in own, "the ledger is everybody's"


def test_a_button_carries_the_body_of_its_request(operator: ApiClient) -> None:
    bodies = [
        json.loads(html.unescape(body))
        for body in re.findall(
            r'data-verb="POST /api/sync/approve" data-body="([^"]+)"', read(operator, "/changes")
        )
    ]
    (body,) = [body for body in bodies if body.get("skus") == [HELD]]
    assert set(body["versions"]) == {HELD}
    answer = operator.post("/api/sync/approve", json=body)
    assert answer.status_code == 200
    assert answer.json()["listings"][0]["is_done"]


@pytest.mark.parametrize("address", ("/changes", PART))
@pytest.mark.parametrize("decision", ("approve", "reject"))
def test_a_button_decides_only_the_change_that_its_page_showed(
    sample: SampleDeployment, operator: ApiClient, address: str, decision: str
) -> None:
    (body,) = [
        body
        for text in re.findall(
            rf'data-verb="POST /api/sync/{decision}" data-body="([^"]+)"', read(operator, address)
        )
        if (body := json.loads(html.unescape(text))).get("skus") == [HELD]
    ]
    sample.execute(
        """UPDATE listing_state SET proposed = proposed || '{"price": "8800.00"}' WHERE sku = %s""",
        HELD,
    )
    (result,) = operator.post(f"/api/sync/{decision}", json=body).json()["listings"]
    assert not result["is_done"]
    assert "it is now 8800.00" in result["message"]
    assert next(change["sku"] for change in operator.get("/api/sync/held").json()["items"]) == HELD


def test_a_held_removal_is_shown_with_both_decisions_to_those_who_may_decide(
    sample: SampleDeployment, operator: ApiClient, seller: ApiClient, reader: ApiClient
) -> None:
    sample.execute(HELD_REMOVALS)
    page = html.unescape(read(operator, "/accounts"))
    hold = {"seller": "acme", "platform": "etsy", "missing": 15}
    for decision in ("confirm", "dismiss"):
        assert (
            f'"POST /api/removals/{decision}" data-body="{json.dumps(hold, sort_keys=True)}"'
            in page
        )
    own = html.unescape(read(seller, "/accounts"))
    assert own.count("15 listings missing, removal held") == 1
    assert "/api/removals/confirm" not in read(reader, "/accounts")
    answer = seller.post("/api/removals/confirm", json=hold)
    assert (answer.status_code, answer.json()["removed"]) == (200, 15)
    assert "removal held" not in read(seller, "/accounts")


def test_a_pause_is_shown_on_every_section_with_actor_and_times(
    sample: SampleDeployment, operator: ApiClient, seller: ApiClient, reader: ApiClient
) -> None:
    until = sample.clock.now() + timedelta(hours=2)
    pause(sample.operator, PauseBody(kind=PauseKind.ALL, until=until, reason="stock-taking"))
    for address in [*PATHS, PART]:
        text = read(operator, address)
        assert 'data-paused="yes"' in text
        assert "Paused: everything." in text
        assert "By tester" in text
        assert "stock-taking" in text
        assert "POST /api/sync/resume" in panel(text)
    for who in (seller, reader):
        text = read(who, "/")
        assert "Paused: everything." in text
        assert "POST /api/sync/resume" not in panel(text)


def test_keys_are_listed_without_the_keys_themselves(
    operator: ApiClient, pool: ConnectionPool
) -> None:
    secret = auth_headers(pool, Role.SELLER, ACME)["Authorization"].removeprefix("Bearer ")
    text = read(operator, "/keys")
    assert "seller of acme" in text
    assert secret not in text


def test_processes_are_listed_and_silent_ones_are_marked(
    operator: ApiClient, seller: ApiClient, pool: ConnectionPool
) -> None:
    assert 'id="processes"' not in read(operator, "/"), "no process has reported yet"
    processes = Processes(pool)
    for number, verb in enumerate(("worker", "api")):
        processes.see(Presence(verb=verb, settings={}, host="one", pid=number), SystemClock())
    with pool.connection() as connection:
        connection.execute("UPDATE processes SET seen_at = seen_at - interval '80 s' WHERE pid = 0")
    text = re.sub(r"\s+", " ", panel(read(operator, "/")))
    card = text[text.index('id="processes"') :]
    assert "<span>worker one:0</span>" in card
    assert "<span>page and API</span>" in card
    assert card.count('class="num bad"') == 1
    assert 'id="processes"' not in read(seller, "/")
