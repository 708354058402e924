"""Who is let in: keys, sessions and the login, over a real server and a real database."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from psycopg_pool import ConnectionPool
from tests.conftest import START
from tests.web.api_requests import Asking
from tests.web.login_requests import HOUR, KEYS, ME, OPS, Open, bearer, log_in, refused

from headway.app import build
from headway.clock import SystemClock
from headway.config import Settings
from headway.core.access import AccessGrant, Role
from headway.core.catalog.listings import SellerId
from headway.store.access.keys import TRIES_MAX, ApiKeys
from headway.web.authentication import COOKIE, CSRF_HEADER
from headway.web.pages import STREAMS_MAX
from headway.web.server import SiteServer, address, listen
from headway.web.site import create
from headway_lab.virtual_clock import VirtualClock

PATIENCE_S = 10.0
NEW_KEY = {"name": "ci", "role": "reader"}


@pytest.fixture
def site(open_site: Open) -> httpx.Client:
    return open_site()


def test_nobody_is_told_how_to_get_in(site: httpx.Client, key: str) -> None:
    answer = site.get(ME)
    assert "headway key create" in refused(answer, 401)
    assert answer.headers["www-authenticate"] == "Bearer"
    for wrong in ("", "Bearer", "Bearer hw_", f"Basic {key}", f"Bearer {key}0", f"Bearer{key}"):
        said = refused(site.get(ME, headers={"Authorization": wrong}), 401)
        assert key not in said
    assert site.get(ME, headers=bearer(key)).json()["may"] == [
        "read", "write", "oversee", "operate",
    ]  # fmt: skip
    page = site.get("/", headers={"accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (303, "/login")
    assert site.get("/live", headers={"accept": "text/event-stream"}).status_code in {401, 404}
    assert site.get("/healthz").status_code == 200


def test_a_key_that_is_over_or_revoked_is_nobody(
    site: httpx.Client, access: ApiKeys, clock: VirtualClock
) -> None:
    grant = AccessGrant(name="brief", role=Role.READER, expires_at=clock.now() + HOUR)
    _, brief = access.add_key(grant, now=clock.now())
    made, revoked = access.add_key(OPS, now=clock.now())
    assert site.get(ME, headers=bearer(brief)).status_code == 200
    assert site.delete(f"{KEYS}/{made.id}", headers=bearer(revoked)).status_code == 200
    refused(site.get(ME, headers=bearer(revoked)), 401)
    clock.sleep(3600)
    refused(site.get(ME, headers=bearer(brief)), 401)


def test_a_browser_logs_in_with_a_key_under_a_new_session_and_out_again(
    site: httpx.Client, key: str, pool: ConnectionPool
) -> None:
    form = site.get("/login?next=/parts")
    assert form.status_code == 200
    assert 'name="next" value="/parts"' in form.text
    site.cookies.set(COOKIE, "0" * 64)
    answer = site.post("/login", data={"key": f" {key} ", "next": "/parts?q=a"})
    assert answer.headers["location"] == "/parts?q=a"
    cookie = answer.headers["set-cookie"].split(f"{COOKIE}=")[-1]
    assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    site.cookies.clear()
    token = log_in(site, key)
    first = site.cookies[COOKIE]
    assert site.get(ME).json()["name"] == "ops"
    assert site.get("/login").headers["location"] == "/"
    token = log_in(site, key)
    assert site.cookies[COOKIE] != first
    assert refused(site.get(ME, headers={"cookie": f"{COOKIE}={first}"}), 401)
    assert refused(site.post("/logout"), 403)
    assert site.post("/logout", data={"csrf": token}).headers["location"] == "/login"
    assert COOKIE not in site.cookies
    with pool.connection() as connection:
        rows = connection.execute("SELECT count(*) FROM sessions").fetchone()
    assert rows == (1,), "the one with which this began was never in the store"


def test_where_it_goes_after_the_login_is_a_page_of_ours(site: httpx.Client, key: str) -> None:
    for elsewhere in (
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "evil",
        "/\n/x",
    ):
        answer = site.post("/login", data={"key": key, "next": elsewhere})
        assert answer.headers["location"] == "/"


def test_a_session_is_over_in_time_and_with_its_key(
    open_site: Open, access: ApiKeys, clock: VirtualClock
) -> None:
    site = open_site(session_h=2)
    made, secret = access.add_key(OPS, now=clock.now())
    log_in(site, secret)
    clock.sleep(2 * 3600)
    refused(site.get(ME), 401)
    log_in(site, secret)
    access.revoke_key(made.id, now=clock.now())
    refused(site.get(ME), 401)


def test_over_https_the_cookie_is_secure_and_browsers_are_told_to_stay(
    open_site: Open, key: str
) -> None:
    plain = open_site()
    assert "strict-transport-security" not in plain.get("/login").headers
    # As a proxy on this host tells it; uvicorn believes it from there alone.
    behind = plain.post("/login", data={"key": key}, headers={"x-forwarded-proto": "https"})
    assert "; Secure" in behind.headers["set-cookie"]
    assert behind.headers["strict-transport-security"] == "max-age=31536000"
    public = open_site(public_url="https://headway.example")
    answer = public.post("/login", data={"key": key})
    assert "; Secure" in answer.headers["set-cookie"]
    assert "strict-transport-security" in answer.headers


def test_every_reply_has_the_headers_that_keep_others_out(site: httpx.Client) -> None:
    for path in ("/login", ME, "/healthz", "/nowhere"):
        headers = site.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["permissions-policy"].startswith("camera=()")
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
    assert "cache-control" not in site.get("/static/icon.svg").headers


def test_a_write_of_a_session_needs_its_token_and_our_own_page(
    site: httpx.Client, key: str
) -> None:
    token = log_in(site, key)
    assert CSRF_HEADER in refused(site.post(KEYS, json=NEW_KEY), 403)
    assert CSRF_HEADER in refused(
        site.post(KEYS, json=NEW_KEY, headers={CSRF_HEADER: b"\xe9"}), 403
    )
    ours = {CSRF_HEADER: token}
    for foreign in (
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ):
        said = refused(site.post(KEYS, json=NEW_KEY, headers=ours | foreign), 403)
        assert "another site" in said
    own = {"origin": str(site.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
    assert site.post(KEYS, json=NEW_KEY, headers=ours | own).status_code == 201
    # A key is shown by whoever sends it, so no page can make a browser do that.
    named = {**NEW_KEY, "name": "second"}
    site.cookies.clear()
    assert site.post(KEYS, json=named, headers=bearer(key)).status_code == 201
    assert (
        site.post("/login", data={"key": key}, headers={"sec-fetch-site": "cross-site"}).status_code
        == 403
    )


def test_wrong_logins_are_throttled_with_words_and_a_right_one_is_forgiven(
    site: httpx.Client, key: str, clock: VirtualClock
) -> None:
    wrong = {"key": "hw_" + "0" * 64}
    for _ in range(TRIES_MAX - 1):
        answer = site.post("/login", data=wrong)
        assert answer.status_code == 401
        assert "This API key is invalid" in answer.text
    log_in(site, key)
    site.cookies.clear()
    for _ in range(TRIES_MAX):
        assert site.post("/login", data=wrong).status_code == 401
    for data in (wrong, {"key": key}):
        answer = site.post("/login", data=data)
        assert answer.status_code == 429
        assert "Too many wrong logins from this address; try again in 15 minutes." in answer.text
        assert answer.headers["retry-after"] == "900"
    assert site.get("/login/" + "0" * 32).status_code == 429
    clock.sleep(900)
    log_in(site, key)


def test_a_link_works_once_and_says_so_the_second_time(
    site: httpx.Client, access: ApiKeys, clock: VirtualClock
) -> None:
    link = access.add_link(OPS, expires_at=clock.now() + HOUR, now=clock.now())
    ahead = site.get(f"/login/{link}", headers={"sec-purpose": "prefetch;prerender"})
    assert ahead.status_code == 503
    answer = site.get(f"/login/{link}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert site.get(ME).json() == {
        "name": "ops", "role": "operator", "seller": None,
        "may": ["read", "write", "oversee", "operate"],
    }  # fmt: skip
    assert site.get(f"/login/{link}").headers["location"] == "/", "here it was used"
    site.cookies.clear()
    again = site.get(f"/login/{link}")
    assert again.status_code == 401
    assert "was used before" in again.text
    late = access.add_link(OPS, expires_at=clock.now() + HOUR, now=clock.now())
    clock.sleep(3600)
    assert site.get(f"/login/{late}").status_code == 401


def test_whoever_asks_too_often_is_told_to_wait_and_others_are_not(
    open_site: Open, access: ApiKeys, key: str, clock: VirtualClock
) -> None:
    site = open_site(requests_per_minute=3)
    other = access.add_key(AccessGrant(name="other", role=Role.READER), now=clock.now())[1]
    for _ in range(3):
        assert site.get(ME, headers=bearer(key)).status_code == 200
    answer = site.get(ME, headers=bearer(key))
    assert "more than 3 requests a minute" in refused(answer, 429)
    assert answer.headers["retry-after"] == "20"
    assert site.get(ME, headers=bearer(other)).status_code == 200
    clock.sleep(20)
    assert site.get(ME, headers=bearer(key)).status_code == 200
    for _ in range(3):
        assert site.get(ME).status_code == 401
    assert refused(site.get(ME), 429)


def test_a_body_that_is_too_large_is_not_read(site: httpx.Client, key: str) -> None:
    large = b"x" * 1_000_001
    assert "1,000,000 bytes" in refused(site.post(KEYS, content=large, headers=bearer(key)), 413)

    def pieces() -> Iterator[bytes]:
        for _ in range(11):
            yield b"x" * 100_000

    assert "1,000,000" in refused(site.post(KEYS, content=pieces(), headers=bearer(key)), 413)
    assert site.post("/login", content=b"key=" + b"x" * 5000).status_code == 413


def test_keys_are_made_listed_and_revoked_by_an_operator_alone(
    site: httpx.Client, key: str, access: ApiKeys, clock: VirtualClock
) -> None:
    made = site.post(KEYS, json=NEW_KEY, headers=bearer(key)).json()
    assert made["key"].startswith(made["prefix"])
    listed = site.get(KEYS, headers=bearer(key))
    assert made["key"] not in listed.text
    assert {each["name"] for each in listed.json()["keys"]} == {"ops", "ci"}
    refused(site.post(KEYS, json=NEW_KEY, headers=bearer(key)), 409)
    for wrong in (
        {"name": "x", "role": "seller"},
        {"name": "x", "role": "operator", "seller": "acme"},
        {"name": " ", "role": "reader"},
        {"name": "x", "role": "king"},
        {"name": "x", "role": "reader", "expires_at": "2026-01-01T00:00:00"},
    ):
        refused(site.post(KEYS, json=wrong, headers=bearer(key)), 422)
    seller = AccessGrant(name="s", role=Role.SELLER, seller=SellerId("acme"))
    for grant in (seller, AccessGrant(name="r", role=Role.READER)):
        _, theirs = access.add_key(grant, now=clock.now())
        refused(site.get(KEYS, headers=bearer(theirs)), 403)
    refused(site.delete(f"{KEYS}/nothing", headers=bearer(key)), 404)


def stored(pool: ConnectionPool) -> Iterator[str]:
    """Yield everything that the database holds, as text."""
    tables = (
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    with pool.connection() as connection:
        for (table,) in connection.execute(tables).fetchall():
            for (row,) in connection.execute(f"SELECT t::text FROM {table} AS t"):
                yield row


def test_no_secret_is_ever_logged_shown_or_stored(
    site: httpx.Client,
    key: str,
    pool: ConnectionPool,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    link = ApiKeys(pool).add_link(OPS, expires_at=START + HOUR, now=START)
    texts = [site.get(f"/login/{link}").text for _ in range(2)]
    site.cookies.clear()
    token = log_in(site, key)
    cookie = site.cookies[COOKIE]
    shown = {CSRF_HEADER: token}
    made = site.post(KEYS, json=NEW_KEY, headers=shown | {"Idempotency-Key": "once"}).json()["key"]
    again = site.post(KEYS, json=NEW_KEY, headers=shown | {"Idempotency-Key": "once"})
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["key"] is None
    mangled = key[:-1] + "g"
    answers = (
        again,
        site.get(KEYS),
        site.get(ME, headers=bearer(mangled)),
        site.post("/login", data={"key": mangled}),
        site.post(KEYS, json={**NEW_KEY, "expires_at": key}, headers=shown),
    )
    assert [each.status_code for each in answers] == [201, 200, 401, 401, 422]
    clients = ("httpx", "httpcore")
    logged = [each.getMessage() for each in caplog.records if not each.name.startswith(clients)]
    texts += [*(each.text for each in answers), *logged, *capfd.readouterr(), *stored(pool)]
    for secret in (key[3:], mangled[3:], made[3:], cookie, token, link):
        assert not any(secret in each for each in texts)


def test_a_link_that_another_site_opens_is_not_used_up(
    site: httpx.Client, access: ApiKeys, key: str, clock: VirtualClock
) -> None:
    log_in(site, key)
    link = access.add_link(OPS, expires_at=clock.now() + HOUR, now=clock.now())
    foreign = site.get(f"/login/{link}", headers={"sec-fetch-site": "cross-site"})
    assert foreign.status_code == 403
    assert access.take_link(link, now=clock.now()) is not None


@pytest.mark.parametrize("origin", ("http://[", "null", "//", "https://evil.test"))
def test_whatever_a_browser_calls_its_origin_a_foreign_page_is_refused(
    site: httpx.Client, key: str, origin: str
) -> None:
    assert site.post("/login", data={"key": key}, headers={"origin": origin}).status_code == 403


def test_hosts_that_a_socket_for_both_kinds_names_are_counted_one_by_one(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    site = create(build(Settings(data_dir=tmp_path), clock, pool), wall=clock)
    guessing = Asking(site, client=("::ffff:192.0.2.1", 50_000))
    for _ in range(TRIES_MAX + 1):
        last = guessing.post("/login", data={"key": "hw_wrong"})
    assert last.status_code == 429
    other = Asking(site, client=("::ffff:192.0.2.2", 50_000))
    assert other.post("/login", data={"key": "hw_wrong"}).status_code == 401


def ends(lines: Iterator[str]) -> bool:
    """Tell whether a stream ends before our patience does."""
    give_up_s = SystemClock().monotonic() + PATIENCE_S
    return all(SystemClock().monotonic() < give_up_s for _ in lines)


def test_a_stream_ends_soon_after_its_key_was_revoked_or_its_browser_logged_out(
    pool: ConnectionPool, access: ApiKeys, key: str, clock: VirtualClock, tmp_path: Path
) -> None:
    app = build(Settings(data_dir=tmp_path), clock, pool)
    taken = listen("127.0.0.1", 0)
    serving = SiteServer(create(app, wall=clock, refresh_s=0.02, ask_again_s=0.02), taken)
    serving.start()
    try:
        with httpx.Client(base_url=address(taken), timeout=20, trust_env=False) as site:
            token = log_in(site, key)
            with site.stream("GET", "/live") as watched:
                lines = watched.iter_lines()
                assert next(lines).startswith("retry")
                site.post("/logout", headers={CSRF_HEADER: token})
                assert ends(lines)
            with site.stream("GET", "/live", headers=bearer(key)) as watched:
                lines = watched.iter_lines()
                assert next(lines).startswith("retry")
                access.revoke_key("ops", now=clock.now())
                assert ends(lines)
            assert site.get("/live", headers=bearer(key)).status_code == 401
    finally:
        serving.stop()


def test_nobody_opens_streams_without_end(
    open_site: Open, key: str, access: ApiKeys, clock: VirtualClock
) -> None:
    site = open_site()
    limits = httpx.Limits(max_connections=STREAMS_MAX + 10)
    with ExitStack() as open_ones:
        many = open_ones.enter_context(
            httpx.Client(base_url=site.base_url, timeout=20, trust_env=False, limits=limits)
        )
        for _ in range(STREAMS_MAX):
            watched = open_ones.enter_context(many.stream("GET", "/live", headers=bearer(key)))
            assert watched.status_code == 200
        assert many.get("/live", headers=bearer(key)).status_code == 429
        other = access.add_key(AccessGrant(name="other", role=Role.READER), now=clock.now())[1]
        with many.stream("GET", "/live", headers=bearer(other)) as watched:
            assert watched.status_code == 200
