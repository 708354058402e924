"""Authentication: keys, sessions and the login, over a real server and a real database."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from psycopg_pool import ConnectionPool
from tests.conftest import HTTP_TIMEOUT_S, NO_ROOTS, START
from tests.web.api_requests import ApiClient
from tests.web.login_requests import HOUR, KEYS, ME, OPS, OpenSite, bearer, log_in, refused

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
def site(open_site: OpenSite) -> httpx.Client:
    return open_site()


def test_a_request_without_a_valid_key_is_refused_with_a_hint(site: httpx.Client, key: str) -> None:
    response = site.get(ME)
    assert "headway key create" in refused(response, 401)
    assert response.headers["www-authenticate"] == "Bearer"
    for wrong in ("", "Bearer", "Bearer hw_", f"Basic {key}", f"Bearer {key}0", f"Bearer{key}"):
        detail = refused(site.get(ME, headers={"Authorization": wrong}), 401)
        assert key not in detail
    assert site.get(ME, headers=bearer(key)).json()["may"] == [
        "read", "write", "oversee", "operate", "permit",
    ]  # fmt: skip
    page = site.get("/", headers={"accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (303, "/login")
    assert site.get("/live", headers={"accept": "text/event-stream"}).status_code in {401, 404}
    assert site.get("/healthz").status_code == 200


def test_an_expired_or_revoked_key_is_refused(
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


def test_a_browser_logs_in_with_a_key_and_out_again(
    site: httpx.Client, key: str, pool: ConnectionPool
) -> None:
    form = site.get("/login?next=/parts")
    assert form.status_code == 200
    assert 'name="next" value="/parts"' in form.text
    site.cookies.set(COOKIE, "0" * 64)
    response = site.post("/login", data={"key": f" {key} ", "next": "/parts?q=a"})
    assert response.headers["location"] == "/parts?q=a"
    cookie = response.headers["set-cookie"].split(f"{COOKIE}=")[-1]
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


def test_the_login_redirects_only_to_pages_of_this_site(site: httpx.Client, key: str) -> None:
    for elsewhere in (
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "evil",
        "/\n/x",
    ):
        response = site.post("/login", data={"key": key, "next": elsewhere})
        assert response.headers["location"] == "/"


def test_a_session_ends_after_its_time_and_with_its_key(
    open_site: OpenSite, access: ApiKeys, clock: VirtualClock
) -> None:
    site = open_site(session_h=2)
    made, secret = access.add_key(OPS, now=clock.now())
    log_in(site, secret)
    clock.sleep(2 * 3600)
    refused(site.get(ME), 401)
    log_in(site, secret)
    access.revoke_key(made.id, now=clock.now())
    refused(site.get(ME), 401)


def test_over_https_the_cookie_is_secure_and_hsts_is_sent(open_site: OpenSite, key: str) -> None:
    plain = open_site()
    assert "strict-transport-security" not in plain.get("/login").headers
    # As a proxy on this host sends it; uvicorn trusts the header only from there.
    via_proxy = plain.post("/login", data={"key": key}, headers={"x-forwarded-proto": "https"})
    assert "; Secure" in via_proxy.headers["set-cookie"]
    assert via_proxy.headers["strict-transport-security"] == "max-age=31536000"
    public = open_site(public_url="https://headway.example")
    response = public.post("/login", data={"key": key})
    assert "; Secure" in response.headers["set-cookie"]
    assert "strict-transport-security" in response.headers


def test_every_response_has_the_security_headers(site: httpx.Client) -> None:
    for path in ("/login", ME, "/healthz", "/nowhere"):
        headers = site.get(path).headers
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["permissions-policy"].startswith("camera=()")
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
    assert "cache-control" not in site.get("/static/icon.svg").headers


def test_a_write_with_a_session_needs_its_csrf_token_and_the_same_origin(
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
        detail = refused(site.post(KEYS, json=NEW_KEY, headers=ours | foreign), 403)
        assert "another site" in detail
    own = {"origin": str(site.base_url).rstrip("/"), "sec-fetch-site": "same-origin"}
    assert site.post(KEYS, json=NEW_KEY, headers=ours | own).status_code == 201
    # A browser never adds a key by itself, so another site cannot use one.
    named = {**NEW_KEY, "name": "second"}
    site.cookies.clear()
    assert site.post(KEYS, json=named, headers=bearer(key)).status_code == 201
    assert (
        site.post("/login", data={"key": key}, headers={"sec-fetch-site": "cross-site"}).status_code
        == 403
    )


def test_wrong_logins_are_throttled_and_a_right_one_resets_the_count(
    site: httpx.Client, key: str, clock: VirtualClock
) -> None:
    wrong = {"key": "hw_" + "0" * 64}
    for _ in range(TRIES_MAX - 1):
        response = site.post("/login", data=wrong)
        assert response.status_code == 401
        assert "This API key is invalid" in response.text
    log_in(site, key)
    site.cookies.clear()
    for _ in range(TRIES_MAX):
        assert site.post("/login", data=wrong).status_code == 401
    for data in (wrong, {"key": key}):
        response = site.post("/login", data=data)
        assert response.status_code == 429
        assert "Too many wrong logins from this address; try again in 15 minutes." in response.text
        assert response.headers["retry-after"] == "900"
    assert site.get("/login/" + "0" * 32).status_code == 429
    clock.sleep(900)
    log_in(site, key)


def test_a_login_link_works_once(site: httpx.Client, access: ApiKeys, clock: VirtualClock) -> None:
    link = access.add_link(OPS, expires_at=clock.now() + HOUR, now=clock.now())
    ahead = site.get(f"/login/{link}", headers={"sec-purpose": "prefetch;prerender"})
    assert ahead.status_code == 503
    response = site.get(f"/login/{link}")
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert site.get(ME).json() == {
        "name": "ops", "role": "operator", "seller": None, "main_seller": None,
        "may": ["read", "write", "oversee", "operate", "permit"],
    }  # fmt: skip
    assert site.get(f"/login/{link}").headers["location"] == "/", "here it was used"
    site.cookies.clear()
    again = site.get(f"/login/{link}")
    assert again.status_code == 401
    assert "was used before" in again.text
    late = access.add_link(OPS, expires_at=clock.now() + HOUR, now=clock.now())
    clock.sleep(3600)
    assert site.get(f"/login/{late}").status_code == 401


def test_the_request_limit_counts_each_key_separately(
    open_site: OpenSite, access: ApiKeys, key: str, clock: VirtualClock
) -> None:
    site = open_site(requests_per_minute=3)
    other = access.add_key(AccessGrant(name="other", role=Role.READER), now=clock.now())[1]
    for _ in range(3):
        assert site.get(ME, headers=bearer(key)).status_code == 200
    response = site.get(ME, headers=bearer(key))
    assert "more than 3 requests a minute" in refused(response, 429)
    assert response.headers["retry-after"] == "20"
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


def test_only_an_operator_creates_lists_and_revokes_keys(
    site: httpx.Client, key: str, access: ApiKeys, clock: VirtualClock
) -> None:
    made = site.post(KEYS, json=NEW_KEY, headers=bearer(key)).json()
    assert made["key"].startswith(made["prefix"])
    listed = site.get(KEYS, headers=bearer(key))
    assert made["key"] not in listed.text
    assert {key["name"] for key in listed.json()["keys"]} == {"ops", "ci"}
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
        _, reader_key = access.add_key(grant, now=clock.now())
        refused(site.get(KEYS, headers=bearer(reader_key)), 403)
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
    csrf = {CSRF_HEADER: token}
    made = site.post(KEYS, json=NEW_KEY, headers=csrf | {"Idempotency-Key": "once"}).json()["key"]
    again = site.post(KEYS, json=NEW_KEY, headers=csrf | {"Idempotency-Key": "once"})
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["key"] is None
    mangled = key[:-1] + "g"
    responses = (
        again,
        site.get(KEYS),
        site.get(ME, headers=bearer(mangled)),
        site.post("/login", data={"key": mangled}),
        site.post(KEYS, json={**NEW_KEY, "expires_at": key}, headers=csrf),
    )
    assert [response.status_code for response in responses] == [201, 200, 401, 401, 422]
    clients = ("httpx", "httpcore")
    logged = [
        record.getMessage() for record in caplog.records if not record.name.startswith(clients)
    ]
    texts += [
        *(response.text for response in responses),
        *logged,
        *capfd.readouterr(),
        *stored(pool),
    ]
    for secret in (key[3:], mangled[3:], made[3:], cookie, token, link):
        assert not any(secret in text for text in texts)


def test_a_login_link_opened_by_another_site_is_not_used_up(
    site: httpx.Client, access: ApiKeys, key: str, clock: VirtualClock
) -> None:
    log_in(site, key)
    link = access.add_link(OPS, expires_at=clock.now() + HOUR, now=clock.now())
    foreign = site.get(f"/login/{link}", headers={"sec-fetch-site": "cross-site"})
    assert foreign.status_code == 403
    assert access.take_link(link, now=clock.now()) is not None


@pytest.mark.parametrize("origin", ("http://[", "null", "//", "https://evil.test"))
def test_a_cross_site_request_is_refused_whatever_its_origin_header(
    site: httpx.Client, key: str, origin: str
) -> None:
    assert site.post("/login", data={"key": key}, headers={"origin": origin}).status_code == 403


def test_ipv4_mapped_addresses_are_counted_separately(
    pool: ConnectionPool, clock: VirtualClock, tmp_path: Path
) -> None:
    site = create(build(Settings(data_dir=tmp_path), clock, pool), real_time=clock)
    guessing = ApiClient(site, client=("::ffff:192.0.2.1", 50_000))
    for _ in range(TRIES_MAX + 1):
        last = guessing.post("/login", data={"key": "hw_wrong"})
    assert last.status_code == 429
    other = ApiClient(site, client=("::ffff:192.0.2.2", 50_000))
    assert other.post("/login", data={"key": "hw_wrong"}).status_code == 401


def ends(lines: Iterator[str]) -> bool:
    """Return True if a stream ends within the timeout."""
    give_up_s = SystemClock().monotonic() + PATIENCE_S
    return all(SystemClock().monotonic() < give_up_s for _ in lines)


def test_a_stream_ends_soon_after_a_revocation_or_a_logout(
    pool: ConnectionPool, access: ApiKeys, key: str, clock: VirtualClock, tmp_path: Path
) -> None:
    app = build(Settings(data_dir=tmp_path), clock, pool)
    listener = listen("127.0.0.1", 0)
    server = SiteServer(create(app, real_time=clock, refresh_s=0.02, ask_again_s=0.02), listener)
    server.start()
    try:
        with httpx.Client(
            base_url=address(listener), timeout=HTTP_TIMEOUT_S, trust_env=False, verify=NO_ROOTS
        ) as site:
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
        server.stop()


def test_the_number_of_open_streams_is_limited(
    open_site: OpenSite, key: str, access: ApiKeys, clock: VirtualClock
) -> None:
    site = open_site()
    limits = httpx.Limits(max_connections=STREAMS_MAX + 10)
    with ExitStack() as open_ones:
        many = open_ones.enter_context(
            httpx.Client(
                base_url=site.base_url,
                timeout=HTTP_TIMEOUT_S,
                trust_env=False,
                limits=limits,
                verify=NO_ROOTS,
            )
        )
        for _ in range(STREAMS_MAX):
            watched = open_ones.enter_context(many.stream("GET", "/live", headers=bearer(key)))
            assert watched.status_code == 200
        assert many.get("/live", headers=bearer(key)).status_code == 429
        log_in(site, key)
        assert site.get("/live").status_code == 429, "a session counts with its key"
        other = access.add_key(AccessGrant(name="other", role=Role.READER), now=clock.now())[1]
        with many.stream("GET", "/live", headers=bearer(other)) as watched:
            assert watched.status_code == 200
