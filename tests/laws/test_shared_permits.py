"""Law L1 for a credential that other programs use too, by the supplier's own log of arrivals."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from psycopg_pool import ConnectionPool
from tests.web.api_requests import ApiClient
from tests.web.keys import auth_headers

from headway.client.api import HeadwayApi
from headway.client.permits import PermitRequest, PermitServer
from headway.core.access import Role
from headway.errors import TooManyError
from headway.web.site import create
from headway_lab.simulation.scenario import Plan, Scenario
from headway_lab.simulation.world import seeded_world
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

DAY_S = 86_400.0
TOKEN = "http://boeing.invalid/oauth2/v2.0/token"


class SiteTransport(httpx.BaseTransport):
    """Carries the requests of a program to a site in this process."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        reply = self._client.request(
            request.method, str(request.url), headers=request.headers, content=request.read()
        )
        return httpx.Response(reply.status_code, headers=reply.headers, content=reply.content)


@dataclass
class Program:
    """A program with the supplier's credential: it makes a call now and then."""

    scenario: Scenario
    permits: Callable[[], PermitRequest] | None
    every_s: float
    timeout_s: float | None = None
    dies_at_s: float = 2 * DAY_S
    supplier: httpx.Client = field(init=False)
    calls: int = 0
    refusals: int = 0

    def __post_init__(self) -> None:
        transport = SimTransport(self.scenario.simulator.handle, self.scenario.clock, seed=3)
        self.supplier = httpx.Client(transport=transport)

    def run(self) -> None:
        clock = self.scenario.clock
        while not self.is_dead():
            clock.sleep(self.every_s)
            if self.permits is None:
                self._call()
                continue
            try:
                request = self.permits()
                with request as call:
                    self._call(call.left_s)
                    if self.is_dead():
                        request._call = None  # killed: it settles nothing any more
            except TooManyError:
                self.refusals += 1

    def is_dead(self) -> bool:
        return self.scenario.clock.monotonic() >= self.dies_at_s

    def _call(self, timeout_s: float = 30.0) -> None:
        self.supplier.post(TOKEN, data={"client_id": "not ours"}, timeout=timeout_s)
        self.calls += 1


NewScenario = Callable[[float], Scenario]


@pytest.fixture
def new_scenario(shared_pool: ConnectionPool, tmp_path: Path) -> NewScenario:
    def new(days: float) -> Scenario:
        world = seeded_world(products=40, days=days, seed=5)
        return Scenario(Plan(world=world, days=days, policy="adaptive"), shared_pool, tmp_path)

    return new


def permits_of(
    scenario: Scenario, pool: ConnectionPool, *, max_wait_s: float
) -> Callable[[], PermitRequest]:
    clock: VirtualClock = scenario.clock
    client = ApiClient(create(scenario.app, real_time=clock, refresh_s=0))
    key = auth_headers(pool, Role.PERMITS)["Authorization"].removeprefix("Bearer ")

    def open_api() -> HeadwayApi:
        return HeadwayApi("http://headway.test", key, clock=clock, transport=SiteTransport(client))

    body = {"limit": "main", "max_wait_s": max_wait_s, "timeout_s": 60.0}
    return lambda: PermitRequest(PermitServer(open_api), body, clock=clock)


@pytest.mark.parametrize("days", (0.1, pytest.param(1, marks=pytest.mark.campaign)))
def test_headway_and_three_programs_with_permits_keep_the_limit(
    days: float, new_scenario: NewScenario, shared_pool: ConnectionPool
) -> None:
    scenario = new_scenario(days)
    programs = [
        Program(scenario, permits_of(scenario, shared_pool, max_wait_s=600), every_s=900),
        Program(scenario, permits_of(scenario, shared_pool, max_wait_s=3600), every_s=300),
        Program(
            scenario,
            permits_of(scenario, shared_pool, max_wait_s=600),
            every_s=400,
            dies_at_s=days * DAY_S / 2,
        ),
    ]
    for program in programs:
        scenario.clock.spawn(program.run)
    scenario.run()
    assert scenario.simulator.refusals == 0
    assert scenario.simulator.max_calls_in_window == 2
    assert {law: count for law, count in scenario.violations.counts.items() if count} == {}
    assert [program.refusals for program in programs] == [0, 0, 0]
    assert programs[0].calls > 60 * days
    assert programs[1].calls > 150 * days
    assert 60 * days < programs[2].calls < 120 * days, "it stopped half-way"


def test_a_program_without_permits_breaks_the_limit(new_scenario: NewScenario) -> None:
    scenario = new_scenario(0.05)
    scenario.clock.spawn(Program(scenario, None, every_s=40).run)
    scenario.run()
    assert scenario.violations.counts["L1"] > 0
