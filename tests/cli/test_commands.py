"""Commands on a real database: status, explain, check, doctor, db."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from psycopg_pool import ConnectionPool

from headway import __version__
from headway.app.agreement import agreement
from headway.cli.status import WHY
from headway.clock import ScaledClock, SystemClock
from headway.config import Settings
from headway.core.catalog.listings import SellerId, Sku
from headway.core.timetable.next_call import NextCallReason
from headway.core.timetable.policies import by_name
from headway.store.catalog.listings import Listings
from headway.store.migrate import MigrationKind, load
from headway.store.monitoring.processes import Presence, Processes
from headway.store.server.embedded import EmbeddedServer
from headway.store.timetable.schedule import Schedule
from headway_lab.virtual_clock import VirtualClock

Headway = Callable[..., Any]
Execute = Callable[..., None]
HOUR = timedelta(hours=1)
RULES = json.dumps(
    [{"kind": "window", "limit": 2, "span_s": 60, "gap_s": 30, "jitter_s": 2.5, "anchor": "finish"}]
)
LIMITER = (
    "INSERT INTO limiter (limit_key, rules, state, lineage, updated_at)"
    " VALUES (%s, %s, '{}', '', %s)"
)
ACCOUNT = "INSERT INTO connected_accounts (user_id, platform, shop) VALUES (%s, 'shopify', %s)"
SET_LOCATIONS = "UPDATE connected_accounts SET locations = %s"
SHOP = "acme.myshopify.com"
CONNECT = f"run: headway connect {SHOP} --seller acme"
CALL = """
INSERT INTO call_ledger
  (permit_id, limit_key, owner, cost, begun_at, lease_until, finished_at, arrived_by, status,
   result)
VALUES (%s, 'boeing:', 'w', 1, %s, %s, %s, %s, 'sent', 'ok')
"""


def add(
    pool: ConnectionPool, *skus: str, seller: str = "acme", now: datetime | None = None
) -> None:
    keys = [(SellerId(seller), Sku(sku)) for sku in skus]
    at = now or SystemClock().now()
    Listings(pool).add(keys, policy=by_name("rolling"), now=at)


def findings(result: Any, subject: str) -> list[tuple[str, str]]:
    """Return verdict and finding of every line of the doctor about a subject."""
    lines = result.object()["lines"]
    return [(line["verdict"], line["finding"]) for line in lines if line["subject"] == subject]


def laws(result: Any) -> dict[str, Any]:
    return {law["law"]: law for law in result.object()["laws"]}


def test_status_shows_the_next_call_the_budget_and_the_listings(
    on_database: Headway, pool: ConnectionPool, execute: Execute
) -> None:
    add(pool, "A", "B", "C")
    execute("UPDATE product_sync_schedule SET next_sync_at = now() + interval '5 hours'")
    execute("UPDATE product_sync_schedule SET priority = 'manual' WHERE sku = 'A'")
    output = on_database("status").out
    assert "calls must wait: history unknown" in output
    assert "3 of 10: 1 manual, 2 ahead" in output
    assert "0 of 2 calls in the last 60 s, 0 of 2,880 in 24 h" in output
    assert "3 unread" in output
    overview = on_database("status", "--json").object()["overview"]
    assert overview["next_call"]["why"] == "rate limited"
    assert overview["counts"]["unread"] == 3


def test_status_shows_the_shops_and_held_changes(
    on_database: Headway, pool: ConnectionPool, execute: Execute
) -> None:
    assert "connect one with: headway connect SHOP --seller SELLER" in on_database("status").out
    add(pool, "-A 1")
    execute(ACCOUNT, "acme", "acme.myshopify.com")
    execute(
        "INSERT INTO listing_state (user_id, sku, desired, applied, proposed, held_reason, held_at)"
        """ VALUES ('acme', '-A 1', '{"price": "10.00"}', '{}', '{"price": "1.00"}', 'far', %s)""",
        SystemClock().now(),
    )
    output = on_database("status").out
    assert "acme.myshopify.com  acme    1 of 1" in output
    assert "10.00 to 1.00  far" in output
    assert "decide with: headway approve --seller acme -- '-A 1'" in output
    storefront = on_database("status", "--json").object()["overview"]["storefront"]
    assert (storefront["shops_count"], storefront["held_count"]) == (1, 1)


def test_status_has_words_for_every_reason_to_wait() -> None:
    assert set(WHY) == set(NextCallReason)


def test_a_pipe_gets_plain_text(headway: Headway, database: str, pool: ConnectionPool) -> None:
    add(pool, "A")
    output = headway("status", DATABASE_URL=database).out
    assert "next call" in output
    assert "\x1b" not in output
    assert all(line == line.rstrip() for line in output.split("\n"))


def test_explain_answers_for_every_seller_of_a_part(
    on_database: Headway, pool: ConnectionPool
) -> None:
    sku = "AN 960/10L=K3"
    add(pool, sku)
    add(pool, sku, seller="zenith")
    output = on_database("explain", sku).out
    assert f"{sku} of acme: not due" in output
    assert f"{sku} of zenith: not due" in output
    assert "Place in the queue: 1." in output
    (only,) = on_database("explain", sku, "--seller", "zenith", "--json").object()["listings"]
    assert only["seller"] == "zenith"
    assert only["explanation"]["state"] == "not due"
    # With so few parts no call is worth making before one is due.
    assert only["explanation"]["until"] == only["due_at"]


def test_explain_suggests_a_similar_part_for_an_unknown_one(
    on_database: Headway, pool: ConnectionPool
) -> None:
    add(pool, "WF338109=K3", "MS20470")
    message = on_database("explain", "WF338109").error(2)
    assert "no listing has the part number WF338109; did you mean WF338109=K3?" in message
    message = on_database("explain", "MS20470", "--seller", "zenith").error(2)
    assert "zenith does not list MS20470; it is listed by acme" in message


def test_check_finds_nothing_wrong_with_a_lawful_database(
    on_database: Headway, pool: ConnectionPool
) -> None:
    add(pool, "A", "B")
    result = on_database("check", "--json")
    assert result.code == 0
    assert result.object()["is_lawful"] is True
    by_law = laws(result)
    assert list(by_law) == [*(f"L{number}" for number in range(1, 15)), "L16"]
    assert by_law["L13"]["note"] == "2 listings, 0 jobs asked"
    assert {law["violations"] for law in by_law.values()} == {0}


def test_check_names_the_call_that_was_one_too_many(on_database: Headway, execute: Execute) -> None:
    start = datetime(2026, 3, 4, 12, tzinfo=UTC)
    execute(LIMITER, "boeing:", RULES, start)
    for number in range(3):
        at = start + timedelta(seconds=29 * number)
        permit = f"00000000-0000-4000-8000-00000000000{number}"
        execute(CALL, permit, at, at, at, at)
    result = on_database("check")
    assert result.code == 1
    assert (
        "L1: call 00000000-0000-4000-8000-000000000002 of boeing: at 2026-03-04 12:00:58"
        in result.out
    )
    assert "number 3 in 60 s; 2 are allowed" in result.out


def test_check_names_the_listing_that_breaks_a_law(
    on_database: Headway, pool: ConnectionPool, execute: Execute
) -> None:
    past = SystemClock().now() - 40 * HOUR
    add(pool, "OLD", now=past)
    add(pool, "SILENT", "BLAMED")
    Schedule(pool).claim([Sku("SILENT")], now=past, owner="w", lease_until=past)
    execute("UPDATE product_sync_schedule SET consecutive_failures = 1 WHERE sku = 'BLAMED'")
    result = on_database("check", "--json")
    assert result.code == 1
    broken = {law: each["examples"][0] for law, each in laws(result).items() if each["violations"]}
    assert broken.keys() == {"L3", "L5", "L8"}
    assert broken["L3"].startswith("OLD of acme")
    assert broken["L5"].startswith("SILENT of acme")
    assert broken["L8"].startswith("BLAMED of acme")


def test_check_counts_the_retries_of_the_present_window(
    on_database: Headway, pool: ConnectionPool, execute: Execute
) -> None:
    add(pool, *(f"P{number}" for number in range(51)))
    retries = laws(on_database("check", "--json"))["L4"]
    assert (retries["verdict"], retries["violations"]) == ("not in play", 0)
    execute("UPDATE product_sync_schedule SET retried_at = now() + interval '1 day'")
    result = on_database("check", "--json", HEADWAY_POLICY="split")
    assert result.code == 1
    assert laws(result)["L4"]["violations"] == 1
    assert laws(result)["L4"]["note"].startswith("51 of 50 retries since ")


def test_check_excuses_stale_parts_after_an_outage(
    on_database: Headway, pool: ConnectionPool, execute: Execute
) -> None:
    now = SystemClock().now()
    add(pool, "OLD", now=now - 30 * HOUR)
    at = now - 8 * HOUR
    execute(CALL, "00000000-0000-4000-8000-000000000001", at, at, at, at)
    execute("UPDATE call_ledger SET result = 'HTTP 503'")
    freshness = laws(on_database("check", "--json"))["L3"]
    assert freshness["verdict"] == "ok"
    assert "1 excused, the supplier gave no answer for 8 h (1 failed calls)" in freshness["note"]


def test_doctor_checks_everything_and_shows_no_secret(on_database: Headway, database: str) -> None:
    password = database.partition("@")[0].rpartition(":")[2]
    result = on_database(
        "doctor", "--json", HEADWAY_BOEING_PASSWORD="hunter2", HEADWAY_WEB_PORT="0"
    )
    assert result.code == 0, result.out
    lines = {line["subject"]: line for line in result.object()["lines"]}
    for subject in ("headway", "database", "connection", "clock", "migrations", "folder"):
        assert lines[subject]["verdict"] == "ok", lines[subject]
    assert lines["supplier"]["verdict"] == "warn"
    assert "HEADWAY_BOEING_CLIENT_ID" in lines["supplier"]["finding"]
    settings_by_name = {setting["name"]: setting for setting in result.object()["settings"]}
    assert settings_by_name["HEADWAY_BOEING_PASSWORD"]["value"] == "(set, not shown)"
    assert settings_by_name["HEADWAY_BOEING_PASSWORD"]["source"] == "environment"
    assert settings_by_name["HEADWAY_POLICY"]["source"] == "default"
    assert "hunter2" not in result.out
    assert password not in result.out


def test_doctor_says_how_to_connect_a_shop(on_database: Headway) -> None:
    ((verdict, finding),) = findings(on_database("doctor", "--json"), "shops")
    assert verdict == "warn"
    assert "headway connect SHOP --seller SELLER" in finding


def test_doctor_fails_for_a_shop_without_a_token_and_makes_no_key(
    on_database: Headway, execute: Execute, tmp_path: Path
) -> None:
    execute(ACCOUNT, "acme", SHOP)
    result = on_database("doctor", "--json")
    assert result.code == 1
    before = findings(result, SHOP)
    assert ("fail", f"there is no token for it that still works; {CONNECT}") in before
    assert not (tmp_path / "none").exists()
    connect(on_database, tmp_path)
    assert on_database("doctor").code == 0
    execute("UPDATE credential SET expires_at = now()")
    assert findings(on_database("doctor", "--json"), SHOP) == before


def connect(on_database: Headway, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hunter2")
    result = on_database("connect", SHOP, "--seller", "acme", "--no-check", "--token-file", "token")
    assert result.code == 0, result.err


def test_doctor_names_the_locations_that_a_shop_lacks(
    on_database: Headway, execute: Execute, tmp_path: Path
) -> None:
    connect(on_database, tmp_path)
    ((verdict, finding),) = findings(on_database("doctor", "--json"), SHOP)
    assert (verdict, "its locations were not read yet" in finding) == ("warn", True)
    names = ("Dallas Central", "Chicago IL", "Miami FL", "Goodyear AZ")
    execute(SET_LOCATIONS, json.dumps(dict.fromkeys(names[:3], "gid://shopify/Location/1")))
    result = on_database("doctor", "--json")
    assert result.code == 0, result.out
    ((verdict, finding),) = findings(result, SHOP)
    assert verdict == "warn"
    assert "has no location named Goodyear AZ, so stock there is not sold" in finding
    execute(SET_LOCATIONS, json.dumps(dict.fromkeys(names, "gid://shopify/Location/1")))
    result = on_database("doctor", "--json")
    assert findings(result, "shops") == [("ok", "1 of 1 connected")]
    assert findings(result, SHOP) == []


def test_doctor_fails_for_a_token_that_the_key_cannot_decrypt(
    on_database: Headway, tmp_path: Path
) -> None:
    connect(on_database, tmp_path)
    result = on_database("doctor", "--json", HEADWAY_SECRET_KEY=Fernet.generate_key().decode())
    assert result.code == 1
    (verdict, finding), *_ = findings(result, SHOP)
    assert (verdict, finding.startswith("its token cannot be read")) == ("fail", True)
    assert "hunter2" not in result.out
    (tmp_path / "none" / "secret.key").unlink()
    (verdict, finding), *_ = findings(on_database("doctor", "--json"), SHOP)
    assert (verdict, finding.startswith("the key to its token is missing")) == ("fail", True)


def test_doctor_says_why_a_shop_is_disconnected(on_database: Headway, tmp_path: Path) -> None:
    connect(on_database, tmp_path)
    on_database("disconnect", "--seller", "acme", "--reason", "the shop is closed")
    result = on_database("doctor", "--json")
    assert result.code == 0, result.out
    ((verdict, finding),) = findings(result, SHOP)
    assert verdict == "warn"
    assert finding.startswith("disconnected (the shop is closed)")
    assert finding.endswith(CONNECT)


def test_doctor_fails_if_something_must_be_repaired(
    headway_in_process: Headway, tmp_path: Path
) -> None:
    (tmp_path / "headway.toml").write_text('HEADWAY_WEB_HOST = "127.0.0.1"\n')
    result = headway_in_process(
        "doctor", "--json", DATABASE_URL="postgresql://me:x@127.0.0.1:1/shop"
    )
    assert result.code == 1
    lines = {line["subject"]: line for line in result.object()["lines"]}
    assert lines["database"]["verdict"] == "fail"
    assert "does not answer" in lines["database"]["finding"]
    settings_by_name = {setting["name"]: setting for setting in result.object()["settings"]}
    assert settings_by_name["HEADWAY_WEB_HOST"]["source"] == "headway.toml"


def test_doctor_names_processes_with_other_settings_or_a_wrong_clock(
    on_database: Headway, pool: ConnectionPool
) -> None:
    assert findings(on_database("doctor", "--json"), "processes") == [
        ("ok", "none runs on this database now")
    ]
    mine = agreement(Settings(policy="adaptive"))
    late = VirtualClock(SystemClock().now() - timedelta(minutes=1))
    processes = Processes(pool)
    processes.see(Presence(verb="worker", settings=mine, host="one", pid=1), SystemClock())
    other = {**mine, "policy": "other", "markup": "other"}
    processes.see(Presence(verb="run", settings=other, host="two", pid=2, version="0"), late)
    result = on_database("doctor", "--json")
    assert result.code == 1
    hosts, versions, settings = findings(result, "processes")
    assert hosts == ("ok", "1 worker on one, 1 run on two")
    assert versions == ("warn", f"some run headway 0, here is {__version__}; upgrade them too")
    assert settings[0] == "fail"
    assert "run two:2 has other settings than here: policy, markup; two depl" in settings[1]
    off = [finding for _, finding in findings(result, "clock") if "of two" in finding]
    assert "-60." in off[0] or "-59." in off[0]


def test_an_upgrade_is_refused_while_incompatible_older_processes_run(
    on_database: Headway, pool: ConnectionPool, execute: Execute
) -> None:
    baseline = load()[0]
    breaking = max(step.version for step in load() if step.kind is not MigrationKind.PRE)
    on_database("db", "downgrade", "--to", "0", "--yes")
    table = re.search(r"CREATE TABLE processes \(.*?\);", baseline.up.decode(), re.DOTALL)
    assert table is not None
    execute(table.group())
    old = Presence(verb="worker", settings={}, host="one", pid=1, migrations_known=breaking - 1)
    Processes(pool).see(old, SystemClock())
    message = on_database("db", "upgrade").error(2)
    assert "worker one:1 runs headway" in message
    assert "--anyway" in message
    execute("DROP TABLE processes")
    assert on_database("db", "upgrade", "--json").object()["version"] == len(load())


def test_doctor_lists_the_known_settings_when_one_is_unknown(headway_in_process: Headway) -> None:
    result = headway_in_process("doctor", HEADWAY_ZEBRA="1")
    assert result.code == 1
    assert "unknown setting HEADWAY_ZEBRA" in result.out
    assert "SYNC_BACKOFF_BASE_HOURS" in result.out


def test_the_schema_is_upgraded_downgraded_and_its_version_reported(on_database: Headway) -> None:
    assert on_database("db", "status", "--json").object()["pending"] == []
    down = on_database("db", "downgrade", "--to", "0", "--yes", "--json").object()
    assert down["version"] == 0
    assert down["undone"]
    assert "run: headway db upgrade" in on_database("db", "status").out
    up = on_database("db", "upgrade", "--json").object()
    assert up["applied"] == list(reversed(down["undone"]))
    assert on_database("status").code == 0


def test_a_downgrade_is_refused_while_a_process_runs(
    on_database: Headway, pool: ConnectionPool
) -> None:
    running = Presence(verb="api", settings={}, host="one", pid=1)
    Processes(pool).see(running, SystemClock())
    message = on_database("db", "downgrade", "--to", "0", "--yes").error(2)
    assert "api one:1 would work on tables that are gone" in message
    assert on_database("db", "status", "--json").object()["pending"] == []
    assert on_database("db", "downgrade", "--to", "0", "--yes", "--anyway").code == 0


def test_a_downgrade_without_a_terminal_needs_yes(on_database: Headway) -> None:
    message = on_database("db", "downgrade", "--to", "0").error(2)
    assert "add --yes" in message
    assert on_database("status").code == 0


@pytest.mark.parametrize(("answer", "is_done"), ((b"n\n", False), (b"y\n", True)))
def test_a_downgrade_asks_for_confirmation_at_a_terminal(
    database: str,
    pool: ConnectionPool,
    answer: bytes,
    is_done: bool,  # noqa: FBT001 - a table
) -> None:
    terminal, stdin = pty.openpty()
    with subprocess.Popen(
        [Path(sys.executable).with_name("headway"), "db", "downgrade", "--to", "0"],
        env={**os.environ, "DATABASE_URL": database},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        os.write(terminal, answer)
        _, stderr = process.communicate()
    os.close(terminal)
    os.close(stdin)
    assert b"Go from migration" in stderr
    assert (process.returncode == 0) is is_done
    with pool.connection() as connection:
        row = connection.execute("SELECT to_regclass('product_sync_schedule') IS NULL").fetchone()
    assert row == (is_done,)


def test_commands_use_the_database_and_clock_of_a_running_headway(
    headway: Headway,
    postgres: EmbeddedServer,
    pool: ConnectionPool,
    execute: Execute,
    tmp_path: Path,
) -> None:
    clock = ScaledClock(60, start=datetime(2031, 5, 6, tzinfo=UTC))
    add(pool, "A", now=clock.now())
    execute(CALL, "00000000-0000-4000-8000-000000000001", *[clock.now()] * 4)
    execute("UPDATE call_ledger SET limit_key = 'boeing:demo'")
    name = pool.conninfo.rpartition("/")[2].partition("?")[0]
    starts = {"start": clock.start.isoformat(), "origin_s": clock.origin_s}
    announcement = {"database": name, "clock": {"speed": 60, **starts}, "boeing_client_id": "demo"}
    minutes = {"free": 120, "starter": 60, "growth": 60, "pro": 30}
    own = tmp_path / "own"
    postgres.announce(announcement | {"data_dir": str(own), "intervals_min": minutes})
    token = tmp_path / "token"
    token.write_text("hunter2")
    folder = {"HEADWAY_DATA_DIR": str(postgres.data_dir)}
    try:
        status = headway("status", "--json", **folder).object()
        connect = ("connect", SHOP, "--seller", "acme", "--no-check", "--token-file", str(token))
        assert headway(*connect, **folder).code == 0
        tier = headway("tier", "acme", "pro", "--json", **folder).object()
    finally:
        postgres.announce({})
    assert status["database"] == "the running Headway"
    assert status["overview"]["counts"]["total"] == 1
    assert status["overview"]["spent"]["day_count"] == 1, "the calls of the demo's own credential"
    assert datetime.fromisoformat(status["overview"]["now"]).year == 2031
    assert (own / "secret.key").exists(), "where the running one can read it"
    assert tier["interval_min"] == 30, "as often as the running one looks"


def test_a_command_migrates_the_embedded_database(headway: Headway, data_dir: Path) -> None:
    for command in ("db upgrade", "check --json"):
        result = headway(*command.split(), HEADWAY_DATA_DIR=str(data_dir))
        assert result.code == 0, result.err
    assert json.loads(result.out)["database"] == f"embedded in {data_dir}"
