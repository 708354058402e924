"""Idempotency-Key over a real server and a real database, with an action that blocks."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import httpx
import pytest
from fastapi import APIRouter, Depends
from psycopg_pool import ConnectionPool
from tests.conftest import NO_ROOTS
from tests.web.keys import auth_headers

from headway.app import build
from headway.clock import SystemClock
from headway.config import Settings
from headway.core.access import Need
from headway.errors import ConflictError, InvariantError
from headway.operations.callers import Caller
from headway.web.access import ApiRoute, Requirement
from headway.web.server import SiteServer, address, listen
from headway.web.site import create

WriteCaller = Annotated[Caller, Depends(Requirement(Need.WRITE))]
PATIENCE_S = 20


@dataclass
class BlockingAction:
    """The action of the route: wait until released, and count."""

    begun: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    may_go: threading.Event = field(default_factory=threading.Event)
    done: int = 0
    trouble: Exception | None = None

    def __call__(self, _: WriteCaller) -> dict[str, int]:
        self.begun.release()
        assert self.may_go.wait(PATIENCE_S)
        if self.trouble is not None:
            raise self.trouble
        self.done += 1
        return {"done": self.done}


@pytest.fixture
def action() -> BlockingAction:
    return BlockingAction()


@pytest.fixture
def api(pool: ConnectionPool, action: BlockingAction, tmp_path: Path) -> Iterator[httpx.Client]:
    site = create(build(Settings(data_dir=tmp_path), SystemClock(), pool))
    routes = APIRouter(route_class=ApiRoute)
    routes.post("/api/test/verb")(action.__call__)
    site.include_router(routes)
    listener = listen("127.0.0.1", 0)
    server = SiteServer(site, listener)
    server.start()
    try:
        with httpx.Client(
            base_url=address(listener),
            headers=auth_headers(pool),
            timeout=PATIENCE_S,
            trust_env=False,
            verify=NO_ROOTS,
        ) as client:
            yield client
    finally:
        action.may_go.set()
        server.stop()


def post(api: httpx.Client, key: str = "k", **more: object) -> httpx.Response:
    return api.post("/api/test/verb", headers={"Idempotency-Key": key}, **more)


def test_concurrent_requests_with_one_key_run_once_and_get_the_same_response(
    api: httpx.Client, action: BlockingAction
) -> None:
    first: list[httpx.Response] = []
    sender = threading.Thread(target=lambda: first.append(post(api)))
    sender.start()
    assert action.begun.acquire(timeout=PATIENCE_S)
    second = post(api)
    assert second.status_code == 409
    assert "under way" in second.json()["detail"]
    assert 1 <= int(second.headers["retry-after"]) <= 120
    action.may_go.set()
    sender.join()
    again = post(api)
    assert (first[0].status_code, first[0].json()) == (200, {"done": 1})
    assert "idempotency-replayed" not in first[0].headers
    assert (again.status_code, again.content) == (200, first[0].content)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["content-type"] == first[0].headers["content-type"]
    assert action.done == 1


def test_another_request_key_or_user_runs_again(
    api: httpx.Client, action: BlockingAction, pool: ConnectionPool
) -> None:
    action.may_go.set()
    assert post(api).json() == {"done": 1}
    for other in ({"content": b"{}"}, {"params": {"a": "1"}}):
        refusal = post(api, **other)
        assert refusal.status_code == 422
        assert "another request was sent under this key" in refusal.json()["detail"]
    assert post(api, "other").json() == {"done": 2}
    other_headers = {**auth_headers(pool), "Idempotency-Key": "k"}
    assert api.post("/api/test/verb", headers=other_headers).json() == {"done": 3}
    assert api.post("/api/test/verb").json() == {"done": 4}
    assert action.done == 4


def test_a_refused_request_can_be_repeated_with_its_key(
    api: httpx.Client, action: BlockingAction
) -> None:
    action.may_go.set()
    action.trouble = ConflictError("not as things are")
    assert post(api).status_code == 409
    action.trouble = None
    again = post(api)
    assert again.json() == {"done": 1}
    assert "idempotency-replayed" not in again.headers


@pytest.mark.parametrize("key", ("", "a" * 256, b"\xe9", "a\tb"))
def test_an_invalid_key_is_refused(api: httpx.Client, action: BlockingAction, key: str) -> None:
    action.may_go.set()
    assert post(api, key).status_code == 422
    assert action.done == 0


def test_a_route_without_a_required_role_does_not_start() -> None:
    routes = APIRouter(route_class=ApiRoute)
    with pytest.raises(InvariantError, match="/api/open must take one caller"):
        routes.get("/api/open")(lambda: {"a": 1})
