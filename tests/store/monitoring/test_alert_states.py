"""The watch's memory: states, events and messages are written together, once, by one tick."""

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import SellerId
from headway.core.monitoring.alert_state import AlertChange, AlertPhase
from headway.core.monitoring.alerts import Alert, Severity
from headway.core.monitoring.messages import Message, QuietHours, alert_message
from headway.store.monitoring.alert_states import AlertStates
from headway.store.monitoring.notices import Notices, NoticeTopic
from headway.store.monitoring.outbox import Outbox

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
DOWN = Alert(name="supplier_down", severity=Severity.CRITICAL, sentence="No answer.")
OVERDUE = Alert(name="overdue", severity=Severity.WARNING, sentence="101 are due.")


class Room:
    """A watch, its outbox, and a clock that a test moves."""

    def __init__(self, pool: ConnectionPool, quiet: QuietHours | None = None) -> None:
        self.pool, self.now, self.quiet = pool, NOW, quiet
        self.states, self.outbox = AlertStates(pool), Outbox(pool)

    def write(self, news: AlertChange) -> Message:
        return alert_message(news, self.now, base="https://hw.test", quiet=self.quiet)

    def minutes(self, count: int, *alerts: Alert) -> list[AlertPhase]:
        phases = []
        for _ in range(count):
            news = self.states.update(alerts, self.now, write=self.write)
            assert news is not None
            phases += [row.phase for row in news]
            self.now += MINUTE
        return phases

    def ask(self, sql: str) -> list[tuple[object, ...]]:
        with self.pool.connection() as connection:
            return connection.execute(sql).fetchall()

    @property
    def titles(self) -> list[object]:
        return [row[0] for row in self.ask("SELECT title FROM outbox ORDER BY created_at")]


@pytest.fixture
def room(pool: ConnectionPool) -> Room:
    return Room(pool)


def test_a_lasting_alert_is_stored_is_an_event_and_is_posted_once_each_way(room: Room) -> None:
    assert room.minutes(10, DOWN) == [AlertPhase.FIRED]
    (standing,) = room.states.all(room.now)
    assert (standing.alert.sentence, standing.is_firing) == ("No answer.", True)
    assert standing.since == NOW
    assert room.outbox.claim(room.now)
    assert room.minutes(10) == [AlertPhase.RESOLVED]
    assert room.ask("SELECT event_type, actor FROM sync_audit_log ORDER BY sync_timestamp") == [
        ("alert_fired", "watch"),
        ("alert_resolved", "watch"),
    ]
    assert room.titles == ["critical: supplier down", "resolved: supplier down"]


def test_a_blip_leaves_nothing_behind(room: Room) -> None:
    room.minutes(1, OVERDUE)
    assert len(room.states.all(room.now)) == 1
    room.minutes(1)
    assert room.states.all(room.now) == []


def test_of_two_ticks_at_once_one_judges_and_the_other_leaves_it(room: Room) -> None:
    room.minutes(1, DOWN)
    answers = []

    def write(news: AlertChange) -> Message:
        answers.append(AlertStates(room.pool).update([DOWN], room.now, write=room.write))
        return room.write(news)

    first = room.states.update([DOWN], room.now, write=write)
    assert first is not None
    assert ([item.phase for item in first], answers) == ([AlertPhase.FIRED], [None])
    assert room.titles == ["critical: supplier down"]


def test_a_crash_on_the_way_loses_the_state_and_the_message_together(room: Room) -> None:
    room.minutes(1, DOWN)

    def crash(news: AlertChange) -> Message:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        room.states.update([DOWN], room.now, write=crash)
    assert (room.states.all(room.now)[0].fired_at, room.titles) == (None, [])
    assert room.minutes(1, DOWN) == [AlertPhase.FIRED]
    assert room.titles == ["critical: supplier down"]


def test_in_quiet_hours_only_critical_alerts_are_sent_and_one_over_by_morning_is_not(
    pool: ConnectionPool,
) -> None:
    room = Room(pool, QuietHours(begins=time(11), ends=time(7)))
    room.minutes(5, OVERDUE, DOWN)
    letter = room.outbox.claim(room.now)
    assert letter is not None
    assert letter.title == "critical: supplier down"
    room.minutes(5, OVERDUE, replace(OVERDUE, name="held"))
    assert "warning: held" in room.titles
    room.minutes(20)
    assert room.titles == ["critical: supplier down", "resolved: supplier down"]


def test_what_waits_for_the_morning_is_sent_then(pool: ConnectionPool) -> None:
    room = Room(pool, QuietHours(begins=time(11), ends=time(7)))
    room.minutes(5, replace(OVERDUE, name="held"))
    assert room.outbox.claim(NOW.replace(day=5, hour=6, minute=59)) is None
    letter = room.outbox.claim(NOW.replace(day=5, hour=7))
    assert letter is not None
    assert letter.title == "warning: held"


def test_a_message_in_hand_is_nobody_elses_until_its_lease_ends(room: Room) -> None:
    room.minutes(2, DOWN)
    first = room.outbox.claim(room.now)
    assert first is not None
    assert room.outbox.claim(room.now + 4 * MINUTE) is None
    second = room.outbox.claim(room.now + 6 * MINUTE)
    assert second is not None
    assert not room.outbox.note(first, "a")
    assert room.outbox.note(second, "a")
    room.outbox.settle(first, "", now=room.now)
    assert room.ask("SELECT ended_at, delivered FROM outbox") == [(None, ["a"])]
    assert room.outbox.settle(second, "", now=room.now)
    assert room.outbox.next_at() is None


def test_what_fails_is_tried_ever_later_and_given_up_after_a_day(room: Room) -> None:
    room.minutes(2, DOWN)
    waits, ended = [], False
    while not ended:
        letter = room.outbox.claim(room.now)
        assert letter is not None
        ended = room.outbox.settle(letter, "HTTP 503", now=room.now)
        next_at = room.outbox.next_at()
        if next_at is not None:
            waits.append((next_at - room.now) / MINUTE)
            room.now = next_at
    assert waits[:8] == [0.5, 1, 2, 4, 8, 16, 32, 60]
    assert room.ask("SELECT is_sent, error FROM outbox") == [(False, "HTTP 503")]


def test_notices_to_sellers_are_sent_the_same_way_once_and_marked_as_sent(room: Room) -> None:
    notices, acme = Notices(room.pool), SellerId("acme")
    notices.add(NoticeTopic.JOB_DEAD, "old", user_id=acme, text="long ago", now=NOW - 2 * DAY)
    notices.add(NoticeTopic.JOB_DEAD, "new", user_id=acme, text="orders of etsy 1 died", now=NOW)
    with room.pool.connection() as connection:
        connection.execute(
            "INSERT INTO product_sync_schedule (user_id, sku, hour_bucket, next_sync_at)"
            " VALUES ('acme', 'A', 0, now())"
        )
        connection.execute(
            "INSERT INTO listing_state (user_id, sku, held_reason, held_at)"
            " VALUES ('acme', 'A', 'moved', %s)",
            [NOW],
        )
    assert [room.outbox.gather(NOW, quiet=None) for _ in range(2)] == [2, 0]
    letters = [room.outbox.claim(NOW), room.outbox.claim(NOW)]
    (letter,) = [letter for letter in letters if letter and "orders of etsy 1 died" in letter.body]
    assert letter.title == "acme: job dead"
    room.outbox.settle(letter, "", now=NOW)
    topics = {(notice.topic, notice.delivered_at) for notice in notices.list(acme)}
    assert topics == {
        (NoticeTopic.JOB_DEAD, NOW),
        (NoticeTopic.JOB_DEAD, None),
        (NoticeTopic.PRICE_HELD, None),
    }
    assert set(room.titles) == {"acme: job dead", "acme: price held"}


def test_only_what_is_over_is_forgotten(room: Room) -> None:
    room.minutes(5, DOWN, OVERDUE)
    room.minutes(10, OVERDUE)
    assert room.states.forget(room.now + DAY) == 1
    assert room.outbox.forget(room.now + DAY) == 0
