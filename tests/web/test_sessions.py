"""Who is logged in, how they are shown out, and from where they seem to come."""

import json

import httpx
from tests.web.login_requests import HOUR, KEYS, ME, OPS, SESSIONS, Open, bearer, log_in, refused

from headway.core.access import AccessGrant, Role
from headway.core.catalog.listings import SellerId
from headway.store.access.keys import TRIES_MAX, ApiKeys
from headway.web.authentication import COOKIE
from headway.web.server import _networks
from headway_lab.virtual_clock import VirtualClock


def test_all_sessions_of_a_key_share_one_bucket_with_it(
    open_site: Open, access: ApiKeys, key: str, clock: VirtualClock
) -> None:
    site = open_site(requests_per_minute=3)
    cookies = []
    for _ in range(2):
        log_in(site, key)
        cookies.append({"cookie": f"{COOKIE}={site.cookies[COOKIE]}"})
        site.cookies.clear()
    asked = (*cookies, bearer(key))
    assert [site.get(ME, headers=each).status_code for each in asked] == [200] * 3
    assert [site.get(ME, headers=each).status_code for each in asked] == [429] * 3
    links = [access.add_link(OPS, expires_at=clock.now() + HOUR, now=clock.now()) for _ in "ab"]
    for link in links:  # whoever came by a link stands for themselves
        assert site.get(f"/login/{link}").status_code == 303
        assert [site.get(ME).status_code for _ in range(3)] == [200] * 3
        site.cookies.clear()


def test_an_operator_sees_who_is_logged_in_and_shows_them_out(
    open_site: Open, access: ApiKeys, key: str, clock: VirtualClock
) -> None:
    site = open_site()
    link = access.add_link(OPS, expires_at=clock.now() + HOUR, now=clock.now())
    assert site.get(f"/login/{link}").status_code == 303
    by_link = {"cookie": f"{COOKIE}={site.cookies[COOKIE]}"}
    site.cookies.clear()
    clock.sleep(60)
    theirs = AccessGrant(name="acme-app", role=Role.SELLER, seller=SellerId("acme"))
    made, secret = access.add_key(theirs, now=clock.now())
    for _ in range(2):
        log_in(site, secret)
        site.cookies.clear()
    found = site.get(SESSIONS, headers=bearer(key)).json()["sessions"]
    assert [(each["name"], each["seller"], each["prefix"]) for each in found] == [
        ("acme-app", "acme", made.prefix), ("acme-app", "acme", made.prefix), ("ops", None, None),
    ]  # fmt: skip
    assert {each["address"] for each in found} == {"127.0.0.1"}
    assert found[2]["last_seen_at"] == found[2]["created_at"] == "2026-01-01T00:00:00Z"
    ended = site.delete(f"{SESSIONS}/{found[2]['id']}", headers=bearer(key))
    assert ended.json() == found[2]
    refused(site.get(ME, headers=by_link), 401)
    refused(site.delete(f"{SESSIONS}/{found[2]['id']}", headers=bearer(key)), 404)
    ended = site.delete(SESSIONS, params={"name": "acme-app"}, headers=bearer(key))
    assert len(ended.json()["sessions"]) == 2
    assert site.get(SESSIONS, headers=bearer(key)).json() == {"sessions": []}
    refused(site.delete(SESSIONS, params={"name": "acme-app"}, headers=bearer(key)), 404)
    assert site.get(ME, headers=bearer(secret)).status_code == 200, "the key itself still works"
    told = site.get("/api/audit?kind=session_ended&format=jsonl", headers=bearer(key))
    lines = [json.loads(line) for line in told.text.splitlines()]
    assert [(each["actor"], each["new"]["why"]) for each in lines] == [
        ("ops", "ended by an operator")
    ] * 3


def test_a_revoked_keys_sessions_are_gone_from_the_list(
    open_site: Open, access: ApiKeys, key: str, clock: VirtualClock
) -> None:
    site = open_site()
    theirs = AccessGrant(name="brief", role=Role.READER, expires_at=clock.now() + HOUR)
    made, secret = access.add_key(theirs, now=clock.now())
    log_in(site, secret)
    cookie = {"cookie": f"{COOKIE}={site.cookies[COOKIE]}"}
    site.cookies.clear()
    assert site.delete(f"{KEYS}/{made.id}", headers=bearer(key)).status_code == 200
    refused(site.get(ME, headers=cookie), 401)
    assert site.get(SESSIONS, headers=bearer(key)).json() == {"sessions": []}


def test_a_trusted_proxy_is_believed_whom_it_speaks_for_and_nobody_else_is(
    open_site: Open, key: str
) -> None:
    def guess(site: httpx.Client, address: str) -> int:
        wrong, spoken_for = {"key": "hw_wrong"}, {"x-forwarded-for": address}
        return site.post("/login", data=wrong, headers=spoken_for).status_code

    here = open_site()
    told = [guess(here, "198.51.100.1") for _ in range(TRIES_MAX + 1)]
    assert told == [*[401] * TRIES_MAX, 429]
    assert guess(here, "198.51.100.2") == 401, "another person behind the same proxy"
    here.post("/login", data={"key": key}, headers={"x-forwarded-for": "198.51.100.3"})
    (seen,) = here.get(SESSIONS, headers=bearer(key)).json()["sessions"]
    assert seen["address"] == "198.51.100.3"
    elsewhere = open_site(trusted_proxies="192.0.2.0/24, 2001:db8::7")
    told = [guess(elsewhere, f"198.51.100.{number}") for number in range(10, 11 + TRIES_MAX)]
    assert told == [*[401] * TRIES_MAX, 429], "whoever is not trusted cannot change its address"


def test_a_socket_for_both_kinds_knows_its_proxies_by_either_name() -> None:
    assert _networks("10.1.0.0/16, ::1") == ["10.1.0.0/16", "::1/128", "::ffff:10.1.0.0/112"]
