"""The client for permits: against a real server over a socket, on a clock that runs fast."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool
from tests.cli.both import serve_app
from tests.conftest import START
from tests.web.keys import auth_headers

import headway.client
from headway.app import App, build
from headway.client.permits import PermitRequest
from headway.clock import ScaledClock
from headway.config import Settings
from headway.core.access import Role
from headway.errors import ConfigError, TooManyError, UnauthenticatedError

# A window of a minute is over in a fraction of a second.
SPEED = 400
Permit = Callable[..., PermitRequest]


@pytest.fixture
def app(pool: ConnectionPool, tmp_path: Path) -> App:
    clock = ScaledClock(SPEED, start=START)
    app = build(Settings.model_validate({"data_dir": tmp_path}), clock, pool)
    app.limiter.create([app.limit_key])
    return app


@pytest.fixture
def permit(app: App, pool: ConnectionPool) -> Iterator[Permit]:
    key = auth_headers(pool, Role.PERMITS)["Authorization"].removeprefix("Bearer ")
    with serve_app(app) as url:
        settings = {"server": url, "api_key": key, "max_wait_s": 3600, "timeout_s": 600}
        yield lambda limit="main", **more: headway.client.permit(limit, **{**settings, **more})


def calls(app: App) -> list[tuple[Any, ...]]:
    with app.pool.connection() as connection:
        return connection.execute(
            "SELECT status, result, http_status FROM call_ledger ORDER BY begun_at"
        ).fetchall()


def test_each_block_is_one_call_of_the_ledger(app: App, permit: Permit) -> None:
    for _ in range(3):
        with permit() as call:
            assert 0 < call.send_left_s < call.left_s
            call.answered(200)
    assert calls(app) == [("sent", "ok", 200)] * 3


def test_a_block_that_fails_counts_as_a_call_that_may_have_arrived(
    app: App, permit: Permit
) -> None:
    with pytest.raises(RuntimeError), permit():
        raise RuntimeError("the import broke off")
    assert calls(app) == [("sent", "timed_out", None)]


def test_a_call_that_was_not_sent_gives_its_permit_back(app: App, permit: Permit) -> None:
    with permit() as call:
        call.unsent()
    assert calls(app) == [("unsent", "unsent", None)]


def test_a_429_pauses_the_limit(app: App, permit: Permit) -> None:
    with permit() as call:
        call.answered(429, retry_after_s=3000)
    assert app.limiter.status(app.limit_key).reason == "too many requests"
    with pytest.raises(TooManyError), permit(max_wait_s=60):
        pass


def test_an_async_program_makes_calls_too(app: App, permit: Permit) -> None:
    async def make_call() -> None:
        async with permit() as call:
            call.answered(200)

    async def make_calls() -> None:
        await asyncio.gather(*(make_call() for _ in range(3)))

    asyncio.run(make_calls())
    assert calls(app) == [("sent", "ok", 200)] * 3


def test_an_async_program_that_is_canceled_leaves_no_call_behind(app: App, permit: Permit) -> None:
    app.limiter.pause(app.limit_key, 3000, "a long pause")

    async def cancel() -> None:
        request = permit()
        waiting = asyncio.ensure_future(request.__aenter__())
        while not app.limiter.status(app.limit_key).queue:
            assert not waiting.done()
            await asyncio.wait([waiting], timeout=0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(cancel())
    assert app.limiter.status(app.limit_key).queue == {}
    assert calls(app) == []


def test_a_wrong_key_and_a_missing_server_are_named(permit: Permit) -> None:
    with pytest.raises(UnauthenticatedError), permit(api_key="hw_wrong"):
        pass
    with pytest.raises(ConfigError, match="HEADWAY_SERVER"):
        headway.client.permit("main", server="", api_key="")
