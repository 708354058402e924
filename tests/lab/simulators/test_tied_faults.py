"""Faults that are tied to one row, page, list or time, and return every time."""

import json
from collections.abc import Mapping

import pytest

from headway_lab.simulators.faults import Interval
from headway_lab.simulators.poison import PoisonForm
from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.simulators.tied_faults import (
    EndlessList,
    FaultyServer,
    PoisonedPage,
    PoisonedRow,
    TiedFault,
    WrongRefusals,
    rows_in,
)

MARK = "/shops/7/"


def page(method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
    """Answer with as many rows as the path asks for."""
    count = int(path.rpartition("=")[2]) if "=" in path else 0
    rows = [{"id": f"row-{number}"} for number in range(count)]
    return json_reply({"count": count, "results": rows}, headers={"X-Left": "9"})


def ask(server: FaultyServer, path: str) -> SimReply:
    return server("GET", path, {}, b"")


def with_fault(fault: TiedFault) -> FaultyServer:
    return FaultyServer(page, [fault])


def poisoned(form: PoisonForm) -> PoisonedRow:
    return PoisonedRow(shop_mark=MARK, text=b'"row-2"', garbage=b"null", form=form)


def test_a_poisoned_row_spoils_the_replies_that_would_show_it_and_no_other() -> None:
    server = with_fault(poisoned(PoisonForm.ERROR))
    assert ask(server, f"{MARK}orders?limit=3").status == 500
    assert ask(server, f"{MARK}orders?limit=3").headers["X-Left"] == "9", "limits are reported"
    assert ask(server, f"{MARK}orders?limit=2").status == 200
    assert ask(server, "/shops/8/orders?limit=3").status == 200
    assert server.injected == {"poison": 2}


def test_a_row_may_be_garbage_in_a_good_reply() -> None:
    reply = ask(with_fault(poisoned(PoisonForm.GARBAGE)), f"{MARK}orders?limit=4")
    ids = [row["id"] for row in json.loads(reply.body)["results"]]
    assert (reply.status, ids) == (200, ["row-0", "row-1", None, "row-3"])


def test_a_poisoned_page_is_answered_only_if_it_holds_few_rows() -> None:
    server = with_fault(PoisonedPage(shop_mark=MARK, form=PoisonForm.ERROR, rows_max=3))
    assert [ask(server, f"{MARK}orders?limit={size}").status for size in (3, 4)] == [200, 500]


def test_an_endless_list_shows_the_same_rows_and_more_to_come() -> None:
    server = with_fault(EndlessList(shop_mark=MARK))
    first = ask(server, f"{MARK}receipts?limit=2")
    assert ask(server, f"{MARK}receipts?limit=5").body == first.body
    assert json.loads(first.body)["count"] == 1_000_000


@pytest.mark.parametrize(("at_s", "is_refused"), ((9, False), (10, True), (19, True), (20, False)))
def test_all_tokens_are_refused_for_a_while_and_requests_for_tokens_are_not(
    at_s: float, *, is_refused: bool
) -> None:
    span = Interval(start_s=10, end_s=20)
    server = with_fault(WrongRefusals([span], lambda: at_s))
    replies = [ask(server, f"{MARK}orders?limit=1") for _ in range(3)]
    assert all((reply.status == 403) is is_refused for reply in replies)
    assert len({reply.body for reply in replies}) == (3 if is_refused else 1), (
        "one form after another"
    )
    assert ask(server, "/v3/public/oauth/token").status == 200


def test_the_rows_of_a_page_are_its_longest_list() -> None:
    assert rows_in(b'{"data":{"orders":{"nodes":[{"tags":[1,2,3]},{}]}}}') == 2
    assert rows_in(b"<html>") == rows_in(b"{}") == 0
