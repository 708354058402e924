"""Which prices go in bulk, which call comes next, and what its answer means."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from tests.core.catalog.test_push_planning import NOW, SHOP, change, kinds, plan, state

from headway.core.catalog import bulk, push_results
from headway.core.catalog.bulk import BulkStep
from headway.core.catalog.listings import Sku
from headway.core.catalog.push_planning import price_write
from headway.core.catalog.storefront import (
    BulkIntent,
    BulkProgress,
    Change,
    Gid,
    Phase,
    PriceWrite,
    Pushed,
    PushLease,
    UploadTarget,
    WriteKind,
    WriteResult,
    WriteVerdict,
)
from headway.errors import PermanentError, ThrottledError, TimedOutError

HOUR = timedelta(hours=1)
GONE = PermanentError("no", provider="shopify")
LOST = TimedOutError("silence", provider="shopify")
THROTTLED = ThrottledError("wait", provider="shopify")


OPERATION = Gid("op")


@dataclass
class Standing:
    id: Gid = OPERATION
    status: str = "RUNNING"
    is_over: bool = False
    url: str | None = None


def intent(phase: Phase = Phase.NEW, *skus: str, **more: Any) -> BulkIntent:
    progress = BulkProgress(phase=phase, path="tmp/file", **more)
    part_numbers = frozenset(Sku(sku) for sku in skus or ("A-1",))
    return BulkIntent(id="k", skus=part_numbers, created_at=NOW, progress=progress)


def judged(listing: Change, result: WriteResult, write: PriceWrite | None = None) -> Pushed:
    pairs = [(write or price_write(listing, SHOP), result)]
    ((pushed,), unsure) = bulk.judge(pairs, {listing.sku: listing}, SHOP, NOW)
    assert unsure == []
    return pushed


def test_prices_of_listings_that_were_seen_and_never_failed_go_in_bulk() -> None:
    due = change("A-1", desired=state("12.00"))
    others = [
        change("A-2"),
        replace(due, sku=Sku("A-3"), failures=1),
        replace(due, sku=Sku("A-4"), applied=None),
        replace(due, sku=Sku("A-5"), ids=None),
    ]
    assert bulk.choose([due, *others], SHOP) == [due]


def test_no_more_than_ten_thousand_go_at_once() -> None:
    due = change("A-1", desired=state("12.00"))
    assert len(bulk.choose([due] * 10_001, SHOP)) == 10_000


@pytest.mark.parametrize(("phase", "step"), bulk.NEXT.items())
def test_each_phase_has_its_call(phase: Phase, step: BulkStep) -> None:
    assert bulk.next_step(intent(phase), NOW) is step


def test_what_cannot_be_started_is_dropped_and_what_does_not_end_is_given_up() -> None:
    late = NOW + bulk.START_MAX + timedelta(seconds=1)
    assert bulk.next_step(intent(Phase.UPLOADED), late) is BulkStep.DROP
    assert bulk.next_step(intent(Phase.ASKED, asked_at=NOW), late) is BulkStep.FIND
    running = intent(Phase.RUNNING, asked_at=NOW + HOUR)
    assert bulk.next_step(running, NOW + 25 * HOUR) is BulkStep.STATUS
    assert bulk.next_step(running, NOW + 25.01 * HOUR) is BulkStep.GIVE_UP


def test_it_is_due_when_its_time_has_come() -> None:
    assert bulk.is_due(intent(), NOW)
    assert not bulk.is_due(intent(poll_at=NOW + HOUR), NOW)
    assert bulk.is_due(intent(poll_at=NOW), NOW)


def test_polls_begin_at_ten_seconds_and_grow_to_sixty() -> None:
    waits = [
        (bulk.later(intent(), NOW + elapsed) - NOW - elapsed).total_seconds()
        for elapsed in (timedelta(0), timedelta(minutes=1), timedelta(minutes=3), HOUR)
    ]
    assert waits == [10, 10, 30, 60]


def test_a_file_is_staged_uploaded_and_run() -> None:
    target = UploadTarget(url="http://files.test", parameters=(("key", "tmp/file"),))
    assert "tmp/file" not in repr(target)
    staged = bulk.staged(target, NOW)
    assert (staged.phase, staged.target, staged.poll_at) == (Phase.STAGED, target, NOW)
    uploaded = bulk.uploaded("tmp/file", NOW)
    assert (uploaded.phase, uploaded.path) == (Phase.UPLOADED, "tmp/file")
    sent = bulk.asking(replace(intent(), progress=uploaded), NOW)
    assert (sent.progress.phase, sent.progress.asked_at) == (Phase.ASKED, NOW)
    running = bulk.started(sent, Gid("op"), NOW)
    assert (running.phase, running.operation, running.asked_at) == (Phase.RUNNING, "op", NOW)
    assert running.poll_at == NOW + timedelta(seconds=10)


def test_a_shop_that_cannot_start_one_now_is_asked_again_later() -> None:
    waits = bulk.started(intent(Phase.ASKED, asked_at=NOW), None, NOW)
    assert (waits.phase, waits.path, waits.asked_at) == (Phase.UPLOADED, "tmp/file", None)
    assert waits.poll_at is not None
    assert waits.poll_at > NOW


def test_a_run_whose_reply_was_lost_is_looked_for_before_it_is_run_again() -> None:
    sent = intent(Phase.ASKED, asked_at=NOW)
    again = bulk.after_search(sent, None, NOW)
    assert again is not None
    assert (again.phase, again.asked_at) == (Phase.UPLOADED, None)
    runs = bulk.after_search(sent, Standing(), NOW)
    assert runs is not None
    assert (runs.phase, runs.operation, runs.asked_at) == (Phase.RUNNING, "op", NOW)


def test_an_operation_is_waited_for_fetched_or_read_back() -> None:
    running = intent(Phase.RUNNING, asked_at=NOW)
    waits = bulk.after_status(running, Standing(), NOW)
    assert waits is not None
    assert waits.phase is Phase.RUNNING
    done = bulk.after_status(
        running, Standing(status="COMPLETED", is_over=True, url="http://r"), NOW
    )
    assert done is not None
    assert (done.phase, done.url, done.poll_at) == (Phase.COMPLETED, "http://r", NOW)
    for status, url in (("COMPLETED", None), ("FAILED", "http://part"), ("EXPIRED", None)):
        assert (
            bulk.after_status(running, Standing(status=status, is_over=True, url=url), NOW) is None
        )


@pytest.mark.parametrize(
    ("step", "error", "phase"),
    (
        (BulkStep.STAGE, LOST, Phase.NEW),
        (BulkStep.UPLOAD, LOST, Phase.NEW),
        (BulkStep.UPLOAD, None, Phase.NEW),
        (BulkStep.RUN, LOST, Phase.ASKED),
        (BulkStep.RUN, THROTTLED, Phase.UPLOADED),
        (BulkStep.RUN, GONE, Phase.NEW),
        (BulkStep.RUN, None, Phase.UPLOADED),
        (BulkStep.FIND, LOST, Phase.ASKED),
        (BulkStep.STATUS, GONE, Phase.RUNNING),
        (BulkStep.FETCH, GONE, Phase.RUNNING),
    ),
)
def test_a_failed_call_goes_on_from_what_is_certain(
    step: BulkStep, error: Any, phase: Phase
) -> None:
    before = {following: stage for stage, following in bulk.NEXT.items()}[step]
    begun = intent(before, asked_at=NOW if before is not Phase.NEW else None)
    if step is BulkStep.RUN:
        begun = bulk.asking(begun, NOW)
    after = bulk.failed(begun, step, error, NOW)
    assert after.phase is phase
    assert (after.asked_at is None) == (phase in (Phase.NEW, Phase.UPLOADED))
    assert after.poll_at == NOW + bulk.POLL_FIRST


def test_a_line_is_settled_by_what_was_written_not_by_what_is_wanted_now() -> None:
    sent = price_write(change(desired=state("12.00")), SHOP)
    newer = change(desired=state("13.00"))
    pushed = judged(newer, WriteResult(verdict=WriteVerdict.DONE), sent)
    assert pushed.applied == state("12.00")
    assert [event.kind for event in pushed.events] == ["shopify_updated"]


def test_a_line_that_was_done_leaves_nothing_to_push() -> None:
    listing = change(desired=state("12.00"))
    assert judged(listing, WriteResult(verdict=WriteVerdict.DONE)).applied == listing.desired


def test_a_refused_price_waits_unless_there_is_a_newer_one() -> None:
    listing = change(desired=state("12.00"))
    refused = WriteResult(verdict=WriteVerdict.REFUSED, reason="suspended")
    assert judged(listing, refused).retry_at == NOW + push_results.BACKOFF_FIRST
    newer = judged(replace(listing, desired=state("13.00")), refused, price_write(listing, SHOP))
    assert (newer.retry_at, newer.failures, newer.error) == (NOW, 1, "suspended")


def test_an_unknown_id_is_found_again_by_its_sku() -> None:
    unknown = WriteResult(verdict=WriteVerdict.UNKNOWN, reason="no such product")
    assert judged(change(desired=state("12.00")), unknown).forgets_ids


@pytest.mark.parametrize("lost", ({"applied": None}, {"ids": None}, {"ids": change("B-1").ids}))
def test_an_answer_says_nothing_about_a_listing_lost_from_sight(lost: dict[str, Any]) -> None:
    listing = change(desired=state("12.00"))
    for verdict in (WriteVerdict.DONE, WriteVerdict.UNKNOWN, WriteVerdict.REFUSED):
        result = WriteResult(verdict=verdict)
        pushed = judged(replace(listing, **lost), result, price_write(listing, SHOP))
        assert pushed == Pushed(change=pushed.change, retry_at=NOW)


def test_a_line_without_an_answer_is_read_back_and_a_listing_that_is_gone_is_left_out() -> None:
    listing = change(desired=state("12.00"))
    lines = [(price_write(listing, SHOP), WriteResult(verdict=WriteVerdict.AGAIN))]
    assert bulk.judge(lines, {listing.sku: listing}, SHOP, NOW) == ([], [listing])
    assert bulk.judge(lines, {}, SHOP, NOW) == ([], [])


def test_no_price_is_written_to_what_is_in_bulk_but_stock_that_falls_is() -> None:
    under_way = intent(Phase.RUNNING, "A-1")
    due = change("A-1", desired=state("12.00"))
    assert plan(due, bulk=under_way) is None
    assert (
        kinds(plan(due, change("A-2", desired=state("12.00")), bulk=under_way)) is WriteKind.PRICE
    )
    assert (
        kinds(plan(replace(due, desired=state("12.00", 1, 0)), bulk=under_way)) is WriteKind.STOCK
    )
    assert plan(replace(due, desired=state("12.00", 9, 0)), bulk=under_way) is None


@pytest.mark.parametrize(
    ("desired", "sleeps"),
    (
        (state("12.00"), True),
        (state("12.00", 9, 0), True),
        (state("12.00", 1, 0), False),
        (state("12.00", status="DRAFT"), False),
    ),
)
def test_what_lacks_only_the_price_in_bulk_sleeps(desired: dict[str, Any], *, sleeps: bool) -> None:
    listing = change("A-1", desired=desired)
    push_lease = PushLease(shop=SHOP, fence=1, changes=[listing], bulk=intent(Phase.RUNNING, "A-1"))
    asleep = [pushed.retry_at for pushed in push_results.idle(push_lease, NOW)]
    assert asleep == ([NOW + push_results.SLEEP] if sleeps else [])
    assert push_results.idle(replace(push_lease, bulk=intent(Phase.RUNNING, "A-2")), NOW) == []
    assert push_results.idle(replace(push_lease, bulk=None), NOW) == []
