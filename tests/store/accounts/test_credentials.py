import threading
from datetime import UTC, datetime, timedelta

import pytest
from psycopg_pool import ConnectionPool

from headway.app.accounts import connect_account
from headway.core.catalog.listings import LimitKey, SellerId
from headway.errors import StoreError
from headway.store.accounts.credentials import Credentials
from headway_lab.platforms import ETSY

LIMIT_KEY, OTHER = LimitKey("boeing:a"), LimitKey("boeing:b")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
LEASE = NOW + timedelta(seconds=40)


@pytest.fixture
def shelf(pool: ConnectionPool) -> Credentials:
    return Credentials(pool)


def save(
    shelf: Credentials,
    name: str = "oauth",
    *,
    secret: bytes = b"s",
    limit_key: LimitKey = LIMIT_KEY,
) -> int | None:
    assert shelf.begin_refresh(limit_key, owner="me", now=NOW, lease_until=LEASE)
    version = shelf.save(limit_key, name, secret=secret, expires_at=LATER, owner="me")
    shelf.end_refresh(limit_key, owner="me")
    return version


def test_a_token_comes_back_as_it_was_saved(shelf: Credentials) -> None:
    version = save(shelf, secret=b"\x00\xffbytes")
    (row,) = shelf.load(LIMIT_KEY)
    assert (row.name, row.secret, row.expires_at, row.version) == (
        "oauth", b"\x00\xffbytes", LATER, version,
    )  # fmt: skip
    assert "bytes" not in repr(row)


def test_scopes_do_not_see_each_other(shelf: Credentials) -> None:
    save(shelf)
    assert shelf.load(OTHER) == []
    shelf.invalidate(OTHER, {"oauth": 1}, now=NOW)
    assert shelf.load(LIMIT_KEY)[0].expires_at == LATER
    assert shelf.begin_refresh(LIMIT_KEY, owner="me", now=NOW, lease_until=LEASE)
    assert shelf.begin_refresh(OTHER, owner="you", now=NOW, lease_until=LEASE)


def test_every_save_has_a_new_version(shelf: Credentials) -> None:
    first, second, other = save(shelf), save(shelf), save(shelf, "part_token")
    assert first is not None
    assert second == first + 1
    assert other is not None


def test_a_token_stored_after_a_deletion_has_a_version_that_no_earlier_one_had(
    shelf: Credentials,
) -> None:
    earlier = [save(shelf) for _ in range(50)]
    shelf.forget(LIMIT_KEY)
    later = save(shelf)
    assert later not in earlier
    assert later is not None
    assert later > max(version or 0 for version in earlier)


def test_only_the_version_that_was_used_is_killed(shelf: Credentials) -> None:
    first, second, part = save(shelf), save(shelf), save(shelf, "part_token")
    assert first is not None
    assert second is not None
    assert part is not None
    shelf.invalidate(LIMIT_KEY, {"oauth": first, "part_token": part}, now=NOW)
    assert {row.name: row.expires_at for row in shelf.load(LIMIT_KEY)} == {
        "oauth": LATER, "part_token": NOW,
    }  # fmt: skip
    shelf.invalidate(LIMIT_KEY, {"oauth": second}, now=NOW)
    assert {row.expires_at for row in shelf.load(LIMIT_KEY)} == {NOW}


def test_a_version_killed_is_never_given_again(shelf: Credentials) -> None:
    version = save(shelf)
    assert version is not None
    shelf.invalidate(LIMIT_KEY, {"oauth": version}, now=NOW)
    assert save(shelf) == version + 1


def test_a_renewal_is_an_event_of_the_accounts_seller_and_holds_no_secret(
    shelf: Credentials, pool: ConnectionPool
) -> None:
    connect_account(pool, SellerId("acme"), "7", platform=ETSY, now=NOW)
    limit_key = LimitKey("etsy:shop:7")

    def renew(owner: str, renewed_at: datetime | None) -> int | None:
        token = {"secret": b"hush", "expires_at": LATER, "renewed_at": renewed_at}
        return shelf.save(limit_key, "access", owner=owner, **token)  # type: ignore[arg-type]

    assert shelf.begin_refresh(limit_key, owner="me", now=NOW, lease_until=LEASE)
    first = renew("me", None)
    assert first is not None, "somebody connected it"
    assert renew("late", NOW) is None, "what is not stored is no event"
    assert renew("me", NOW) == first + 1
    with pool.connection() as connection:
        rows = connection.execute(
            "SELECT user_id, sync_timestamp, new_value FROM sync_audit_log"
            " WHERE event_type = 'token_refreshed'"
        ).fetchall()
    ((seller, at, details),) = rows
    assert (seller, at) == ("acme", NOW)
    assert (details["platform"], details["shop"]) == ("etsy", "7")
    assert details.keys() == {"platform", "shop", "until"}


def test_the_lease_to_refresh_is_one_owners_until_it_ends(shelf: Credentials) -> None:
    assert shelf.begin_refresh(LIMIT_KEY, owner="me", now=NOW, lease_until=LEASE)
    assert not shelf.begin_refresh(LIMIT_KEY, owner="you", now=NOW, lease_until=LEASE)
    assert not shelf.begin_refresh(LIMIT_KEY, owner="me", now=NOW, lease_until=LEASE)
    shelf.end_refresh(LIMIT_KEY, owner="you")
    assert not shelf.begin_refresh(LIMIT_KEY, owner="you", now=NOW, lease_until=LEASE)
    shelf.end_refresh(LIMIT_KEY, owner="me")
    assert shelf.begin_refresh(LIMIT_KEY, owner="you", now=NOW, lease_until=LEASE)


def test_a_silent_refresher_is_succeeded_when_its_lease_runs_out(shelf: Credentials) -> None:
    assert shelf.begin_refresh(LIMIT_KEY, owner="dead", now=NOW, lease_until=LEASE)
    just_before = LEASE - timedelta(microseconds=1)
    assert not shelf.begin_refresh(LIMIT_KEY, owner="me", now=just_before, lease_until=LATER)
    assert shelf.begin_refresh(LIMIT_KEY, owner="me", now=LEASE, lease_until=LATER)


def test_who_lost_the_lease_may_not_save(shelf: Credentials) -> None:
    assert shelf.begin_refresh(LIMIT_KEY, owner="slow", now=NOW, lease_until=LEASE)
    assert shelf.begin_refresh(LIMIT_KEY, owner="me", now=LEASE, lease_until=LATER)
    assert shelf.save(LIMIT_KEY, "oauth", secret=b"new", expires_at=LATER, owner="me")
    assert shelf.save(LIMIT_KEY, "oauth", secret=b"old", expires_at=LATER, owner="slow") is None
    shelf.end_refresh(LIMIT_KEY, owner="slow")
    assert [row.secret for row in shelf.load(LIMIT_KEY)] == [b"new"]
    assert not shelf.begin_refresh(LIMIT_KEY, owner="you", now=LEASE, lease_until=LATER)


def test_of_many_at_once_one_takes_the_lease(shelf: Credentials) -> None:
    taken = []
    gate = threading.Barrier(8)

    def take(owner: str) -> None:
        gate.wait()
        taken.append(shelf.begin_refresh(LIMIT_KEY, owner=owner, now=NOW, lease_until=LEASE))

    threads = [threading.Thread(target=take, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [False] * 7 + [True]


def test_reencryption_rewrites_all_secrets_and_keeps_versions(shelf: Credentials) -> None:
    one, two = save(shelf, secret=b"one"), save(shelf, "part_token", secret=b"two")
    save(shelf, limit_key=OTHER, secret=b"three")
    assert shelf.reencrypt(bytes.upper) == 3
    assert [(row.secret, row.version) for row in shelf.load(LIMIT_KEY)] == [
        (b"ONE", one),
        (b"TWO", two),
    ]
    assert shelf.load(OTHER)[0].secret == b"THREE"


def test_a_reencryption_that_is_cut_off_goes_on_where_it_was(shelf: Credentials) -> None:
    save(shelf, secret=b"one")
    save(shelf, "part_token", secret=b"two")

    def rotate(secret: bytes, *, is_cut: bool = False) -> bytes | None:
        if is_cut and secret == b"two":
            raise KeyboardInterrupt
        return secret.upper() if secret.islower() else None

    with pytest.raises(KeyboardInterrupt):
        shelf.reencrypt(lambda secret: rotate(secret, is_cut=True))
    assert shelf.secrets() == [b"ONE", b"two"]
    assert shelf.reencrypt(rotate) == 1
    assert shelf.secrets() == [b"ONE", b"TWO"]


def test_a_token_that_is_refreshed_in_the_middle_of_a_reencryption_is_kept(
    shelf: Credentials,
) -> None:
    version = save(shelf, secret=b"one")
    save(shelf, "part_token", secret=b"two")

    def rotate(secret: bytes) -> bytes:
        if secret == b"one":
            assert save(shelf, secret=b"newer") != version, "the worker does not wait"
        return secret.upper()

    assert shelf.reencrypt(rotate) == 1
    assert shelf.secrets() == [b"newer", b"TWO"]


def test_a_closed_database_is_a_store_error(database: str) -> None:
    pool = ConnectionPool(database, open=False)
    with pytest.raises(StoreError):
        Credentials(pool).load(LIMIT_KEY)
