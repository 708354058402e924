"""The same news is told once; what happens again is told again."""

from datetime import UTC, datetime, timedelta

from psycopg_pool import ConnectionPool

from headway.core.model import SellerId
from headway.store.notices import Notices, Topic, subject_of

A, B = SellerId("a"), SellerId("b")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


def test_news_is_told_once_and_told_again_when_it_happens_again(pool: ConnectionPool) -> None:
    notices = Notices(pool)
    first, second = subject_of("job", NOW), subject_of("job", LATER)
    assert notices.add(Topic.JOB_DEAD, first, user_id=A, text="it died", now=NOW)
    assert not notices.add(Topic.JOB_DEAD, first, user_id=A, text="it died", now=LATER)
    assert notices.add(Topic.JOB_DEAD, second, user_id=A, text="again", now=LATER)
    assert notices.add(Topic.DISCONNECTED, first, user_id=A, text="gone", now=NOW)
    told = [(each.topic, each.text, each.created_at) for each in notices.list(A, limit=1)]
    assert told == [(Topic.JOB_DEAD, "again", LATER)]
    assert {each.text for each in notices.list(A)} == {"again", "it died", "gone"}


def test_a_seller_sees_no_notice_of_another(pool: ConnectionPool) -> None:
    notices = Notices(pool)
    notices.add(Topic.TOKEN_EXPIRING, "x", user_id=A, text="renew it", now=NOW)
    assert notices.list(B) == []
    assert [each.user_id for each in notices.list(A)] == [A]
