"""Every query and action of the command line prints the same locally and against a server.

Each command runs on two equal databases, which stay equal as long as it does the same on both.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.both import LocalAndRemote
from tests.operations.sample import (
    ACME,
    BEST,
    BEST_ONLY,
    HELD,
    HELD_REMOVALS,
    ODD_SKUS,
    PARKED,
    REFUSED,
    SHARED,
)

# The id of a batch is new each time; nothing else may differ.
BATCH = re.compile(r'(batch |"batch_id": ")[0-9a-f-]{36}')
DEAD = "UPDATE sync_jobs SET status = 'dead', next_run_at = NULL, last_error = 'no' WHERE kind = %s"
QUERIES = [
    ["explain", HELD],
    ["explain", SHARED],
    ["explain", SHARED, "--seller", BEST],
    ["explain", "acme/etsy/orders"],
    ["held"],
    ["held", "--seller", ACME, "--limit", "1"],
    ["jobs"],
    ["jobs", "--seller", ACME, "--platform", "etsy", "--limit", "2"],
    ["quota"],
    ["plan", "--sellers", "100"],
    ["parts"],
    ["parts", "338109"],
    ["parts", "--state", "parked", "--seller", ACME, "--limit", "1"],
    ["parts", "no such"],
    ["history", HELD],
    ["history", HELD, "--kind", "price_changed", "--limit", "1"],
    ["history", SHARED],
    ["alerts"],
    ["limits"],
    ["limits", "boeing"],
    ["limits", "boeing", "--since", "2h", "--limit", "1"],
    ["pause"],
    ["sessions"],
    ["shops"],
    ["removals"],
    ["removals", ACME],
    ["rehearse", ACME, "--no-read"],
    ["rehearse", ACME, "--no-read", "--all"],
    ["shops", "--seller", ACME],
    ["tier", ACME],
    ["accounts", "list"],
    ["accounts", "list", "--seller", ACME, "--platform", "etsy"],
    ["sellers", "list"],
    ["records", "list", "listings"],
    ["records", "list", "listings", "--seller", ACME, "--limit", "3"],
    ["records", "export", "listings", "--seller", BEST],
    ["sellers", "show", ACME],
    ["group", ACME],
    ["terms"],
    ["terms", ACME],
    *(["explain", sku] for sku in ODD_SKUS),
]
ACTIONS = {
    "deciding": [
        ["rollback", HELD, "--to", "2h", "--dry-run"],
        ["rollback", HELD, "--to", "2h", "--reason", "too early"],
        ["rollback", "--since", "3h", "--to", "4h", "--seller", ACME, "--yes"],
        ["approve", BEST_ONLY],
        ["approve", HELD, "--reason", "the new list"],
        ["reject", BEST_ONLY, "--seller", BEST],
        ["approve", "--all", "--reason", "all of it"],
        ["revive", REFUSED],
        ["revive", PARKED],
        ["revive", "--all"],
    ],
    "all that is held": [["approve", "--all", "--reason", "yes", "--seller", ACME]],
    "the timetable": [
        ["move", HELD, BEST_ONLY, *ODD_SKUS, "--hour", "6", "--minute", "30"],
        ["move", HELD, "--priority", "5"],
        ["move", HELD, PARKED, "--auto"],
    ],
    "pausing": [
        ["pause", HELD, BEST_ONLY, "--reason", "recalled"],
        ["pause", "--seller", ACME, "--until", "2h"],
        ["pause", "--all"],
        ["pause"],
        ["resume", "--all", "--reason", "over"],
        ["resume", HELD],
        ["resume", "--supplier"],
        ["trigger", HELD, PARKED, "--reason", "a customer asks"],
    ],
    "terms and connections": [
        ["terms", ACME, "--basis", "net", "--markup", "12%"],
        ["terms", ACME, "--reset"],
        ["disconnect", "--seller", ACME, "--reason", "closed"],
        ["disconnect", "--seller", ACME, "--platform", "etsy"],
        ["backfill"],
        ["backfill", "--seller", ACME],
    ],
    "shops of one owner": [
        ["group", "acme/eu", "--with", ACME],
        ["publish", "NEW/1=2", "--seller", BEST, "--seller", "acme/eu"],
        ["group", "acme/eu", "--alone"],
    ],
    "what sellers pay for": [["tier", ACME, "pro"], ["tier", BEST, "starter"]],
    "jobs": [
        ["revive", "acme/etsy/orders", "best/etsy/orders"],
        ["pull", ACME, "--kind", "listings"],
        ["pull", ACME],
    ],
    "held removals": [
        ["removals"],
        ["removals", ACME, "--platform", "etsy", "--confirm", "15", "--reason", "cleared"],
        ["removals", BEST, "--platform", "etsy", "--dismiss", "15"],
        ["removals"],
    ],
    # One part: two requested at the same instant are read in the order of their random ids.
    "publishing": [["publish", "NEW/1=2", "--seller", BEST]],
}
REFUSALS = [
    ["shops", "--seller", "nobody"],
    ["removals", "nobody"],
    ["removals", ACME, "--confirm", "15"],
    ["removals", ACME, "--platform", "etsy", "--confirm", "15", "--dismiss", "15"],
    ["removals", ACME, "--platform", "etsy", "--confirm", "14"],
    ["removals", ACME, "--platform", "shopify", "--confirm", "15"],
    ["rehearse", "nobody"],
    ["rehearse", ACME, "--start", "yesterday"],
    ["tier", "nobody"],
    ["tier", "nobody", "pro"],
    ["group", "nobody"],
    ["group", ACME, "--with", ACME],
    ["group", ACME, "--with", BEST, "--alone"],
    ["terms", "nobody"],
    ["terms", "nobody", "--markup", "12%"],
    ["supplier", "give", "main", "--seller", "nobody"],
    ["terms", "--markup", "12%"],
    ["terms", ACME, "--markup", "2000000%"],
    ["disconnect", "--seller", "nobody"],
    ["record", "shop", "--seller", "nobody", "--out", "never-written.jsonl"],
    ["record", "supplier", "P1", "--name", "nobody", "--out", "never-written.jsonl"],
    ["disconnect", "--seller", ACME, "--platform", "printify"],
    ["tier", " "],
    ["key", "revoke", "nobody"],
    ["sessions", "end", "6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11"],
    ["sessions", "end", "--name", "nobody"],
    ["sessions", "end"],
    ["history", "NO-SUCH"],
    ["history", HELD, "--seller", BEST],
    ["parts", "--seller", "nobody"],
    ["limits", "nothing"],
    ["audit", "--seller", "nobody"],
    ["audit", "--since", "2999-01-01"],
    ["explain", "WF338109=K4"],
    ["explain", "SHARED", "--seller", "nobody"],
    ["explain", "acme/etsy/nothing"],
    ["held", "--seller", "nobody"],
    ["jobs", "--seller", "acne"],
    ["approve", SHARED],
    ["approve", HELD, "NO-SUCH"],
    ["reject", BEST_ONLY, "--seller", ACME],
    ["rollback", HELD, "--to", "2999-01-01"],
    ["rollback", "--since", "3h", "--to", "4h"],
    ["rollback", "--since", "3h", "--to", "4h", "--seller", "nobody"],
    ["revive", "acme/shopify/listings"],
    ["revive", "acme/etsy/orders", "acme/shopify/listings"],
    ["move", HELD, SHARED, "--hour", "6"],
    ["move", HELD, "NO-SUCH", "--hour", "6"],
    ["pause", SHARED],
    ["pause", "--seller", "nobody"],
    ["pause", "--all", "--until", "2001-01-01"],
    ["resume", "NO-SUCH"],
    ["trigger", HELD, "NO-SUCH"],
    ["pull", "nobody"],
    ["publish", "NEW"],
    ["publish", "NEW", "--seller", "nobody"],
]


def run_both(both: LocalAndRemote, *command: str) -> Any:
    """Run a command both ways; return its result, which must be equal except for batch ids."""
    local, remote = both.local(*command), both.remote(*command)
    expected, actual = (BATCH.sub("", result.out).splitlines() for result in (local, remote))
    assert actual == expected, command
    assert (remote.code, remote.err) == (local.code, local.err), command
    return local


SESSION = (
    "INSERT INTO sessions (id, hash, name, role, created_at, expires_at, last_seen_at, address)"
    " VALUES (%s, sha256(%s), 'ada', 'operator', %s, '2999-01-01', '2026-03-04', 'here')"
)


def test_sessions_and_keys_are_listed_and_ended_the_same(both: LocalAndRemote) -> None:
    ids = [f"6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c1{last}" for last in range(3)]
    for session_id in ids:
        both.write(SESSION, session_id, session_id, "2026-03-01")
    for form in ((), ("--json",)):
        assert ids[0] in run_both(both, "sessions", *form).out
    assert "1 session ended" in run_both(both, "sessions", "end", ids[0]).out
    assert "2 sessions ended" in run_both(both, "sessions", "end", "--name", "ada").out
    assert run_both(both, "sessions").out == "nobody is logged in\n"
    made = both.remote("key", "create", "ci", "--role", "reader", "--json").object()
    listed = both.remote("key", "list", "--json")
    assert {key["name"] for key in listed.object()} == {"cli", "ci"}
    assert made["key"] not in listed.out
    revoked = both.remote("key", "revoke", made["prefix"], "--json").object()
    assert (revoked["id"], revoked["revoked_at"] is None) == (made["id"], False)
    message = both.remote("sessions", "--server", both.url, "end", "--name", "ada").error(2)
    assert "write options after the word" in message


def test_a_shop_is_connected_the_same_and_no_token_is_shown(
    both: LocalAndRemote, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("shpat_0123456789abcdef\n", encoding="utf-8")
    shop = ["connect", "acme.myshopify.com", "--seller", ACME, "--token-file", str(file)]
    for form in ((), ("--json",)):
        result = run_both(both, *shop, "--no-check", *form)
        assert result.code == 0, result.err
        assert "shpat" not in result.out + result.err
    app = [*shop[:-2], "--client-id", "app7", "--client-secret-file", str(file), "--no-check"]
    for form in ((), ("--json",)):
        result = run_both(both, *app, *form)
        assert result.code == 0, result.err
        assert "shpat" not in result.out + result.err
    assert "token" in run_both(both, *shop[:-2], "--no-check").error(2)
    assert "L13" in run_both(both, "check").out
    link = both.remote("key", "link", "--role", "reader", "--json").object()
    assert link["link"].startswith(f"{both.url}/login/")


def test_a_query_prints_the_same(both: LocalAndRemote) -> None:
    for command in QUERIES:
        for form in ((), ("--json",)):
            result = run_both(both, *command, *form)
            assert result.code == 0, result.err
            assert result.out, command


def test_the_status_is_the_same_except_for_the_name_of_the_database(both: LocalAndRemote) -> None:
    for form in ((), ("--json",)):
        local, remote = both.local("status", *form), both.remote("status", *form)
        assert local.code == 0, local.err
        here = "the running Headway"
        assert remote.out.replace(both.url, here).splitlines() == local.out.splitlines()


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=list(ACTIONS))
@pytest.mark.parametrize("form", ((), ("--json",)), ids=("text", "json"))
def test_an_action_does_and_prints_the_same(
    both: LocalAndRemote, actions: list[list[str]], form: tuple[str, ...]
) -> None:
    both.write(DEAD, "orders")
    both.write(HELD_REMOVALS)
    for command in actions:
        result = run_both(both, *command, *form)
        assert result.code in {0, 1}, result.err
    for query in (["held"], ["jobs"], ["explain", HELD], ["explain", PARKED]):
        run_both(both, *query)


def test_errors_are_the_same_and_change_nothing(both: LocalAndRemote) -> None:
    both.write(DEAD, "orders")
    both.write(HELD_REMOVALS)
    queries = (["held"], ["jobs"], ["explain", HELD], ["explain", "acme/etsy/orders"])
    before = [run_both(both, *query).out for query in queries]
    for command in REFUSALS:
        assert run_both(both, *command).error(2)
    assert [run_both(both, *query).out for query in queries] == before
