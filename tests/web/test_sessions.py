"""Sessions: listing and ending them, and the address of the client."""

import json

import httpx
from tests.web.login_requests import (
    HOUR,
    KEYS,
    ME,
    OPS,
    SESSIONS,
    OpenSite,
    bearer,
    log_in,
    refused,
)

from headway.core.access import AccessGrant, Role
from headway.core.catalog.listings import SellerId
from headway.store.access.keys import TRIES_MAX, ApiKeys
from headway.web.authentication import COOKIE
from headway.web.server import _networks
from headway_lab.virtual_clock import VirtualClock


def test_all_sessions_of_a_key_share_its_request_limit(
    open_site: OpenSite, access: ApiKeys, key: str, clock: VirtualClock
) -> None:
    site = open_site(requests_per_minute=3)
    cookies = []
    for _ in range(2):
        log_in(site, key)
        cookies.append({"cookie": f"{COOKIE}={site.cookies[COOKIE]}"})
        site.cookies.clear()
    credentials = (*cookies, bearer(key))
    assert [site.get(ME, headers=headers).status_code for headers in credentials] == [200] * 3
    assert [site.get(ME, headers=headers).status_code for headers in credentials] == [429] * 3
    links = [access.add_link(OPS, expires_at=clock.now() + HOUR, now=clock.now()) for _ in "ab"]
    for link in links:  # each login link has its own limit
        assert site.get(f"/login/{link}").status_code == 303
        assert [site.get(ME).status_code for _ in range(3)] == [200] * 3
        site.cookies.clear()


def test_an_operator_lists_and_ends_sessions(
    open_site: OpenSite, access: ApiKeys, key: str, clock: VirtualClock
) -> None:
    site = open_site()
    link = access.add_link(OPS, expires_at=clock.now() + HOUR, now=clock.now())
    assert site.get(f"/login/{link}").status_code == 303
    by_link = {"cookie": f"{COOKIE}={site.cookies[COOKIE]}"}
    site.cookies.clear()
    clock.sleep(60)
    grant = AccessGrant(name="acme-app", role=Role.SELLER, seller=SellerId("acme"))
    made, secret = access.add_key(grant, now=clock.now())
    for _ in range(2):
        log_in(site, secret)
        site.cookies.clear()
    sessions = site.get(SESSIONS, headers=bearer(key)).json()["sessions"]
    assert [(session["name"], session["seller"], session["prefix"]) for session in sessions] == [
        ("acme-app", "acme", made.prefix), ("acme-app", "acme", made.prefix), ("ops", None, None),
    ]  # fmt: skip
    assert {session["address"] for session in sessions} == {"127.0.0.1"}
    assert sessions[2]["last_seen_at"] == sessions[2]["created_at"] == "2026-01-01T00:00:00Z"
    ended = site.delete(f"{SESSIONS}/{sessions[2]['id']}", headers=bearer(key))
    assert ended.json() == sessions[2]
    refused(site.get(ME, headers=by_link), 401)
    refused(site.delete(f"{SESSIONS}/{sessions[2]['id']}", headers=bearer(key)), 404)
    ended = site.delete(SESSIONS, params={"name": "acme-app"}, headers=bearer(key))
    assert len(ended.json()["sessions"]) == 2
    assert site.get(SESSIONS, headers=bearer(key)).json() == {"sessions": []}
    refused(site.delete(SESSIONS, params={"name": "acme-app"}, headers=bearer(key)), 404)
    assert site.get(ME, headers=bearer(secret)).status_code == 200, "the key itself still works"
    audit = site.get("/api/audit?kind=session_ended&format=jsonl", headers=bearer(key))
    lines = [json.loads(line) for line in audit.text.splitlines()]
    assert [(event["actor"], event["new"]["why"]) for event in lines] == [
        ("ops", "ended by an operator")
    ] * 3


def test_sessions_of_a_revoked_key_are_not_listed(
    open_site: OpenSite, access: ApiKeys, key: str, clock: VirtualClock
) -> None:
    site = open_site()
    grant = AccessGrant(name="brief", role=Role.READER, expires_at=clock.now() + HOUR)
    made, secret = access.add_key(grant, now=clock.now())
    log_in(site, secret)
    cookie = {"cookie": f"{COOKIE}={site.cookies[COOKIE]}"}
    site.cookies.clear()
    assert site.delete(f"{KEYS}/{made.id}", headers=bearer(key)).status_code == 200
    refused(site.get(ME, headers=cookie), 401)
    assert site.get(SESSIONS, headers=bearer(key)).json() == {"sessions": []}


def test_only_a_trusted_proxy_sets_the_address_of_the_client(open_site: OpenSite, key: str) -> None:
    def guess(site: httpx.Client, address: str) -> int:
        wrong, spoken_for = {"key": "hw_wrong"}, {"x-forwarded-for": address}
        return site.post("/login", data=wrong, headers=spoken_for).status_code

    here = open_site()
    codes = [guess(here, "198.51.100.1") for _ in range(TRIES_MAX + 1)]
    assert codes == [*[401] * TRIES_MAX, 429]
    assert guess(here, "198.51.100.2") == 401, "another person behind the same proxy"
    here.post("/login", data={"key": key}, headers={"x-forwarded-for": "198.51.100.3"})
    (session,) = here.get(SESSIONS, headers=bearer(key)).json()["sessions"]
    assert session["address"] == "198.51.100.3"
    elsewhere = open_site(trusted_proxies="192.0.2.0/24, 2001:db8::7")
    codes = [guess(elsewhere, f"198.51.100.{number}") for number in range(10, 11 + TRIES_MAX)]
    assert codes == [*[401] * TRIES_MAX, 429], (
        "a client that is not a trusted proxy cannot change its address"
    )


def test_a_proxy_is_known_by_its_ipv4_and_ipv6_mapped_address() -> None:
    assert _networks("10.1.0.0/16, ::1") == ["10.1.0.0/16", "::1/128", "::ffff:10.1.0.0/112"]
