"""A server is asked as it should be: with a key, behind its wall, and with trouble told plainly."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.both import Both
from tests.operations.room import ACME, BEST, HELD, SHARED, THEIRS

from headway.core.access import Role

EVENT = (
    "INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type, new_value)"
    " VALUES ('acme', %s, now() - %s * interval '1 hour', %s, %s)"
)
CALL = (
    "INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, finished_at,"
    " lease_until,"
    " status, result, skus, seats_paid) SELECT gen_random_uuid(), 'boeing:', 'w', 1,"
    " now() - interval '1 hour', now() - interval '1 hour' + interval '4 s', now(), 'sent', 'ok',"
    " ARRAY[%s], 10"
)


def test_the_option_wins_over_the_setting_and_empty_means_here(both: Both) -> None:
    asked = both.remote("hold", "--server", both.url, HEADWAY_SERVER="http://127.0.0.1:9")
    assert asked.out == both.remote("hold").out
    here = both.run("hold", "--server", "", HEADWAY_SERVER="http://127.0.0.1:9", **both.at_home)
    assert (here.out, here.err) == (asked.out, "")


def test_without_a_key_it_says_how_to_make_one(both: Both) -> None:
    said = both.remote("hold", HEADWAY_API_KEY="").complaint(2)
    assert "set HEADWAY_API_KEY" in said
    assert "headway key create NAME --role operator" in said


def test_a_key_that_nobody_knows_is_refused_and_not_shown(both: Both) -> None:
    refused = both.remote("hold", "--json", HEADWAY_API_KEY="hw_wrong")
    assert "does not know the key in HEADWAY_API_KEY" in refused.complaint(2)
    assert json.loads(refused.out)["exit_code"] == 2
    assert "hw_wrong" not in refused.out + refused.err


def test_nobody_there_is_one_line(both: Both) -> None:
    said = both.remote("hold", HEADWAY_SERVER="http://127.0.0.1:9").complaint(1)
    assert said == (
        "headway: no connection to http://127.0.0.1:9: nobody listens there; start it with:"
        " headway run"
    )


def test_a_seller_sees_and_does_what_is_the_sellers_own(both: Both) -> None:
    key = both.key(Role.SELLER, BEST)

    def ask(*command: str) -> Any:
        return both.remote(*command, HEADWAY_API_KEY=key)

    assert [each["sku"] for each in ask("hold", "--json").object()["held"]] == [THEIRS]
    assert {each["user_id"] for each in ask("parts", "--json").object()["parts"]} == {BEST}
    assert ask("explain", SHARED, "--json").object()["listings"][0]["seller"] == BEST
    assert "no listing has the part number" in ask("approve", HELD).complaint(2)
    assert "this key belongs to best" in ask("hold", "--seller", ACME).complaint(2)
    assert ask("limits").complaint(2)
    only_looks = both.key(Role.READER)
    assert both.remote("parts", HEADWAY_API_KEY=only_looks).code == 0
    assert both.remote("reject", HELD, HEADWAY_API_KEY=only_looks).complaint(2)


@pytest.mark.parametrize("command", (["db", "status"], ["doctor"]))
def test_what_works_on_the_installation_itself_asks_no_server(
    both: Both, command: list[str]
) -> None:
    said = both.remote(*command, "--server", both.url).complaint(2)
    assert "run it where headway runs, without --server" in said


def test_a_local_command_says_that_it_does_not_mean_the_server(both: Both) -> None:
    seen = both.run("db", "status", HEADWAY_SERVER=both.url, **both.at_home)
    assert seen.code == 0
    assert seen.err == "headway: this works on the database here, not on HEADWAY_SERVER\n"


def test_an_export_is_the_same_both_ways_and_in_a_file(both: Both, tmp_path: Path) -> None:
    for form in ("csv", "jsonl"):
        outs = []
        for run in (both.local, both.remote):
            file = tmp_path / f"events.{form}"
            told = run("audit", "--format", form, "--out", str(file))
            assert told.out == f"6 events in {file}\n"
            outs.append(file.read_bytes())
            assert run("audit", "--format", form).out.encode() == outs[-1]
        assert outs[0] == outs[1]
    rows = list(csv.DictReader((tmp_path / "events.csv").read_text().splitlines()))
    assert len(rows) == 6
    assert {each["seller"] for each in rows} == {ACME, BEST}
    counted = both.remote("audit", "--kind", "nothing", "--out", str(tmp_path / "x"), "--json")
    assert counted.object() == {"file": str(tmp_path / "x"), "events": 0}
    lines = both.remote("audit", "--seller", ACME, "--sku", HELD, "--json").out.splitlines()
    assert [json.loads(each)["sku"] for each in lines] == [HELD]


def test_an_export_that_fails_leaves_what_was_there(both: Both, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("before")
    for arguments in (["--seller", "nobody"], ["--sku", "x" * 300]):
        failed = both.remote("audit", *arguments, "--out", str(tmp_path / "events.csv"))
        assert failed.complaint(2)
    assert [each.name for each in tmp_path.iterdir() if "events" in each.name] == ["events.csv"]
    assert (tmp_path / "events.csv").read_text() == "before"
    said = both.remote("audit", "--out", str(tmp_path / "none" / "x")).complaint(2)
    assert "cannot write" in said


def test_the_history_of_a_part_draws_price_and_stock_and_lists_the_calls(both: Both) -> None:
    for hours, price in ((9, "100.00"), (6, "150.00"), (3, "125.00")):
        told = json.dumps({"list_price": price, "quantities": {"Miami": 1000 + hours}})
        both.write(EVENT, SHARED, hours, "price_changed", told)
    both.write(EVENT, SHARED, 2, "shopify_updated", json.dumps({"price": "137.50"}))
    both.write(CALL, SHARED)
    shown = both.remote("history", SHARED).out
    assert shown == both.local("history", SHARED).out
    assert "list price none to 125.00, stock none to 1003" in shown
    drawn = next(line for line in shown.splitlines() if line.startswith("  supplier"))
    assert drawn.split()[-1] == "125.00"
    assert "▁" in drawn
    assert "█" in drawn
    assert "from 100.00 to 150.00" in shown
    assert "from 1,003 to 1,009" in shown
    last = shown.rstrip().splitlines()[-1].split()
    assert last[-6:] == ["read", "1", "of", "10", "4.0", "s"]
