"""Every rule of the watch on a real line: its cause, the news within five minutes, and its end."""

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
# A notice: what fails at the supplier is tried again, and needs nobody yet.
SHOWN_ONLY = "failing"


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What brings an alert about, and what ends it; `%(now)s` is the line's time.

    `halts` is a limit that a provider lets us wait for, which ends by itself.
    """

    does: Sequence[str] = ()
    undoes: Sequence[str] = ()
    halts: Callable[[App], str] | None = None


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
    "supplier_down": Cause(does=[OPEN.format(scope="%(scope)s")], undoes=["DELETE FROM breaker"]),
    "permit_wait": Cause(halts=lambda app: app.limit_key),
    "error_share": Cause(
        does=[calls(20, "ok"), calls(3, "HTTP 503")], undoes=["DELETE FROM call_ledger"]
    ),
    "reads_failed": Cause(
        does=[
            calls(20, "ok"),
            ("INSERT INTO sync_audit_log (user_id, sku, sync_timestamp, event_type)"
            " SELECT 'acme', 'A', %(now)s, 'sync_failed' FROM generate_series(1, 3)"),
        ],
        undoes=["DELETE FROM sync_audit_log WHERE event_type = 'sync_failed'"],
    ),
    "few_synced": Cause(does=[listings(30), DUE], undoes=[NO_LISTINGS]),
    "overdue": Cause(does=[listings(101), DUE, calls(30, "ok")], undoes=[NO_LISTINGS]),
    "stale": Cause(
        does=[
            listings(1),
            ("UPDATE product_sync_schedule"
            " SET last_successful_sync = %(now)s::timestamptz - interval '25 h'"),
        ],
        undoes=[NO_LISTINGS],
    ),
    "promise_burning": Cause(does=[samples(60)], undoes=[ALL_FRESH]),
    "promise_slipping": Cause(does=[samples(90)], undoes=[ALL_FRESH]),
    "paused": Cause(does=[PAUSE], undoes=["DELETE FROM pauses"]),
    "held": Cause(
        does=state("held_reason, held_at='moved', %(now)s"), undoes=["DELETE FROM listing_state"]
    ),
    "parked": Cause(
        does=[listings(100), ("UPDATE product_sync_schedule SET sync_status = 'parked',"
              " is_active = false WHERE sku = 'N1'")],
        undoes=[NO_LISTINGS],
    ),
    "refused_by_shop": Cause(
        does=state("push_failures, push_at=4, %(now)s"), undoes=["DELETE FROM listing_state"]
    ),
    "failing": Cause(
        does=[listings(1), ("UPDATE product_sync_schedule SET consecutive_failures = 1,"
              " sync_status = 'failed', priority = 'retry'")],
        undoes=["UPDATE product_sync_schedule SET consecutive_failures = 0"],
    ),
    "stuck": Cause(
        does=[listings(1), ("UPDATE product_sync_schedule SET sync_status = 'syncing',"
              " lease_owner = 'w', lease_until = %(now)s::timestamptz - interval '11 min'")],
        undoes=[NO_LISTINGS],
    ),
    "shop_refused": Cause(
        does=[account("connected"), OPEN.format(scope="'etsy'")],
        undoes=["DELETE FROM breaker"],
    ),
    "disconnected": Cause(
        does=[account("disconnected")],
        undoes=["UPDATE connected_accounts SET status = 'connected'"],
    ),
    "token_expiring": Cause(
        does=[
            account("connected"),
            ("INSERT INTO credential (credential_key, name, secret, expires_at)"
            " VALUES ('etsy:shop:7', 'refresh', 'x', %(now)s::timestamptz + interval '6 d')"),
        ],
        undoes=["DELETE FROM credential"],
    ),
    "dead_jobs": Cause(does=[account("connected"), JOB], undoes=["DELETE FROM sync_jobs"]),
    "quota_spent": Cause(halts=lambda app: next(iter(app.account_queries._days.values())).key),
}  # fmt: skip


class Room:
    """A line that is watched, minute by minute."""

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
        self.told: list[AlertChange] = []
        self.look = alert_monitor(self.app, on_change=self.told.append)

    def bring_about(self, cause: Cause) -> None:
        self.do(cause.does)
        if cause.halts is not None:
            self.app.limiter.pause(cause.halts(self.app), HALT_S, "HTTP 429")

    def do(self, statements: Sequence[str]) -> None:
        values = {"now": self.clock.now(), "scope": self.app.limit_key}
        with self.app.pool.connection() as connection:
            for statement in statements:
                connection.execute(statement, values)

    def minutes(self, count: int) -> list[tuple[int, str, AlertPhase]]:
        """Watch so many minutes; return what was told, and in which of them."""
        told = []
        for minute in range(count):
            self.told.clear()
            self.look(self.clock.now())
            told += [(minute, each.state.alert.name, each.phase) for each in self.told]
            self.clock.sleep(60)
        return told


@pytest.fixture
def room(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Room:
    return Room(pool, clock, tmp_path)


def test_every_rule_has_a_cause_here() -> None:
    assert CAUSES.keys() == BY_NAME.keys()


@pytest.mark.parametrize("name", [caus for caus in CAUSES if caus != SHOWN_ONLY])
def test_it_fires_within_five_minutes_of_its_cause_and_is_over_after_it_once_each(
    room: Room, name: str
) -> None:
    assert room.minutes(2) == []
    room.bring_about(CAUSES[name])
    ((minute, fired, word),) = room.minutes(8)
    assert (fired, word) == (name, AlertPhase.FIRED)
    assert minute < SOON_MIN
    room.do(CAUSES[name].undoes)
    ((_, resolved, word),) = room.minutes(22)
    assert (resolved, word) == (name, AlertPhase.RESOLVED)


def test_what_is_only_noticed_is_shown_while_it_stands_and_never_told(room: Room) -> None:
    caller = operator(room.app, "tester")
    assert BY_NAME[SHOWN_ONLY].severity is Severity.NOTICE
    room.bring_about(CAUSES[SHOWN_ONLY])
    assert room.minutes(8) == []
    assert [alert.name for alert in alerts(caller).alerts] == [SHOWN_ONLY]
    room.do(CAUSES[SHOWN_ONLY].undoes)
    assert alerts(caller).alerts == ()
    assert room.minutes(8) == []
