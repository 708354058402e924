"""Commands against a server: keys, tenant isolation and errors."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.both import LocalAndRemote
from tests.operations.sample import ACME, BEST, BEST_ONLY, HELD, SHARED

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


def test_the_option_overrides_the_setting_and_an_empty_one_means_local(
    both: LocalAndRemote,
) -> None:
    remote = both.remote("held", "--server", both.url, HEADWAY_SERVER="http://127.0.0.1:9")
    assert remote.out == both.remote("held").out
    here = both.run(
        "held", "--server", "", HEADWAY_SERVER="http://127.0.0.1:9", **both.local_settings
    )
    assert (here.out, here.err) == (remote.out, "")


def test_without_a_key_it_shows_how_to_create_one(both: LocalAndRemote) -> None:
    message = both.remote("held", HEADWAY_API_KEY="").error(2)
    assert "set HEADWAY_API_KEY" in message
    assert "headway key create NAME --role operator" in message


def test_an_unknown_key_is_refused_and_not_shown(both: LocalAndRemote) -> None:
    refused = both.remote("held", "--json", HEADWAY_API_KEY="hw_wrong")
    assert "does not accept the key in HEADWAY_API_KEY" in refused.error(2)
    assert json.loads(refused.out)["exit_code"] == 2
    assert "hw_wrong" not in refused.out + refused.err


def test_an_unreachable_server_is_reported(both: LocalAndRemote) -> None:
    message = both.remote("held", HEADWAY_SERVER="http://127.0.0.1:9").error(1)
    assert message == (
        "headway: no connection to http://127.0.0.1:9: no server is running there; start it with:"
        " headway run"
    )


def test_a_seller_reaches_only_its_own_data(both: LocalAndRemote) -> None:
    key = both.key(Role.SELLER, BEST)

    def run(*command: str) -> Any:
        return both.remote(*command, HEADWAY_API_KEY=key)

    assert [change["sku"] for change in run("held", "--json").object()["held"]] == [BEST_ONLY]
    assert {part["seller"] for part in run("parts", "--json").object()["parts"]} == {BEST}
    assert run("explain", SHARED, "--json").object()["listings"][0]["seller"] == BEST
    assert "no listing has the part number" in run("approve", HELD).error(2)
    assert "this key belongs to best" in run("held", "--seller", ACME).error(2)
    assert run("limits").error(2)
    reader_key = both.key(Role.READER)
    assert both.remote("parts", HEADWAY_API_KEY=reader_key).code == 0
    assert both.remote("reject", HELD, HEADWAY_API_KEY=reader_key).error(2)


@pytest.mark.parametrize("command", (["db", "status"], ["doctor"]))
def test_a_command_for_the_installation_refuses_a_server(
    both: LocalAndRemote, command: list[str]
) -> None:
    message = both.remote(*command, "--server", both.url).error(2)
    assert "run it where headway runs, without --server" in message


def test_a_local_command_notes_that_it_ignores_the_server(both: LocalAndRemote) -> None:
    result = both.run("db", "status", HEADWAY_SERVER=both.url, **both.local_settings)
    assert result.code == 0
    assert result.err == "headway: this works on the database here, not on HEADWAY_SERVER\n"


def test_an_export_is_the_same_locally_remotely_and_in_a_file(
    both: LocalAndRemote, tmp_path: Path
) -> None:
    for form in ("csv", "jsonl"):
        exports = []
        for run in (both.local, both.remote):
            file = tmp_path / f"events.{form}"
            result = run("audit", "--format", form, "--out", str(file))
            assert result.out == f"6 events in {file}\n"
            exports.append(file.read_bytes())
            assert run("audit", "--format", form).out.encode() == exports[-1]
        assert exports[0] == exports[1]
    rows = list(csv.DictReader((tmp_path / "events.csv").read_text().splitlines()))
    assert len(rows) == 6
    assert {row["seller"] for row in rows} == {ACME, BEST}
    counted = both.remote(
        "audit", "--kind", "alert_resolved", "--out", str(tmp_path / "x"), "--json"
    )
    assert counted.object() == {"file": str(tmp_path / "x"), "events": 0}
    lines = both.remote("audit", "--seller", ACME, "--sku", HELD, "--json").out.splitlines()
    assert [json.loads(line)["sku"] for line in lines] == [HELD]


def test_a_failed_export_leaves_the_existing_file(both: LocalAndRemote, tmp_path: Path) -> None:
    (tmp_path / "events.csv").write_text("before")
    for arguments in (["--seller", "nobody"], ["--sku", "x" * 300]):
        failed = both.remote("audit", *arguments, "--out", str(tmp_path / "events.csv"))
        assert failed.error(2)
    assert [path.name for path in tmp_path.iterdir() if "events" in path.name] == ["events.csv"]
    assert (tmp_path / "events.csv").read_text() == "before"
    message = both.remote("audit", "--out", str(tmp_path / "none" / "x")).error(2)
    assert "cannot write" in message


def test_the_history_of_a_part_draws_price_and_stock_and_lists_the_calls(
    both: LocalAndRemote,
) -> None:
    for hours, price in ((9, "100.00"), (6, "150.00"), (3, "125.00")):
        quote = json.dumps({"list_price": price, "quantities": {"Miami": 1000 + hours}})
        both.write(EVENT, SHARED, hours, "price_changed", quote)
    both.write(EVENT, SHARED, 2, "shopify_updated", json.dumps({"price": "137.50"}))
    both.write(CALL, SHARED)
    output = both.remote("history", SHARED).out
    assert output == both.local("history", SHARED).out
    assert "list price none to 125.00, stock none to 1003" in output
    chart = next(line for line in output.splitlines() if line.startswith("  supplier"))
    assert chart.split()[-1] == "125.00"
    assert "▁" in chart
    assert "█" in chart
    assert "from 100.00 to 150.00" in output
    assert "from 1,003 to 1,009" in output
    last = output.rstrip().splitlines()[-1].split()
    assert last[-6:] == ["read", "1", "of", "10", "4.0", "s"]
