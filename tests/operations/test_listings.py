"""The desk: the same verbs for everybody, and nothing of another seller behind a wall."""

from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.operations.room import ACME, BEST, HELD, HOUR, ODD, PARKED, SHARED, THEIRS, Room, furnish

from headway.core.accounts.jobs import JobStatus, PlatformName, Tier
from headway.core.catalog.listings import SellerId, Sku
from headway.core.pauses import PauseKind
from headway.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from headway_lab.virtual_clock import VirtualClock


@pytest.fixture
def room(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Room:
    return furnish(pool, clock, tmp_path)


def test_a_part_is_explained_for_each_seller_who_lists_it(room: Room) -> None:
    assert {each.seller for each in room.operations().explain(SHARED)} == {ACME, BEST}
    (own,) = room.operations(ACME).explain(SHARED)
    assert own.seller == ACME
    assert own.explanation.sentence
    assert own.timetable


def test_the_place_in_the_queue_counts_everybody_behind_a_wall_too(room: Room) -> None:
    (whole,) = room.operations().explain(THEIRS)
    (own,) = room.operations(BEST).explain(THEIRS)
    assert own == whole


def test_behind_a_wall_another_sellers_part_is_not_known(room: Room) -> None:
    for look in (room.operations(ACME).explain, lambda sku: room.operations(ACME).reject([sku])):
        with pytest.raises(NotFoundError) as trouble:
            look(THEIRS)
        assert "no listing has the part number" in str(trouble.value)
        assert "best" not in str(trouble.value)


def test_a_slip_in_spelling_never_suggests_another_sellers_part(room: Room) -> None:
    with pytest.raises(NotFoundError, match="did you mean BEST=1"):
        room.operations().explain(Sku("BEST=2"))
    with pytest.raises(NotFoundError, match="check how it is spelled"):
        room.operations(ACME).explain(Sku("BEST=2"))


def test_a_part_of_several_sellers_needs_a_name(room: Room) -> None:
    with pytest.raises(InvalidError, match="listed by acme, best"):
        room.operations().reject([SHARED])
    (ruling,) = room.operations().reject([SHARED], seller=BEST)
    assert (ruling.user_id, ruling.is_done) == (BEST, False)


def test_held_changes_are_ones_own_and_go_on_from_a_cursor(room: Room) -> None:
    assert [each.sku for each in room.operations(BEST).held(limit=9)] == [THEIRS]
    first, second = room.operations().held(limit=9)
    assert room.operations().held(limit=9, cursor=first.cursor) == [second]
    with pytest.raises(InvalidError, match="begin without one"):
        room.operations().held(limit=9, cursor="tampered")


def test_approving_everything_needs_a_reason_and_stays_within_the_wall(room: Room) -> None:
    with pytest.raises(InvalidError, match="say why"):
        room.operations(ACME).approve_all(reason=" ")
    (ruling,) = room.operations(ACME).approve_all(reason="yearly price list")
    assert (ruling.sku, ruling.is_done) == (HELD, True)
    assert [each.sku for each in room.operations().held(limit=9)] == [THEIRS]


def test_a_rollback_goes_back_in_time_only_and_a_batch_needs_one_seller(room: Room) -> None:
    operations, now = room.operations(), room.clock.now()
    with pytest.raises(InvalidError, match="has not come yet"):
        operations.rollback([HELD], to=now + HOUR)
    with pytest.raises(InvalidError, match="needs a seller"):
        operations.rollback_since(now - HOUR, to=now - 2 * HOUR)
    assert room.operations(ACME).rollback_since(now - HOUR, to=now - 2 * HOUR, dry_run=True) == []


def test_everything_parked_is_revived_within_the_wall(room: Room) -> None:
    assert room.operations(BEST).revive_all() == []
    (ruling,) = room.operations().revive_all()
    assert (ruling.sku, ruling.is_done) == (PARKED, True)


def test_parts_are_published_into_ones_own_shop_and_followed_by_their_batch(room: Room) -> None:
    batch = room.operations(BEST).publish(["NEW/1", "NEW=2"])
    assert [each.sku for each in batch.parts] == ["NEW/1", "NEW=2"]
    assert {each.place for each in batch.parts} == {1, 2}
    assert room.operations().batch(batch.batch_id).parts == batch.parts
    with pytest.raises(NotFoundError):
        room.operations(ACME).batch(batch.batch_id)
    with pytest.raises(NotFoundError):
        room.operations().batch("nonsense")


def test_jobs_are_ones_own_in_every_look_and_verb(room: Room) -> None:
    own, whole = room.operations(ACME), room.operations()
    assert {each.user_id for each in own.lane.jobs(limit=500)} == {ACME}
    assert {each.user_id for each in own.lane.jobs(seller=BEST, limit=500)} == {ACME}
    (theirs, *_) = whole.lane.jobs(seller=BEST, limit=500)
    for look in (own.lane.job, own.lane.run, lambda name: own.lane.revive([name])):
        for name in (theirs.id, theirs.name, "nonsense"):
            with pytest.raises(NotFoundError) as trouble:
                look(name)
            assert "best" not in str(trouble.value)
    with pytest.raises(NotFoundError):
        own.lane.account_jobs(theirs.account_id)
    assert {each.account_id for each in whole.lane.account_jobs(theirs.account_id)} == {
        theirs.account_id
    }
    with pytest.raises(NotFoundError, match="best has best/"):
        whole.lane.job("best/printify/orders")


def test_jobs_are_made_due_and_revived_by_name(room: Room) -> None:
    operations = room.operations(ACME)
    room.ask("UPDATE sync_jobs SET next_run_at = next_run_at + interval '9 hours'")
    pulled = operations.lane.pull(ACME, platform=PlatformName.ETSY)
    made = [each for each in pulled.jobs if each.id in pulled.made_due]
    assert {each.platform for each in made} == {PlatformName.ETSY}
    assert operations.lane.run("acme/shopify/orders").due_at == room.clock.now()
    with pytest.raises(ConflictError, match="is not dead"):
        operations.lane.revive(["acme/shopify/orders"])
    room.ask("UPDATE sync_jobs SET status = 'dead', next_run_at = NULL WHERE id = %s", made[0].id)
    (revived,) = operations.lane.revive([made[0].name])
    assert revived.status is JobStatus.QUEUED


def test_accounts_are_ones_own(room: Room) -> None:
    assert {each.user_id for each in room.operations(ACME).lane.accounts(limit=50)} == {ACME}
    assert {
        each.user_id for each in room.operations(ACME).lane.accounts(seller=BEST, limit=50)
    } == {ACME}
    assert {each.user_id for each in room.operations().lane.accounts(limit=50)} == {ACME, BEST}


@pytest.mark.parametrize("sku", ODD)
def test_an_odd_part_number_is_as_good_as_any(room: Room, sku: Sku) -> None:
    (found,) = room.operations().explain(sku)
    assert (found.sku, found.seller) == (sku, SellerId("acme"))
    assert found.due_at - room.clock.now() < timedelta(days=1)


def test_a_sellers_status_holds_nothing_of_another(room: Room) -> None:
    room.add(BEST, "BEST/2")
    room.event(BEST, THEIRS, "sync_failed", error_message="broken")
    room.ask("UPDATE product_sync_schedule SET consecutive_failures = 2 WHERE sku = %s", THEIRS)
    seen, whole = room.operations(ACME).status(), room.operations().status()
    text = str(seen)
    assert str(THEIRS) in str(whole)
    for word in ("best", str(THEIRS), "BEST/2"):
        assert word not in text
    assert (seen.counts.total, whole.counts.total) == (13, 16)
    assert seen.counts.parked == 1
    assert [each.sku for each in seen.storefront.held] == [HELD]
    assert [each.sku for each in seen.storefront.failing] == ["P-3"]
    assert [each.sku for each in seen.trouble] == [PARKED]
    assert {each.user_id for each in seen.accounts.accounts} == {ACME}
    assert {each.user_id for each in seen.accounts.queue} == {ACME}
    assert (seen.calls, seen.calls_per_hour, seen.accounts.budgets) == ((), (), ())


def test_a_seller_sees_the_call_leave_and_of_others_seats_the_turn_alone(room: Room) -> None:
    room.ask("UPDATE product_sync_schedule SET next_sync_at = %s", room.clock.now())
    room.ask(
        "UPDATE product_sync_schedule SET priority = 'manual' WHERE sku = ANY(%s)", [THEIRS, SHARED]
    )
    whole, seen = room.operations().status().next_call, room.operations(ACME).status().next_call
    assert (seen.leaves_at, seen.why) == (whole.leaves_at, whole.why)
    assert [each.priority for each in seen.seats] == [each.priority for each in whole.seats]
    theirs = [each for each in seen.seats if each.user_id is None]
    assert [(each.sku, each.priority, each.due_at) for each in theirs] == [(None, "manual", None)]
    # A part that both list rides in one seat, and either knows it.
    for seller in (ACME, BEST):
        seats = room.operations(seller).status().next_call.seats
        assert (SHARED, seller) in {(each.sku, each.user_id) for each in seats}


def test_what_is_wrong_is_told_within_the_wall(room: Room) -> None:
    room.ask(
        "UPDATE connected_accounts SET status = 'disconnected', reason = 'revoked'"
        " WHERE user_id = 'best' AND platform = 'etsy'"
    )
    whole = {(each.name, each.seller) for each in room.operations().alerts()}
    assert {("held", None), ("parked", None), ("refused_by_shop", None)} <= whole
    assert ("disconnected", BEST) in whole
    own = room.operations(ACME).alerts()
    assert "best" not in str(own)
    assert {(each.name, each.count) for each in own} == {
        ("held", 1),
        ("parked", 1),
        ("refused_by_shop", 1),
    }


def test_a_grant_that_ends_soon_is_told_to_its_own_seller(room: Room) -> None:
    ends_at = room.clock.now() + timedelta(days=3)
    limit_keys = ("etsy:shop:102", "shopify:app:best.myshopify.com")
    for limit_key in limit_keys:
        for name, at in (("access", room.clock.now()), ("refresh", ends_at)):
            room.ask("INSERT INTO credential VALUES (%s, %s, 'x', %s)", limit_key, name, at)
    told = [each for each in room.operations(BEST).alerts() if each.name == "token_expiring"]
    assert {each.sentence.partition(" of best")[0] for each in told} == {
        "The grant of etsy 102",
        "The grant of shopify best.myshopify.com",
    }
    assert not [each for each in room.operations(ACME).alerts() if each.name == "token_expiring"]
    room.ask(
        "UPDATE credential SET expires_at = %s WHERE name = 'refresh'", ends_at + timedelta(days=9)
    )
    assert not [each for each in room.operations(BEST).alerts() if each.name == "token_expiring"]


def test_limits_are_named_without_the_apps_own_ids(room: Room) -> None:
    operations, limiter = room.operations(), room.app.limiter
    limiter.create(
        [
            "boeing:",
            "etsy:",
            "etsy::second",
            "shopify:app:acme.myshopify.com",
            "printify:200",
            "shopify:another-app:acme.myshopify.com",
        ]
    )
    names = ["boeing", "etsy:day", "etsy:second", "printify:200", "shopify:acme.myshopify.com"]
    found = operations.limits(limit=50)
    assert [each.name for each in found] == names
    after = operations.limits(limit=50, cursor=found[3].cursor)
    assert [each.name for each in after] == names[4:]
    next_one = operations.limits(limit=1, cursor=found[3].cursor)
    assert [each.name for each in next_one] == names[4:], "past a key that has no name"
    with pytest.raises(InvalidError, match="cursor"):
        operations.limits(limit=50, cursor="printify:200")
    assert operations.limits(limit=1)[0].gauges[0].limit == 2
    with pytest.raises(NotFoundError):
        operations.ledger("ebay", limit=1)


def test_the_ledger_is_read_from_the_newest_call_on(room: Room) -> None:
    now = room.clock.now()
    for minute in range(3):
        room.ask(
            "INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, lease_until,"
            " skus)"
            " VALUES (gen_random_uuid(), 'boeing:', 'test', 1, %s, %s, '{A=B}')",
            *(now + minute * timedelta(minutes=1), now + HOUR),
        )
    operations = room.operations()
    first, second, third = operations.ledger("boeing", limit=9)
    assert (first.begun_at, first.skus) == (now + timedelta(minutes=2), ("A=B",))
    assert operations.ledger("boeing", limit=9, cursor=first.cursor) == [second, third]
    assert operations.ledger("boeing", limit=9, until=second.begun_at) == [third]
    assert operations.ledger("boeing", limit=9, since=second.begun_at) == [first, second]


def test_a_seller_cannot_end_or_shorten_what_an_operator_paused(room: Room) -> None:
    own, operators = room.operations(ACME), room.operations()
    soon = room.clock.now() + timedelta(minutes=1)
    operators.pause(PauseKind.SELLER, seller=ACME, reason="suspended")
    for verb in (own.resume, partial(own.pause, until=soon)):
        with pytest.raises(ForbiddenError, match="an operator paused it"):
            verb(PauseKind.SELLER)
    assert [each.reason for each in own.pauses()] == ["suspended"]
    assert operators.resume(PauseKind.SELLER, seller=ACME)[0].is_done
    own.pause(PauseKind.SELLER, until=soon)
    assert own.resume(PauseKind.SELLER)[0].is_done


def test_parts_are_paused_and_resumed_all_or_none(room: Room) -> None:
    own, operators = room.operations(ACME), room.operations()
    operators.pause(PauseKind.LISTING, skus=[HELD], seller=ACME)
    for verb in (own.pause, own.resume):
        with pytest.raises(ForbiddenError):
            verb(PauseKind.LISTING, skus=[PARKED, HELD])
    assert [each.sku for each in own.pauses()] == [HELD]


def test_shops_are_listed_seller_by_seller_and_behind_the_wall_ones_own(room: Room) -> None:
    whole = room.operations().shops.some(limit=10)
    assert [(each.seller, each.platform) for each in whole] == [
        (seller, platform)
        for seller in (ACME, BEST)
        for platform in (PlatformName.SHOPIFY, PlatformName.ETSY)
    ]
    assert (whole[0].tally is None, whole[1].tally is None) == (False, True)
    for number, each in enumerate(whole, start=1):
        assert room.operations().shops.some(limit=10, cursor=each.cursor) == whole[number:]
    assert room.operations(BEST).shops.some(limit=10) == whole[2:]
    assert room.operations(BEST).shops.some(limit=10, cursor=whole[2].cursor) == whole[3:]
    with pytest.raises(InvalidError, match="cursor"):
        room.operations().shops.some(limit=10, cursor="acme")
    with pytest.raises(NotFoundError, match="no seller nobody"):
        room.operations().shops.some(seller=SellerId("nobody"), limit=10)


def test_a_new_tier_acts_at_once_and_is_an_event_with_who_set_it(room: Room) -> None:
    assert (
        room.operations(ACME).shops.tier(ACME).tier,
        room.operations().shops.tier(BEST).tier,
    ) == (
        Tier.FREE,
        Tier.FREE,
    )
    for _ in range(2):
        seen = room.operations().shops.set_tier(ACME, Tier.PRO)
    assert (seen.tier, seen.orders_quota, seen.interval_min) == (Tier.PRO, 5000, 5)
    assert room.operations(ACME).shops.tier(ACME) == seen
    told = "SELECT actor, old_value, new_value FROM sync_audit_log WHERE event_type = 'tier_set'"
    assert room.ask(told) == [("tester", {"tier": "free"}, {"tier": "pro"})]
