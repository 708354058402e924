"""`headway record` writes a file that `headway verify` reads; over a real socket and database."""

from pathlib import Path

import pytest
from tests.cli.conftest import Headway

from headway.clock import SystemClock
from headway_lab.simulators.printify.simulator import PrintifySimulator
from headway_lab.simulators.transport import serve


def test_a_shop_is_recorded_to_a_new_file_and_verified(
    on_database: Headway, tmp_path: Path
) -> None:
    clock = SystemClock()
    printify = PrintifySimulator(clock)
    shop = printify.add_shop()
    for _ in range(3):
        printify.place_order(shop)
    token_file, out = tmp_path / "token", tmp_path / "printify.jsonl"
    token_file.write_text(printify.personal_token())
    account = ("--seller", "acme", "--platform", "printify")
    record = ("record", "shop", *account, "--out", str(out))
    with serve(printify.handle, clock) as server:
        url = {"HEADWAY_PRINTIFY_URL": server.url}
        connected = on_database(
            "connect", str(shop), *account, "--token-file", str(token_file), **url
        )
        assert connected.code == 0, connected.err
        recorded = on_database(*record, "--json", **url)
        assert recorded.object() == {"file": str(out), "replies": 2, "problems": []}
        assert "exists" in on_database(*record, **url).error(2)
    text = out.read_text()
    assert printify.personal_token() not in text
    assert "@example" not in text
    verified = on_database("verify", str(out), "--json").object()
    assert (verified["total"], verified["unread"]) == (2, 0)
    assert verified["replies"][0]["understood"]["rows"]["orders"] == 3


@pytest.mark.parametrize("option", ("--seller", "--out"))
def test_a_recording_needs_a_seller_and_a_file(on_database: Headway, option: str) -> None:
    given = {"--seller": "acme", "--out": "x.jsonl"}
    del given[option]
    words = [word for pair in given.items() for word in pair]
    assert option in on_database("record", "shop", *words).error(2)
