"""Every alert rule in a real application: it fires within five minutes, and resolves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool

from headway.app import App, build
from headway.app.monitoring import alert_monitor
from headway.config import Settings
from headway.core.monitoring.alert_state import AlertChange, AlertPhase
from headway.core.monitoring.alerts import Severity
from headway.core.monitoring.rules import BY_NAME
from headway.operations.alerts import alerts
from headway.operations.callers import operator
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
        for minute in range(count):
            if timed_changes and minute > timed_changes[0][0] + REST_MIN:
                break
            self.changes.clear()
            self.monitor(self.clock.now())
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


def test_a_notice_is_listed_but_never_sent(monitored: MonitoredApp) -> None:
    caller = operator(monitored.app, "tester")
    assert BY_NAME[SHOWN_ONLY].severity is Severity.NOTICE
    monitored.trigger(CAUSES[SHOWN_ONLY])
    assert monitored.minutes(8) == []
    assert [alert.name for alert in alerts(caller).alerts] == [SHOWN_ONLY]
    monitored.execute(CAUSES[SHOWN_ONLY].undo)
    assert alerts(caller).alerts == ()
    assert monitored.minutes(8) == []
