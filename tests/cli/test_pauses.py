"""The commands pause, resume and trigger, and tenant isolation in their operations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from headway.app import build
from headway.clock import SystemClock
from headway.config import Settings
from headway.core.catalog.listings import SellerId, Sku
from headway.core.pauses import PauseKind
from headway.core.timetable.policies import by_name
from headway.errors import ForbiddenError, InvalidError, NotFoundError
from headway.operations.callers import operator, seller_or_operator
from headway.operations.listings import TriggerBody, trigger
from headway.operations.pauses import PauseBody, ResumeBody, pause, pauses, resume
from headway.store.catalog.listings import Listings

Headway = Callable[..., Any]
NOW = SystemClock().now()


@pytest.fixture(autouse=True)
def listed(pool: ConnectionPool) -> None:
    keys = [(SellerId(seller), Sku(sku)) for seller in ("acme", "zenith") for sku in ("A=K3", "B")]
    Listings(pool).add([*keys, (SellerId("acme"), Sku("C"))], policy=by_name("rolling"), now=NOW)


def test_everything_is_paused_shown_explained_and_resumed(on_database: Headway) -> None:
    assert "nothing is paused" in on_database("pause").out
    result = on_database("pause", "--all", "--until", "2h", "--reason", "moving house", "--json")
    (pause,) = result.object()["pauses"]
    assert (pause["kind"], pause["actor"], pause["reason"]) == ("all", "cli", "moving house")
    assert "moving house" in on_database("pause").out
    assert "everything is paused by cli" in on_database("explain", "C").out
    status = on_database("status", "--json").object()["overview"]
    assert status["next_call"]["why"] == "paused"
    assert status["pauses"][0]["reason"] == "moving house"
    assert "everything is paused by cli" in on_database("status").out
    assert on_database("check").code == 0
    assert on_database("resume", "--all").code == 0
    again = on_database("resume", "--all", "--json")
    assert (again.code, again.object()["done"]) == (1, 0)


def test_a_part_and_its_seller_are_paused_independently(
    on_database: Headway,
) -> None:
    assert on_database("pause", "A=K3", "--seller", "acme").code == 0
    assert on_database("pause", "--seller", "acme", "--until", "1d").code == 0
    resumed = on_database("resume", "A=K3", "--seller", "acme", "--json").object()["resumed"]
    assert "everything of acme is still paused by cli" in resumed[0]["message"]
    triggered = on_database("trigger", "C", "--json").object()["listings"]
    assert triggered[0]["message"].startswith("paused by cli")
    triggered = on_database("trigger", "B", "--seller", "zenith", "--json").object()["listings"]
    assert (triggered[0]["is_done"], triggered[0]["message"]) == (True, "is in the next call")


@pytest.mark.parametrize(
    ("arguments", "message"),
    (
        (("pause", "A=K3"), "listed by acme, zenith"),
        (("pause", "--all", "--supplier"), "name one thing"),
        (("pause", "C", "--all"), "name one thing"),
        (("pause", "--all", "--until", "soon"), "2026-03-04T09:00"),
        (("pause", "--all", "--until", "2020-01-01"), "is in the past"),
        (("pause", "--seller", "nobody"), "nobody"),
        (("pause", "--reason", "why"), "say what to pause"),
        (("resume",), "say what to resume"),
        (("trigger", "D"), "no listing has the part number D"),
    ),
)
def test_an_invalid_pause_is_refused(
    on_database: Headway, arguments: tuple[str, ...], message: str
) -> None:
    assert message in on_database(*arguments).error(2)
    assert "nothing is paused" in on_database("pause").out


def test_a_seller_can_pause_only_its_own_parts(pool: ConnectionPool, tmp_path: Path) -> None:
    app = build(Settings(data_dir=tmp_path), SystemClock(), pool)
    own = seller_or_operator(app, "Zoe", SellerId("zenith"))
    for kind in (PauseKind.ALL, PauseKind.SUPPLIER):
        with pytest.raises(ForbiddenError, match="its own things"):
            pause(own, PauseBody(kind=kind))
        with pytest.raises(ForbiddenError, match="its own things"):
            resume(own, ResumeBody(kind=kind))
    with pytest.raises(NotFoundError, match="no listing has the part number C"):
        pause(own, PauseBody(kind=PauseKind.LISTING, skus=[Sku("C")]))
    with pytest.raises(NotFoundError):
        trigger(own, TriggerBody(skus=[Sku("C")]))
    with pytest.raises(ForbiddenError, match="belongs to zenith"):
        trigger(own, TriggerBody(skus=[Sku("C")], seller=SellerId("acme")))
    (paused,) = pause(own, PauseBody(kind=PauseKind.SELLER)).pauses
    assert (paused.seller, paused.actor) == ("zenith", "Zoe")
    (paused,) = pause(own, PauseBody(kind=PauseKind.LISTING, skus=[Sku("B")])).pauses
    assert paused.seller == "zenith"
    pause(operator(app, "op"), PauseBody(kind=PauseKind.SELLER, seller=SellerId("acme")))
    assert {pause.seller for pause in pauses(own).pauses} == {"zenith"}
    with pytest.raises(InvalidError, match="name the seller"):
        pause(operator(app, "op"), PauseBody(kind=PauseKind.SELLER))
