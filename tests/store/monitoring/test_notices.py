"""The same notice is sent once; if it happens again it is sent again."""

from datetime import UTC, datetime, timedelta

from psycopg_pool import ConnectionPool

from headway.core.catalog.listings import SellerId
from headway.store.monitoring.notices import Notices, NoticeTopic, subject_of

A, B = SellerId("a"), SellerId("b")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=1)


def test_a_notice_is_sent_once_and_again_when_it_happens_again(pool: ConnectionPool) -> None:
    notices = Notices(pool)
    first, second = subject_of("job", NOW), subject_of("job", LATER)
    assert notices.add(NoticeTopic.JOB_DEAD, first, user_id=A, text="it died", now=NOW)
    assert not notices.add(NoticeTopic.JOB_DEAD, first, user_id=A, text="it died", now=LATER)
    assert notices.add(NoticeTopic.JOB_DEAD, second, user_id=A, text="again", now=LATER)
    assert notices.add(NoticeTopic.DISCONNECTED, first, user_id=A, text="gone", now=NOW)
    stored = [(notice.topic, notice.text, notice.created_at) for notice in notices.list(A, limit=1)]
    assert stored == [(NoticeTopic.JOB_DEAD, "again", LATER)]
    assert {notice.text for notice in notices.list(A)} == {"again", "it died", "gone"}


def test_a_seller_sees_no_notice_of_another(pool: ConnectionPool) -> None:
    notices = Notices(pool)
    notices.add(NoticeTopic.TOKEN_EXPIRING, "x", user_id=A, text="renew it", now=NOW)
    assert notices.list(B) == []
    assert [notice.seller for notice in notices.list(A)] == [A]


def test_a_token_that_only_a_person_can_renew_is_reported_once_two_weeks_ahead(
    pool: ConnectionPool,
) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    with pool.connection() as connection:
        for seller, names in (("lone", ["access"]), ("pair", ["access", "refresh"])):
            connection.execute(
                "INSERT INTO connected_accounts (user_id, platform, shop)"
                " VALUES (%s, 'printify', %s)",
                [seller, seller],
            )
            for name in names:
                days = 60 if name == "refresh" else 15
                connection.execute(
                    "INSERT INTO credential (credential_key, name, secret, expires_at)"
                    " VALUES (%s, %s, '', %s)",
                    [f"printify:shop:{seller}", name, now + timedelta(days=days)],
                )
    notices = Notices(pool)
    assert notices.warn_of_tokens(now) == 0
    assert notices.warn_of_tokens(now + timedelta(days=2)) == 1
    assert notices.warn_of_tokens(now + timedelta(days=3)) == 0
    (notice,) = notices.list(SellerId("lone"))
    assert notice.text == "printify shop lone must be connected again by 16 Mar 2026"
