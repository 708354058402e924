"""Every alert rule in a real application: it fires within five minutes, and resolves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool

from headway.app import App, build
from headway.app.accounts import connect_account
from headway.app.monitoring import alert_metrics_now, alert_monitor
from headway.config import Settings
from headway.core.accounts.refusals import UNINSTALLED
from headway.core.catalog.listings import SellerId
from headway.core.limits.transitions import Observation
from headway.core.monitoring.alert_state import AlertChange, AlertPhase
from headway.core.monitoring.alerts import Severity
from headway.core.monitoring.rules import BY_NAME
from headway.operations.alerts import alerts
from headway.operations.callers import operator
from headway.store.accounts.connections import ConnectedShops
from headway_lab.platforms import ETSY
from headway_lab.simulators.boeing import SignIn
from headway_lab.virtual_clock import VirtualClock

SOON_MIN = 5
HALT_S = 900
# How long alerts are watched after a change, for a second one.
REST_MIN = 4
# A notice: a failed read is retried, and nobody needs to act yet.
SHOWN_ONLY = "failing"


@dataclass(frozen=True, kw_only=True)
class Cause:
    """Statements that cause an alert and end it; `%(now)s` is the time of the clock.

    `paused_limit` is a limit to pause, which ends by itself.
    """

    do: Sequence[str] = ()
    undo: Sequence[str] = ()
    paused_limit: Callable[[App], str] | None = None


def listings(count: int, columns: str = "", values: str = "") -> str:
    more = f", {columns}" if columns else ""
    return (
        "INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at,"
        f" last_successful_sync{more}) SELECT 'acme', 'N' || n, 0,"
        " %(now)s::timestamptz + interval '1 day', %(now)s"
        f"{', ' + values if values else ''} FROM generate_series(1, {count}) AS n"
    )


def calls(count: int, result: str) -> str:
    return (
        "INSERT INTO call_ledger (permit_id, limit_key, owner, cost, begun_at, lease_until, status,"
        " result, skus, seats_paid) SELECT gen_random_uuid(), %(scope)s, 'w', 1, %(now)s, %(now)s,"
        f" 'sent', '{result}', ARRAY['A', 'B'], 10 FROM generate_series(1, {count})"
    )


def state(column: str) -> list[str]:
    return [
        listings(1),
        (
            f"INSERT INTO listing_state (user_id, sku, {column.partition('=')[0]})"
            f" VALUES ('acme', 'N1', {column.partition('=')[2]})"
        ),
    ]


def account(status: str) -> str:
    return (
        "INSERT INTO connected_accounts (user_id, platform, shop, status, reason)"
        f" VALUES ('acme', 'etsy', '7', '{status}', 'revoked')"
    )


def samples(kept: int) -> str:
    return (
        "INSERT INTO freshness_samples (at, tier, total, parked, paused, fresh, stale, unread,"
        " kept, promise_min) SELECT %(now)s::timestamptz - n * interval '5 minutes', 'pro', 100, 0,"
        f" 0, 100, 0, 0, {kept}, 60 FROM generate_series(1, 72) AS n"
    )


JOB = (
    "INSERT INTO sync_jobs (user_id, account_id, platform, job_type, kind, status, score)"
    " SELECT user_id, id, platform, 'incremental', 'orders', 'dead', 20 FROM connected_accounts"
)
ALL_FRESH = "UPDATE freshness_samples SET kept = total"
NO_LISTINGS = "DELETE FROM product_sync_schedule"
OPEN = (
    "INSERT INTO breaker (limit_key, failures, open_until, opened_at, reason)"
    " VALUES ({scope}, 3, %(now)s::timestamptz + interval '1 h', %(now)s, 'HTTP 503')"
)
DUE = "UPDATE product_sync_schedule SET next_sync_at = %(now)s::timestamptz - interval '61 min'"
PAUSE = "INSERT INTO pauses (kind, actor, created_at) VALUES ('all', 'ada', %(now)s)"
CAUSES = {
    "supplier_down": Cause(do=[OPEN.format(scope="%(scope)s")], undo=["DELETE FROM breaker"]),
    "permit_wait": Cause(paused_limit=lambda app: app.limit_key),
    "error_share": Cause(
        do=[calls(20, "ok"), calls(3, "HTTP 503")], undo=["DELETE FROM call_ledger"]
    ),
    "reads_failed": Cause(
        do=[
            calls(20, "ok"),
            ("INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type)"
            " SELECT 'acme', 'A', %(now)s, 'sync_failed' FROM generate_series(1, 3)"),
        ],
        undo=["DELETE FROM sync_audit_log WHERE event_type = 'sync_failed'"],
    ),
    "few_synced": Cause(do=[listings(30), DUE], undo=[NO_LISTINGS]),
    "overdue": Cause(do=[listings(101), DUE, calls(30, "ok")], undo=[NO_LISTINGS]),
    "stale": Cause(
        do=[
            listings(1),
            ("UPDATE product_sync_schedule"
            " SET last_successful_sync = %(now)s::timestamptz - interval '25 h'"),
        ],
        undo=[NO_LISTINGS],
    ),
    "promise_burning": Cause(do=[samples(60)], undo=[ALL_FRESH]),
    "promise_slipping": Cause(do=[samples(90)], undo=[ALL_FRESH]),
    "paused": Cause(do=[PAUSE], undo=["DELETE FROM pauses"]),
    "held": Cause(
        do=state("held_reason, held_at='moved', %(now)s"), undo=["DELETE FROM listing_state"]
    ),
    "parked": Cause(
        do=[listings(100), ("UPDATE product_sync_schedule SET sync_status = 'parked',"
              " is_active = false WHERE sku = 'N1'")],
        undo=[NO_LISTINGS],
    ),
    "refused_by_shop": Cause(
        do=state("push_failures, push_at=4, %(now)s"), undo=["DELETE FROM listing_state"]
    ),
    "failing": Cause(
        do=[listings(1), ("UPDATE product_sync_schedule SET consecutive_failures = 1,"
              " sync_status = 'failed', priority = 'retry'")],
        undo=["UPDATE product_sync_schedule SET consecutive_failures = 0"],
    ),
    "stuck": Cause(
        do=[listings(1), ("UPDATE product_sync_schedule SET sync_status = 'syncing',"
              " lease_owner = 'w', lease_until = %(now)s::timestamptz - interval '11 min'")],
        undo=[NO_LISTINGS],
    ),
    "shop_refused": Cause(
        do=[account("connected"), OPEN.format(scope="'etsy'")],
        undo=["DELETE FROM breaker"],
    ),
    "disconnected": Cause(
        do=[account("disconnected")],
        undo=["UPDATE connected_accounts SET status = 'connected'"],
    ),
    "token_expiring": Cause(
        do=[
            account("connected"),
            ("INSERT INTO credential (credential_key, name, secret, expires_at)"
            " VALUES ('etsy:shop:7', 'refresh', 'x', %(now)s::timestamptz + interval '6 d')"),
        ],
        undo=["DELETE FROM credential"],
    ),
    "jobs_late": Cause(
        do=[
            account("connected"),
            JOB.replace("score)", "score, next_run_at)").replace(
                "'dead', 20", "'queued', 12, %(now)s::timestamptz - interval '9 h'"
            ),
        ],
        undo=["UPDATE sync_jobs SET day_calls_at = %(now)s::timestamptz + interval '1 h'"],
    ),
    "dead_jobs": Cause(do=[account("connected"), JOB], undo=["DELETE FROM sync_jobs"]),
    "unreadable": Cause(
        do=[account("connected"), ("INSERT INTO unreadable_records (account_id, kind, external_id,"
            " user_id, reason, raw, seen_at) SELECT id, 'orders', 'R-1', user_id, 'HTTP 500', '{}',"
            " %(now)s FROM connected_accounts")],
        undo=["DELETE FROM unreadable_records"],
    ),
    "unknown_location": Cause(
        do=[("INSERT INTO supplier_locations VALUES ('main', 'Dallas TX', %(now)s, %(now)s),"
            " ('main', 'MIAMI  fl', %(now)s, %(now)s), ('main', 'Germany CSC', %(now)s, %(now)s)")],
        undo=["DELETE FROM supplier_locations"],
    ),
    "key_shared": Cause(
        do=[("INSERT INTO call_ledger (permit_id, limit_key, owner, cost, status, begun_at,"
            " lease_until, http_status) VALUES (gen_random_uuid(), %(scope)s, 'w', 1, 'sent',"
            " %(now)s, %(now)s, 429)")],
        undo=["DELETE FROM call_ledger"],
    ),
    "removals_held": Cause(
        do=[
            account("connected"),
            ("INSERT INTO listing_walks (account_id, user_id, walks, known, missing, held_reason,"
            " held_since, updated_at) SELECT id, user_id, '{}', 20, 15, 'a list is empty', %(now)s,"
            " %(now)s FROM connected_accounts"),
        ],
        undo=["DELETE FROM listing_walks"],
    ),
    "unpublished": Cause(
        do=[
            account("connected"),
            "UPDATE connected_accounts SET locations = '{}'",
            *state("push_error, push_at='not published: no scopes', %(now)s"),
        ],
        undo=["DELETE FROM listing_state"],
    ),
    "oversell": Cause(
        do=[
            account("connected"),
            "UPDATE connected_accounts SET locations = '{}'",
            ("INSERT INTO product (user_id, sku, shop_sku, status, tracked)"
            " SELECT user_id, 'A', 'A', 'ACTIVE', false FROM connected_accounts"),
        ],
        undo=["UPDATE product SET tracked = true"],
    ),
    "webhook_failing": Cause(
        do=[("INSERT INTO webhook_endpoints (url, failing_since, created_at, updated_at) VALUES"
            " ('https://app.example/hook', %(now)s::timestamptz - interval '2 h', %(now)s,"
            " %(now)s)")],
        undo=["DELETE FROM webhook_endpoints"],
    ),
    "privacy_due": Cause(
        do=[
            account("connected"),
            ("INSERT INTO privacy_requests (account_id, user_id, platform, customer_id,"
            " requested_at, due_at) SELECT id, user_id, platform, '7',"
            " %(now)s::timestamptz - interval '21 d', %(now)s::timestamptz + interval '9 d'"
            " FROM connected_accounts"),
        ],
        undo=["UPDATE privacy_requests SET done_at = %(now)s"],
    ),
    "erasure_stuck": Cause(
        do=[("INSERT INTO erasures (kind, cause, user_id, subject, subject_hash, requested_at)"
            " VALUES ('seller', 'person', 'acme', '{}', 'x', %(now)s::timestamptz"
            " - interval '2 d')")],
        undo=["UPDATE erasures SET status = 'done', subject = NULL"],
    ),
    "housekeeping": Cause(
        do=[("INSERT INTO housekeeping (step, failing_since, failures, error)"
            " VALUES ('pauses', %(now)s, 3, 'no permission')")],
        undo=["DELETE FROM housekeeping"],
    ),
    "no_tick": Cause(
        do=[("INSERT INTO housekeeping (step, done_at)"
            " VALUES ('round', %(now)s::timestamptz - interval '6 min')")],
        undo=["DELETE FROM housekeeping"],
    ),
    "quota_spent": Cause(
        paused_limit=lambda app: next(iter(app.account_queries._days.values())).key
    ),
}  # fmt: skip


class MonitoredApp:
    """An application that is monitored minute by minute."""

    def __init__(self, pool: ConnectionPool, clock: VirtualClock, data_dir: Path) -> None:
        sign_in = SignIn()
        settings = Settings(
            boeing_client_id=sign_in.client_id,
            boeing_username=sign_in.username,
            etsy_keystring="key",
            data_dir=data_dir,
        )
        self.app: App = build(settings, clock, pool)
        self.clock = clock
        self.changes: list[AlertChange] = []
        self.seen: list[AlertChange] = []
        self.monitor = alert_monitor(self.app, on_change=self.changes.append)

    def trigger(self, cause: Cause) -> None:
        self.execute(cause.do)
        if cause.paused_limit is not None:
            self.app.limiter.pause(cause.paused_limit(self.app), HALT_S, "HTTP 429")

    def execute(self, statements: Sequence[str]) -> None:
        values = {"now": self.clock.now(), "scope": self.app.limit_key}
        with self.app.pool.connection() as connection:
            for statement in statements:
                connection.execute(statement, values)

    def minutes(self, count: int) -> list[tuple[int, str, AlertPhase]]:
        """Monitor for this many minutes, or for a few after a change; return changes by minute."""
        timed_changes: list[tuple[int, str, AlertPhase]] = []
        self.seen = []
        for minute in range(count):
            if timed_changes and minute > timed_changes[0][0] + REST_MIN:
                break
            self.changes.clear()
            self.monitor(self.clock.now())
            self.seen += self.changes
            timed_changes += [
                (minute, change.state.alert.name, change.phase) for change in self.changes
            ]
            self.clock.sleep(60)
        return timed_changes


@pytest.fixture
def monitored(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> MonitoredApp:
    return MonitoredApp(pool, clock, tmp_path)


def test_every_rule_has_a_cause() -> None:
    assert CAUSES.keys() == BY_NAME.keys()


@pytest.mark.parametrize("name", [cause for cause in CAUSES if cause != SHOWN_ONLY])
def test_an_alert_fires_once_within_five_minutes_and_resolves_once(
    monitored: MonitoredApp, name: str
) -> None:
    assert monitored.minutes(2) == []
    monitored.trigger(CAUSES[name])
    ((minute, fired, phase),) = monitored.minutes(8)
    assert (fired, phase) == (name, AlertPhase.FIRED)
    assert minute < SOON_MIN
    monitored.execute(CAUSES[name].undo)
    ((_, resolved, phase),) = monitored.minutes(22)
    assert (resolved, phase) == (name, AlertPhase.RESOLVED)


@pytest.mark.parametrize(
    ("name", "culprit"),
    (
        ("parked", "(N1 of acme)"),
        ("failing", "(N1 of acme)"),
        ("refused_by_shop", "(N1 of acme)"),
        ("dead_jobs", "(acme/etsy/orders)"),
        ("unreadable", "1 order of etsy 7 of acme cannot be read (R-1): HTTP 500."),
        ("shop_refused", "Etsy does not answer"),
        ("disconnected", "etsy 7 of acme"),
        ("token_expiring", "etsy 7 of acme"),
        ("housekeeping", "pauses"),
    ),
)
def test_an_alert_names_what_causes_it(monitored: MonitoredApp, name: str, culprit: str) -> None:
    monitored.trigger(CAUSES[name])
    (alert,) = alerts(operator(monitored.app, "tester")).alerts
    assert (alert.name, culprit in alert.sentence) == (name, True), alert.sentence


LOST = (
    "INSERT INTO connected_accounts (user_id, platform, shop, status, reason, updated_at)"
    " SELECT 's' || n, 'etsy', n, 'disconnected', '{reason}', %(now)s"
    " FROM generate_series({first}, {last}) AS n"
)


def test_many_accounts_lost_for_one_reason_are_one_alert_and_another_loss_is_a_second(
    monitored: MonitoredApp,
) -> None:
    monitored.execute([LOST.format(reason="the app is banned", first=1, last=150)])
    ((_, name, _),) = monitored.minutes(5)
    assert name == "disconnected"
    monitored.execute([LOST.format(reason="revoked", first=151, last=151)])
    monitored.minutes(5)
    (change,) = monitored.seen
    assert change.state.alert.seller == "s151"
    found = alerts(operator(monitored.app, "tester")).alerts
    together = [alert for alert in found if alert.seller is None]
    assert [alert.count for alert in together] == [150]
    assert len(found) < 10
    metrics = alert_metrics_now(monitored.app, monitored.clock.now(), pauses=())
    assert metrics.disconnected == 151


def test_those_who_were_named_first_are_not_resolved_when_many_follow(
    monitored: MonitoredApp,
) -> None:
    monitored.execute([LOST.format(reason="revoked", first=1, last=2)])
    assert len(monitored.minutes(5)) == 2
    monitored.execute([LOST.format(reason="revoked", first=3, last=40)])
    ((_, _, phase),) = monitored.minutes(15)
    assert phase is AlertPhase.FIRED


def test_a_disconnection_that_somebody_asked_for_raises_no_alert(
    monitored: MonitoredApp,
) -> None:
    now = monitored.clock.now()
    connect_account(monitored.app.pool, SellerId("acme"), "7", platform=ETSY, now=now)
    ConnectedShops(monitored.app.pool).disconnect(
        SellerId("acme"), "no longer used", platform=ETSY, is_leaving=True, now=now
    )
    # Another program's way to say it.
    monitored.execute([LOST.format(reason="", first=1, last=1)])
    assert monitored.minutes(8) == []
    assert alerts(operator(monitored.app, "tester")).alerts == ()


def test_an_uninstalled_app_raises_no_alert_and_any_other_loss_does(
    monitored: MonitoredApp,
) -> None:
    now = monitored.clock.now()
    for shop, seller, reason in (("7", "acme", UNINSTALLED), ("8", "bolt", "revoked")):
        connect_account(monitored.app.pool, SellerId(seller), shop, platform=ETSY, now=now)
        ConnectedShops(monitored.app.pool).disconnect(
            SellerId(seller), reason, platform=ETSY, now=now
        )
    (alert,) = alerts(operator(monitored.app, "tester")).alerts
    assert alert.seller == "bolt"


def test_jobs_that_wait_for_their_platforms_day_do_not_stand_still(
    monitored: MonitoredApp,
) -> None:
    app = monitored.app
    monitored.execute(CAUSES["jobs_late"].do)
    key = next(iter(app.account_queries._days.values())).key
    app.limiter.observe(key, Observation(used=9_000, capacity=10_000))
    assert alerts(operator(app, "tester")).alerts == ()


def test_all_sellers_at_their_quota_are_counted_and_jobs_by_platform_kind_and_tier(
    monitored: MonitoredApp,
) -> None:
    now = monitored.clock.now()
    monitored.execute(
        [
            *CAUSES["jobs_late"].do,
            (
                "INSERT INTO profiles (user_id, tier, orders_month, orders_count)"
                f" SELECT 's' || n, 'free', '{now:%Y-%m}-01', 49 + n %% 2"
                " FROM generate_series(1, 60) AS n"
            ),
        ]
    )
    metrics = alert_metrics_now(monitored.app, now, pauses=())
    assert metrics.sellers_at_quota == 30
    (jobs,) = metrics.jobs
    assert (jobs.platform, jobs.kind, jobs.tier) == ("etsy", "orders", "free")
    assert (jobs.due, jobs.overdue, jobs.late) == (1, 1, 1)


def test_a_notice_is_listed_but_never_sent(monitored: MonitoredApp) -> None:
    caller = operator(monitored.app, "tester")
    assert BY_NAME[SHOWN_ONLY].severity is Severity.NOTICE
    monitored.trigger(CAUSES[SHOWN_ONLY])
    assert monitored.minutes(8) == []
    assert [alert.name for alert in alerts(caller).alerts] == [SHOWN_ONLY]
    monitored.execute(CAUSES[SHOWN_ONLY].undo)
    assert alerts(caller).alerts == ()
    assert monitored.minutes(8) == []
