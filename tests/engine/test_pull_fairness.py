"""One account's flood of webhooks takes nothing from the others who share the platform's day."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.pull_setup import PlainWalk, Pulls, make_pulls
from tests.store.accounts.job_fixtures import DAY_KEY

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.pagination import RUN, Cursor, Page, PageRequest, PageStep
from headway.core.accounts.webhooks import NAMED_MAX, RUNS_AT_ONCE, Webhook, WebhookEffect
from headway.core.catalog.listings import Wait
from headway.core.limits.transitions import Observation
from headway.errors import ThrottledError
from headway.store.accounts.account_queries import AccountQueries
from headway.store.accounts.webhooks import Webhooks
from headway.store.limits.day_demand import DayDemand
from headway_lab.platforms import ETSY, PLATFORMS

HOUR_S, DAY_S = 3600.0, 86_400.0


@dataclass(frozen=True)
class SingleReads(PlainWalk):
    """One call for each wanted id, as Etsy has it, then one list."""

    def ask(self, cursor: Cursor) -> PageRequest:
        wanted = cursor[RUN]["wanted"]
        return (
            PageRequest(what="order", values={"id": wanted[0]}) if wanted else super().ask(cursor)
        )

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:
        run = cursor[RUN]
        if run["wanted"]:
            return PageStep(cursor={**cursor, RUN: {**run, "wanted": run["wanted"][1:]}})
        return super().advance(cursor, page, now)


def notify(pulls: Pulls, shop: str, external_id: str, number: int) -> None:
    webhook = Webhook(
        platform=ETSY,
        delivery_id=f"{shop}-{number}",
        shop=shop,
        topic="order.paid",
        effect=WebhookEffect.WAKE,
        kind=DataKind.ORDERS,
        external_id=external_id,
    )
    Webhooks(pulls.rows.pool).take(webhook, now=pulls.rows.clock.now())


def run_for(pulls: Pulls, seconds: float, arrivals: Sequence[tuple[float, str, str]] = ()) -> None:
    """Run one worker for so long, while webhooks (second, shop, order) arrive."""
    clock, waiting = pulls.rows.clock, sorted(arrivals)
    end_s = clock.monotonic() + seconds
    begin_s = clock.monotonic()
    while clock.monotonic() < end_s:
        while waiting and waiting[0][0] <= clock.monotonic() - begin_s:
            at_s, shop, external_id = waiting.pop(0)
            notify(pulls, shop, external_id, round(at_s * 1000))
        result = pulls.pull.step()
        if isinstance(result, Wait):
            wake_s = (result.until - clock.now()).total_seconds()
            if waiting:
                wake_s = min(wake_s, waiting[0][0] - (clock.monotonic() - begin_s))
            clock.sleep(max(wake_s, 0.01))


def calls_by_shop(pulls: Pulls) -> Counter[str]:
    return Counter(shop for shop, _ in pulls.script.asks)


@pytest.fixture
def pulls(pool: ConnectionPool) -> Pulls:
    made = make_pulls(pool)
    made.walk = SingleReads()
    return made


def test_a_few_named_orders_are_read_one_by_one(pulls: Pulls) -> None:
    pulls.rows.add("a", waited=timedelta(hours=-1))
    for number in range(NAMED_MAX):
        notify(pulls, "a-etsy", f"o{number}", number)
    pulls.drive("done")
    assert [ask.what for _, ask in pulls.script.asks] == ["order"] * NAMED_MAX + ["orders"]


def test_many_named_orders_are_left_to_one_list(pulls: Pulls) -> None:
    """Those that the list brings are handled; what it did not bring is read one in a run."""
    pulls.rows.add("a", waited=timedelta(hours=-1))
    for number in range(20):
        notify(pulls, "a-etsy", f"o{number}", number)
    listed = tuple(f"o{number}" for number in range(14))
    pulls.script.answers = [Page(ids=listed)]
    pulls.drive("done")
    assert [ask.what for _, ask in pulls.script.asks] == ["orders"]
    open_ids = "SELECT external_id FROM webhook_deliveries WHERE handled_at IS NULL ORDER BY 1"
    left = [name for (name,) in pulls.rows.ask(open_ids)]
    assert left == [f"o{number}" for number in range(14, 20)]
    pulls.script.answers = [Page(ids=(left[0],))]
    pulls.drive("done")
    assert [ask.what for _, ask in pulls.script.asks[1:]] == ["order", "orders"]
    pulls.script.answers = [Page(missing=(name,)) for name in left[1:]]
    pulls.drive("done")
    assert pulls.rows.ask(open_ids) == []


def test_a_flood_of_webhooks_costs_about_as_much_as_ordinary_runs(pulls: Pulls) -> None:
    job_id = pulls.rows.add("a", tier="starter")
    flood = [(number * 3.6, "a-etsy", f"o{number % 50}") for number in range(1000)]
    run_for(pulls, HOUR_S, flood)
    # The first of them are read at once, and from then on a run every half an hour, as ordinary.
    assert calls_by_shop(pulls)["a-etsy"] <= RUNS_AT_ONCE * (NAMED_MAX + 1) + 6
    woken = "SELECT count(*) FROM sync_audit_log WHERE event_type = 'job_woken'"
    assert pulls.rows.one(woken) < 2 * RUNS_AT_ONCE + 6
    assert pulls.rows.one("SELECT wait_reason FROM sync_jobs WHERE id = %s", job_id).startswith(
        "many webhooks"
    )


def refuse_for_a_day(pulls: Pulls, shop: str, left: float) -> None:
    """Answer the next calls, then refuse this shop for the day; headers show what is left."""
    limit = 1500.0
    pulls.script.observations = {DAY_KEY: Observation(used=limit - left, capacity=limit)}
    refusal = ThrottledError("Exceeded daily rate limit", provider="etsy", retry_after_s=86_400)
    pulls.script.broken = {shop: refusal}
    pulls.script.own_observations = {shop: {DAY_KEY: Observation(used=limit, capacity=limit)}}


def test_a_refusal_of_one_accounts_day_leaves_the_others_alone(pool: ConnectionPool) -> None:
    """Law L16: the headers of the others show that the day they share is not used up."""
    pulls = make_pulls(pool, day_limit=1500)
    refused_id = pulls.rows.add("refused", tier="pro", waited=timedelta(minutes=-1))
    listings_id = pulls.rows.job(
        pulls.rows.one("SELECT account_id::text FROM sync_jobs WHERE id = %s", refused_id),
        kind="listings",
        waited=timedelta(hours=-3, minutes=-1),
    )
    for number in range(3):
        pulls.rows.add(f"s{number}", tier="pro")
    run_for(pulls, 3 * HOUR_S)
    usual = calls_by_shop(pulls)
    refuse_for_a_day(pulls, "refused-etsy", left=1000)
    run_for(pulls, HOUR_S / 2)
    for job_id in (refused_id, listings_id):
        reason = "SELECT wait_reason FROM sync_jobs WHERE id = %s"
        assert pulls.rows.one(reason, job_id) == "the platform limits this account alone"
    run_for(pulls, 2.5 * HOUR_S)
    calls = calls_by_shop(pulls)
    calls.subtract(usual)
    assert calls["refused-etsy"] <= 4, "one an hour"
    for shop in ("s0-etsy", "s1-etsy", "s2-etsy"):
        # Which of the jobs due in one minute runs first can move one run over the end.
        assert calls[shop] >= usual[shop] - 1 > 20, shop
    assert pulls.rows.limiter.status(DAY_KEY).paused_until is None


@pytest.mark.parametrize("left", (0, 5))
def test_a_refusal_when_little_is_left_of_the_day_pauses_it_for_all(
    pool: ConnectionPool, left: float
) -> None:
    pulls = make_pulls(pool, day_limit=1500)
    pulls.rows.add("other")
    pulls.rows.add("refused", waited=timedelta(minutes=-1))
    refuse_for_a_day(pulls, "refused-etsy", left=left)
    pulls.script.observations[DAY_KEY] = Observation(used=1490 if left else 1500, capacity=1500)
    pulls.drive("done")
    pulls.rows.clock.sleep(70)
    pulls.drive("rate limited") if left else pulls.drive("no job may run")
    paused_until = pulls.rows.limiter.status(DAY_KEY).paused_until
    assert (paused_until is not None) == bool(left), "an empty day needs no pause"


OTHERS = 10


def calls_of_day(pool: ConnectionPool, *, is_greedy: bool) -> tuple[int, int]:
    """Run hours of a day that suffices for ten sellers; return their calls and the greedy one's."""
    pulls = make_pulls(pool, day_limit=400)
    for number in range(OTHERS):
        pulls.rows.add(f"s{number}", tier="free", estimate=1)
    if is_greedy:
        pulls.rows.add("greedy", tier="starter", estimate=1)
        pulls.script.endless = {"greedy-etsy"}
    run_for(pulls, 8 * HOUR_S)
    calls = calls_by_shop(pulls)
    pulls.rows.ask("TRUNCATE profiles, connected_accounts, limiter, rate_budgets CASCADE")
    greedy = calls.pop("greedy-etsy", 0)
    return sum(calls.values()), greedy


def test_an_account_that_needs_without_end_takes_no_more_than_its_share(
    pool: ConnectionPool,
) -> None:
    """Laws L12, L16: the others run as they do without it, and it uses what is left over."""
    usual, _ = calls_of_day(pool, is_greedy=False)
    beside, greedy = calls_of_day(pool, is_greedy=True)
    assert usual >= OTHERS * 7
    assert beside >= 0.9 * usual
    assert greedy > 100, "what nobody else has planned is lent to it"


def test_the_account_that_uses_most_of_a_day_is_known_by_name(pulls: Pulls) -> None:
    pulls.rows.add("small")
    pulls.rows.add("large")
    pulls.script.endless = {"large-etsy"}
    run_for(pulls, 60)
    rule, rows = pulls.rows.rule, pulls.rows
    queries = AccountQueries(rows.pool, rule, {}, DayDemand(rows.pool, rule), platforms=PLATFORMS)
    name, calls = queries.top_account(rows.clock.now(), ETSY)
    assert name == "large large-etsy"
    assert calls == pytest.approx(calls_by_shop(pulls)["large-etsy"], rel=0.05)
