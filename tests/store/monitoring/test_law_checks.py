"""Each law of the live check finds the row that breaks it, and nothing on a lawful database."""

import itertools
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.core.catalog.change_detection import Terms
from headway.core.catalog.guard import SellerSettings
from headway.core.catalog.lifecycle import FailureRule, Judge, Settlement
from headway.core.catalog.listings import Listing, Reply, SellerId, Sku
from headway.core.pauses import Pause, PauseKind
from headway.core.timetable.outages import LoggedCall, Outage, outages
from headway.core.timetable.policies import by_name
from headway.store.catalog.listings import Listings
from headway.store.monitoring.law_checks import LawChecks
from headway.store.pauses import Pauses
from headway.store.timetable.schedule import Schedule
from headway_lab.virtual_clock import VirtualClock

HOUR = timedelta(hours=1)
AGE_MAX = 25 * HOUR
CALL_ID = "00000000-0000-4000-8000-000000000000"
LEDGER = """
INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, lease_until, finished_at,
  status, result)
VALUES (gen_random_uuid(), 'boeing:', 'w', 1, %s, %s, %s, %s, %s)
"""
Run = Callable[..., None]


@pytest.fixture
def run(pool: ConnectionPool) -> Run:
    def execute(statement: str, *values: object) -> None:
        with pool.connection() as connection:
            connection.execute(statement, values)

    return execute


@pytest.fixture
def laws(pool: ConnectionPool, clock: VirtualClock) -> LawChecks:
    """The check, over a database with one listing of each of two sellers."""
    keys = [(SellerId("acme"), Sku("A=K3")), (SellerId("zenith"), Sku("B"))]
    Listings(pool).add(keys, policy=by_name("rolling"), now=clock.now())
    return LawChecks(pool)


STANDING = SellerSettings(terms=Terms(locations={"Miami FL": "Miami FL"}, currency="USD"))


def judge() -> Judge:
    return Judge(rule=FailureRule(), policy=by_name("rolling"))


def fail(pool: ConnectionPool, now: datetime, decide: Callable[[Listing], Settlement]) -> None:
    schedule = Schedule(pool)
    (taken,) = schedule.claim([Sku("A=K3")], now=now, owner="w", lease_until=now + HOUR)
    assert schedule.settle([decide(taken)], now=now, call_id=CALL_ID) == 0


def test_a_fresh_database_breaks_no_law(laws: LawChecks, clock: VirtualClock) -> None:
    now = clock.now()
    violations = [
        laws.leases(now), laws.lost(now), laws.doubled(), laws.blamed(), laws.harmful("USD"),
        laws.strays(now),
    ]  # fmt: skip
    assert [example.count for example in violations] == [0] * 6
    assert laws.ages(now, age_max=AGE_MAX, outages=[]).late.count == 0


def test_a_read_older_than_the_policy_allows_is_named(laws: LawChecks, clock: VirtualClock) -> None:
    late = laws.ages(clock.now() + 26 * HOUR, age_max=AGE_MAX, outages=[]).late
    assert late.count == 2
    assert late.examples[0] == "A=K3 of acme: last good read 2026-01-01 00:00 UTC"


def test_time_without_an_answer_excuses_a_late_read(laws: LawChecks, clock: VirtualClock) -> None:
    start = clock.now()
    silence = Outage(
        starts_at=start + HOUR, ends_at=start + 3 * HOUR, failed_calls=9, reason="down"
    )
    excused = laws.ages(start + 26 * HOUR, age_max=AGE_MAX, outages=[silence])
    assert (excused.late.count, excused.excused_count) == (0, 2)
    beyond = laws.ages(start + 28 * HOUR, age_max=AGE_MAX, outages=[silence])
    assert (beyond.late.count, beyond.excused_count) == (2, 0)


def test_a_part_that_was_just_asked_for_is_not_late_yet(
    laws: LawChecks, clock: VirtualClock, run: Run
) -> None:
    now = clock.now() + 26 * HOUR
    run("UPDATE product_sync_schedule SET priority = 'manual', next_sync_at = %s", now)
    assert laws.ages(now, age_max=AGE_MAX, outages=[]).late.count == 0
    assert laws.ages(now + 2 * HOUR, age_max=AGE_MAX, outages=[]).late.count == 2


def test_a_part_that_fails_by_itself_is_not_late(
    laws: LawChecks, clock: VirtualClock, run: Run
) -> None:
    run("UPDATE product_sync_schedule SET consecutive_failures = 1 WHERE sku = 'B'")
    ages = laws.ages(clock.now() + 26 * HOUR, age_max=AGE_MAX, outages=[])
    assert (ages.late.count, ages.failing_count, ages.sku_count) == (1, 1, 2)


def test_a_lease_that_nobody_freed_is_named(
    laws: LawChecks, pool: ConnectionPool, clock: VirtualClock
) -> None:
    now = clock.now()
    Schedule(pool).claim([Sku("B")], now=now, owner="fetch-7", lease_until=now)
    assert laws.leases(now + timedelta(minutes=4)).count == 0
    violations = laws.leases(now + timedelta(minutes=6))
    assert violations.count == 1
    assert violations.examples[0].startswith("B of zenith: lease of fetch-7 ran out")


def test_a_row_read_under_no_lease_is_named(laws: LawChecks, clock: VirtualClock, run: Run) -> None:
    run("ALTER TABLE product_sync_schedule DROP CONSTRAINT product_sync_schedule_lease")
    run("UPDATE product_sync_schedule SET sync_status = 'syncing' WHERE sku = 'B'")
    assert laws.leases(clock.now()).examples == ("B of zenith: is being read under no lease",)


@pytest.mark.parametrize(
    ("columns", "is_lawful"),
    (
        ("observed) VALUES ('acme', 'A=K3', '{}'", False),
        ("observed, held_reason) VALUES ('acme', 'A=K3', '{}', 'no price'", True),
        ("observed, desired, applied) VALUES ('acme', 'A=K3', '{}', '{}', '{}'", True),
        ("observed, desired) VALUES ('acme', 'A=K3', '{}', '{}'", False),
        ("desired, applied) VALUES ('acme', 'A=K3', '{}', '{\"price\": \"1\"}'", False),
        ("desired, push_at) VALUES ('acme', 'A=K3', '{}', now()", True),
        ("desired, held_reason) VALUES ('acme', 'A=K3', '{}', 'no price'", True),
        ("desired, desired_version, applied_version) VALUES ('acme', 'A=K3', '{}', 1, 2", False),
    ),
)
def test_what_was_seen_is_desired_or_held_and_what_is_desired_is_shown_or_pushed(
    laws: LawChecks,
    clock: VirtualClock,
    run: Run,
    columns: str,
    is_lawful: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    run(f"INSERT INTO listing_state (user_id, sku, {columns})")
    assert laws.lost(clock.now()).count == (0 if is_lawful else 1)


@pytest.mark.parametrize("shown", ("{}", '{"channels": []}'))
def test_a_part_that_is_not_visible_where_it_should_be_is_lost_unless_it_is_pushed(
    laws: LawChecks, clock: VirtualClock, run: Run, shown: str
) -> None:
    run(
        "INSERT INTO listing_state (user_id, sku, desired, applied)"
        f" VALUES ('acme', 'A=K3', '{{\"channels\": [\"Online Store\"]}}', '{shown}')"
    )
    violations = laws.lost(clock.now())
    assert violations.examples == (
        "A=K3 of acme: is not visible on its sales channels, and nothing is to publish it",
    )
    run("UPDATE listing_state SET push_at = now()")
    assert laws.lost(clock.now()).count == 0


@pytest.mark.parametrize(
    "reply",
    (
        Reply(quotes={}, missing=frozenset({Sku("A=K3")})),
        Reply(quotes={}, faulty={Sku("A=K3"): "the price is a banana"}),
    ),
)
def test_a_failure_with_evidence_about_the_sku_is_lawful(
    laws: LawChecks, pool: ConnectionPool, clock: VirtualClock, reply: Reply
) -> None:
    fail(pool, clock.now(), lambda taken: judge().settle(taken, reply, clock.now(), STANDING))
    assert laws.blamed().count == 0


def test_a_sku_convicted_by_bisection_is_lawful(
    laws: LawChecks, pool: ConnectionPool, clock: VirtualClock
) -> None:
    error = "every call with this SKU fails: HTTP 500"  # as `engine.fetch` words it
    fail(pool, clock.now(), lambda taken: judge().charge(taken, clock.now(), error))
    assert laws.blamed().count == 0


def test_a_failure_that_only_a_call_had_is_named(
    laws: LawChecks, pool: ConnectionPool, clock: VirtualClock
) -> None:
    fail(pool, clock.now(), lambda taken: judge().charge(taken, clock.now(), "timed out"))
    assert laws.blamed().examples == ("A=K3 of acme: 1 failures, none with evidence",)


def test_more_failures_than_evidence_are_named(
    laws: LawChecks, pool: ConnectionPool, clock: VirtualClock, run: Run
) -> None:
    reply = Reply(quotes={}, missing=frozenset({Sku("A=K3")}))
    fail(pool, clock.now(), lambda taken: judge().settle(taken, reply, clock.now(), STANDING))
    run("UPDATE product_sync_schedule SET consecutive_failures = 4 WHERE sku = 'A=K3'")
    assert laws.blamed().examples == ("A=K3 of acme: 4 failures, evidence for 1",)


def test_a_parked_listing_without_evidence_is_named(laws: LawChecks, run: Run) -> None:
    run(
        "UPDATE product_sync_schedule SET sync_status = 'parked', is_active = false WHERE sku = 'B'"
    )
    assert laws.blamed().count == 1


@pytest.mark.parametrize(
    ("desired", "is_lawful"),
    (
        ('{"price": "10.50", "currency": "USD"}', True),
        ('{"price": "100", "currency": "USD"}', True),
        ('{"price": "0.00", "currency": "USD"}', False),
        ('{"price": "-1.00", "currency": "USD"}', False),
        ('{"price": "NaN", "currency": "USD"}', False),
        ('{"price": null, "currency": "USD"}', False),
        ('{"currency": "USD"}', False),
        ('{"price": "10.50", "currency": "EUR"}', False),
        ('{"price": "10.50"}', False),
    ),
)
def test_a_price_no_shop_may_show_is_named(
    laws: LawChecks,
    run: Run,
    desired: str,
    is_lawful: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    run("INSERT INTO listing_state (user_id, sku, desired) VALUES ('acme', 'A=K3', %s)", desired)
    assert laws.harmful("USD").count == (0 if is_lawful else 1)


@pytest.mark.parametrize(
    ("applied", "is_lawful"),
    (('{"price": "1.00"}', True), ('{"price": null}', True), ("{}", True),
     ('{"price": "0.00"}', False), ('{"price": "-1.00"}', False)),
)  # fmt: skip
def test_a_price_of_nothing_in_the_shop_is_named_unless_a_person_is_to_decide(
    laws: LawChecks,
    run: Run,
    applied: str,
    is_lawful: bool,  # noqa: FBT001 - a parameter of the table
) -> None:
    run("INSERT INTO listing_state (user_id, sku, applied) VALUES ('acme', 'A=K3', %s)", applied)
    assert laws.harmful("USD").count == (0 if is_lawful else 1)
    run("UPDATE listing_state SET held_reason = 'the price would move from 0 to 9'")
    assert laws.harmful("USD").count == 0


ACCOUNT = "00000000-0000-4000-8000-00000000000a"
INTENT = """
INSERT INTO push_intent (id, account_id, user_id, kind, fence, skus, writes, state, created_at,
  closed_at)
VALUES (gen_random_uuid(), %s, 'acme', %s, %s, %s, '[]', %s, %s, %s)
"""


@pytest.fixture
def intend(laws: LawChecks, clock: VirtualClock, run: Run) -> Run:
    """Store an intent of acme's shop."""
    run(
        "INSERT INTO connected_accounts (id, user_id, platform, shop, push_started_at)"
        " VALUES (%s, 'acme', 'shopify', 'acme.myshopify.com', %s)",
        ACCOUNT,
        clock.now(),
    )
    run("INSERT INTO listing_state (user_id, sku) VALUES ('acme', 'A=K3')")
    fences = itertools.count(1)

    def store(
        kind: str = "price", *, sku: str = "A=K3", fence: int | None = None, is_open: bool = True
    ) -> None:
        now = clock.now()
        state, closed_at = ("open", None) if is_open else ("done", now)
        run(INTENT, ACCOUNT, kind, fence or next(fences), [sku], state, now, closed_at)

    return store


def test_a_write_to_a_shop_that_nobody_has_started_is_named(
    laws: LawChecks, intend: Run, run: Run
) -> None:
    intend("price", is_open=False)
    assert laws.harmful("USD").count == 0
    run("UPDATE connected_accounts SET push_started_at = NULL")
    violations = laws.harmful("USD")
    assert violations.count == 1
    assert violations.examples[0].endswith("UTC to a shop that nobody had started")


def test_a_write_that_nobody_looked_after_for_a_day_is_named(
    laws: LawChecks, clock: VirtualClock, intend: Run, run: Run
) -> None:
    intend("price")
    intend("bulk")
    intend("stock", is_open=False)
    now = clock.now()
    assert laws.lost(now + 23 * HOUR).count == 0
    violations = laws.lost(now + 25 * HOUR)
    assert violations.count == 1
    assert violations.examples[0].startswith(
        "A=K3 of acme: its price was sent at 2026-01-01 00:00 UTC"
    )
    run("UPDATE connected_accounts SET status = 'disconnected'")
    assert laws.lost(now + 25 * HOUR).count == 0


def test_a_second_write_while_the_first_is_unsure_is_named(laws: LawChecks, intend: Run) -> None:
    intend("price")
    intend("stock")
    intend("bulk", sku="B")
    intend("stock", is_open=False)
    assert laws.doubled().count == 0
    intend("activate")
    intend("price", sku="B")
    assert laws.doubled().examples == (
        "A=K3 of acme: 2 open intents write its stock",
        "B of acme: 2 open intents write its price",
    )


def test_two_writes_on_one_visit_are_named(laws: LawChecks, intend: Run) -> None:
    intend("price", fence=7, is_open=False)
    intend("stock", fence=7, is_open=False)
    assert laws.doubled().examples == ("A=K3 of acme: 2 writes were sent in one push",)


def test_a_write_for_a_part_that_the_seller_does_not_list_is_named(
    laws: LawChecks, clock: VirtualClock, intend: Run
) -> None:
    intend("price")
    assert laws.strays(clock.now()).count == 0
    intend("price", sku="B", is_open=False)
    violations = laws.strays(clock.now())
    assert violations.examples == (
        "B of acme: was written to the shop of acme, who does not list it",
    )
    assert laws.strays(clock.now() + 25 * HOUR).count == 0


def test_a_shop_that_nobody_took_over_is_named(
    laws: LawChecks, clock: VirtualClock, intend: Run, run: Run
) -> None:
    now = clock.now()
    run("UPDATE connected_accounts SET push_owner = 'push-3', push_lease_until = %s", now)
    assert laws.leases(now + timedelta(minutes=9)).count == 0
    violations = laws.leases(now + timedelta(minutes=11))
    assert violations.examples[0].startswith("acme.myshopify.com of acme: lease of push-3 ran out")


def test_a_state_of_another_seller_is_named(laws: LawChecks, clock: VirtualClock, run: Run) -> None:
    run("ALTER TABLE listing_state DROP CONSTRAINT listing_state_user_id_sku_fkey")
    run("INSERT INTO listing_state (user_id, sku) VALUES ('zenith', 'A=K3')")
    assert laws.strays(clock.now()).count == 1


def test_many_offenders_are_counted_and_a_few_are_named(
    laws: LawChecks, pool: ConnectionPool, clock: VirtualClock
) -> None:
    keys = [(SellerId("acme"), Sku(f"P{number}")) for number in range(40)]
    Listings(pool).add(keys, policy=by_name("rolling"), now=clock.now())
    late = laws.ages(clock.now() + 26 * HOUR, age_max=AGE_MAX, outages=[]).late
    assert (late.count, len(late.examples)) == (42, 5)


def test_the_ledger_distinguishes_answered_calls_from_unanswered_ones(
    laws: LawChecks, clock: VirtualClock, run: Run
) -> None:
    start = clock.now()
    lines: Sequence[tuple[str, str | None]] = (
        ("sent", "ok"),
        ("sent", "HTTP 500"),
        ("unsent", "oauth"),
        ("unsent", "no connection"),
        ("unsent", None),
        ("lost", None),
        ("sent", "part_token"),
        ("sent", "timed out"),
    )
    for minute, (status, result) in zip(itertools.count(), lines):
        at = start + timedelta(minutes=minute)
        run(LEDGER, at, at, at, status, result)
    outage_list = outages(laws.calls("boeing:", since=start), start + HOUR)
    spans = [
        (example.starts_at - start, example.ends_at - start, example.failed_calls)
        for example in outage_list
    ]
    minute = timedelta(minutes=1)
    assert spans == [(minute, 6 * minute, 2), (7 * minute, HOUR, 1)]


def test_a_supplier_that_always_answers_had_no_outage(clock: VirtualClock) -> None:
    now = clock.now()
    assert outages([LoggedCall(begun_at=now, finished_at=now, result="ok")], now) == []


def test_what_was_paused_is_not_late_before_it_had_the_same_time_again(
    laws: LawChecks, pool: ConnectionPool, clock: VirtualClock
) -> None:
    start, pauses, of_acme = clock.now(), Pauses(pool), {"seller": SellerId("acme")}

    def late(hours: float) -> list[str]:
        late_listings = laws.ages(start + hours * HOUR, age_max=AGE_MAX, outages=[]).late
        return [example.split()[2][:-1] for example in late_listings.examples]

    paused = Pause(kind=PauseKind.SELLER, since=start + HOUR, until=start + 9 * HOUR, **of_acme)
    pauses.pause(paused, start + HOUR)
    assert late(26) == ["zenith"], "acme's are marked still"
    pauses.reconcile(start + 10 * HOUR)
    assert late(26) == ["zenith"]
    assert late(34) == ["acme", "zenith"]
    pauses.pause(Pause(kind=PauseKind.ALL, since=start + 30 * HOUR), start + 30 * HOUR)
    pauses.resume(PauseKind.ALL, now=start + 33 * HOUR)
    assert late(34) == ["zenith"], "eight hours and three"
    assert late(37) == ["acme", "zenith"]


def test_two_pauses_at_once_excuse_the_time_once(
    laws: LawChecks, pool: ConnectionPool, clock: VirtualClock
) -> None:
    start, pauses = clock.now(), Pauses(pool)
    for kind in (PauseKind.ALL, PauseKind.SUPPLIER):
        pauses.pause(Pause(kind=kind, since=start, until=start + 2 * HOUR), start)
    pauses.reconcile(start + 2 * HOUR)
    assert laws.ages(start + 26 * HOUR, age_max=AGE_MAX, outages=[]).late.count == 0
    assert laws.ages(start + 28 * HOUR, age_max=AGE_MAX, outages=[]).late.count == 2
