"""Nobody is disconnected by a misunderstanding, on any platform, in either lane."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool
from tests.engine.refusal_setup import APP, Platforms, make_platforms

from headway.core.accounts.jobs import REVIVE_EVERY, DataKind, PlatformName
from headway.core.accounts.webhooks import Webhook, WebhookEffect
from headway_lab.platforms import ETSY, PLATFORMS, PRINTIFY, SHOPIFY
from headway_lab.simulators.edge import html_page, json_error
from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.virtual_clock import VirtualClock

# What says nothing about a token: pages of a firewall, and errors whose meaning is unknown.
MISUNDERSTANDINGS = {
    "a page with 403": html_page(403),
    "a page with 401": html_page(401),
    "a page with 404": html_page(404),
    "a page with 400": html_page(400),
    "an unknown 403": json_error(403, "No user was provided as part of the bearer token."),
    "an unknown 404": json_error(404, "Resource not found"),
    "an unknown 400": json_error(400, "Bad Request"),
}
TOKEN_PATHS = {SHOPIFY: "oauth/access_token", ETSY: "oauth/token"}


@pytest.fixture
def platforms(pool: ConnectionPool, clock: VirtualClock, tmp_path: Path) -> Platforms:
    return make_platforms(pool, clock, tmp_path)


def check_all_is_well(platforms: Platforms) -> None:
    """Check that nobody was disconnected, and that all is read again without a person."""
    assert platforms.statuses() == {"connected"}
    healed_at = platforms.clock.now()
    platforms.run(0.75)
    assert platforms.late_since(healed_at) == []
    assert platforms.one("SELECT count(*) FROM sync_jobs WHERE status = 'dead'") == 0
    assert platforms.one("SELECT count(*) FROM notices") == 0


@pytest.mark.parametrize("reply", MISUNDERSTANDINGS.values(), ids=MISUNDERSTANDINGS)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_replies_that_say_nothing_about_a_token_end_no_connection(
    platforms: Platforms, platform: PlatformName, reply: SimReply
) -> None:
    for number in range(2):
        platforms.connect(platform, f"s{number}")
    platforms.run(0.1)
    platforms.edges[platform].reply = reply
    platforms.run(1)
    platforms.edges[platform].reply = None
    check_all_is_well(platforms)


@pytest.mark.parametrize(
    "reply",
    (html_page(400), html_page(401), html_page(500), json_error(400, "Server Error")),
    ids=("page 400", "page 401", "page 500", "unknown 400"),
)
@pytest.mark.parametrize("platform", TOKEN_PATHS)
def test_a_token_endpoint_that_is_out_of_order_costs_no_refresh_token(
    platforms: Platforms, platform: PlatformName, reply: SimReply
) -> None:
    platforms.connect(platform, "s1", refreshes=True)
    platforms.edges[platform].reply = reply
    platforms.edges[platform].path = TOKEN_PATHS[platform]
    while not platforms.edges[platform].answered:
        platforms.run(0.2)  # the access token has to expire first
    platforms.run(1)
    platforms.edges[platform].reply = None
    check_all_is_well(platforms)


@pytest.mark.parametrize("wrong", ({"client_secret": "another"}, {"client_id": "another"}))
def test_a_wrong_secret_of_our_app_costs_no_shop(
    platforms: Platforms, wrong: dict[str, str]
) -> None:
    platforms.connect(SHOPIFY, "s1", refreshes=True)
    tokens = platforms.simulators[SHOPIFY].tokens("s1.myshopify.com")
    tokens._app = replace(tokens._app, **wrong)
    platforms.run(3)
    tokens._app = APP
    check_all_is_well(platforms)


def revoke(platforms: Platforms, platform: PlatformName, seller: str, shop: str) -> None:
    """Take our access to a shop away, as its owner does."""
    simulator = platforms.simulators[platform]
    if platform == SHOPIFY:
        simulator.tokens(shop).revoke()
    elif platform == ETSY:
        simulator.tokens.revoke(simulator.shop(int(shop)).owner.user_id)
    else:
        simulator.revoke(seller)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_token_that_stays_refused_ends_the_connection_after_half_an_hour(
    platforms: Platforms, platform: PlatformName
) -> None:
    shops = {f"s{number}": platforms.connect(platform, f"s{number}") for number in range(3)}
    platforms.run(0.2)
    revoke(platforms, platform, "s1", shops["s1"])
    platforms.run(0.4)
    assert platforms.statuses() == {"connected"}
    refusals, until, reason = platforms.one(
        "SELECT refusals, wait_until, wait_reason FROM connected_accounts WHERE user_id = 's1'"
    )
    assert refusals in {1, 2, 3}
    assert until > platforms.clock.now()
    waits = "SELECT min(next_run_at), count(*) FROM sync_jobs WHERE user_id = 's1'"
    assert platforms.one(waits)[0] >= until
    assert platforms.one(f"{waits} AND wait_reason = %s", reason)[1] >= 1
    platforms.run(0.5)
    states = dict(platforms.ask("SELECT user_id, status FROM connected_accounts"))
    assert states == {"s0": "connected", "s1": "disconnected", "s2": "connected"}
    assert platforms.ask("SELECT user_id, topic FROM notices") == [("s1", "account_disconnected")]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_one_good_answer_resets_the_refusals(platforms: Platforms, platform: PlatformName) -> None:
    platforms.connect(platform, "s1")
    platforms.run(0.2)
    refusal = {
        ETSY: json_reply({"error": "invalid_grant"}, status=400),
        SHOPIFY: json_reply({"errors": "[API] Invalid API key or access token"}, status=401),
        PRINTIFY: json_reply({"status": "error", "message": "Unauthenticated."}, status=401),
    }[platform]
    platforms.edges[platform].reply = refusal
    platforms.edges[platform].path = TOKEN_PATHS[ETSY] if platform == ETSY else ""
    while not platforms.one("SELECT refusals FROM connected_accounts"):
        platforms.run(0.1)  # Etsy's access token has to expire first
    platforms.run(0.2)
    assert platforms.one("SELECT refusals FROM connected_accounts") > 0
    platforms.edges[platform].reply = None
    platforms.run(0.5)
    assert platforms.one("SELECT refusals, wait_until, wait_reason FROM connected_accounts") == (
        0,
        None,
        "",
    )
    check_all_is_well(platforms)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_accounts_that_are_refused_together_stay_connected(
    platforms: Platforms, platform: PlatformName
) -> None:
    shops = {f"s{number}": platforms.connect(platform, f"s{number}") for number in range(5)}
    platforms.run(0.2)
    for seller, shop in list(shops.items())[:4]:
        revoke(platforms, platform, seller, shop)
    platforms.run(2)
    assert platforms.statuses() == {"connected"}


def test_a_scope_that_etsy_wrongly_calls_missing_ends_no_connection(platforms: Platforms) -> None:
    for number in range(5):
        platforms.connect(ETSY, f"s{number}")
    platforms.run(0.2)
    platforms.simulators[ETSY].denies_scopes = True
    platforms.run(3)
    assert platforms.statuses() == {"connected"}
    platforms.simulators[ETSY].denies_scopes = False
    check_all_is_well(platforms)


def test_a_scope_that_is_missing_indeed_ends_the_connection(platforms: Platforms) -> None:
    shop = platforms.connect(ETSY, "s1")
    platforms.run(0.2)
    platforms.simulators[ETSY].grant(int(shop), scopes=["shops_r"])
    platforms.run(1)
    status, reason = platforms.one("SELECT status, reason FROM connected_accounts")
    assert (status, "did not grant" in reason) == ("disconnected", True)


@pytest.mark.parametrize("status", (402, 423))
def test_a_frozen_or_locked_shop_waits_ever_longer_and_resumes(
    platforms: Platforms, status: int
) -> None:
    shop = platforms.connect(SHOPIFY, "s1")
    platforms.run(0.2)
    platforms.simulators[SHOPIFY].closed[shop] = status
    begun, calls = platforms.clock.now(), platforms.simulators[SHOPIFY].requests
    platforms.run(9)
    assert platforms.simulators[SHOPIFY].requests - calls <= 6
    until, reason = platforms.one("SELECT wait_until, wait_reason FROM connected_accounts")
    assert until - platforms.clock.now() <= timedelta(days=1)
    assert until - begun > timedelta(hours=12), "each wait is twice as long as the last"
    assert "Shopify" in reason
    platforms.simulators[SHOPIFY].closed.clear()
    platforms.clock.sleep((until - platforms.clock.now()).total_seconds())
    check_all_is_well(platforms)


def test_a_shop_that_was_renamed_is_followed(platforms: Platforms) -> None:
    old = platforms.connect(SHOPIFY, "s1")
    platforms.run(0.2)
    platforms.simulators[SHOPIFY].rename(old, "renamed.myshopify.com")
    renamed_at = platforms.clock.now()
    platforms.run(0.5)
    shop, refusals = platforms.one("SELECT shop, refusals FROM connected_accounts")
    assert (shop, refusals) == ("renamed.myshopify.com", 0)
    assert platforms.late_since(renamed_at) == []
    event = "SELECT new_value ->> 'shop' FROM sync_audit_log WHERE event_type = 'account_renamed'"
    assert platforms.ask(event) == [("renamed.myshopify.com",)]


@pytest.mark.parametrize(
    "target", ("evil.example", "s1.myshopify.com", "s2.myshopify.com", "nowhere.myshopify.com")
)
def test_a_redirect_that_leads_elsewhere_is_not_followed(platforms: Platforms, target: str) -> None:
    """A foreign host, itself, a shop that leads back, and one that refuses our token."""
    shop = platforms.connect(SHOPIFY, "s1")
    platforms.run(0.1)
    moved = platforms.simulators[SHOPIFY].moved
    moved[shop] = target
    moved["s2.myshopify.com"] = shop
    calls = platforms.simulators[SHOPIFY].requests
    platforms.run(0.5)
    assert platforms.one("SELECT shop, status FROM connected_accounts") == (shop, "connected")
    assert platforms.simulators[SHOPIFY].requests - calls < 40
    assert not any("evil.example" in path for path in platforms.edges[SHOPIFY].paths)
    moved.clear()
    check_all_is_well(platforms)


def test_an_order_that_printify_forbids_is_set_aside_alone(platforms: Platforms) -> None:
    shop = platforms.connect(PRINTIFY, "s1")
    order = platforms.simulators[PRINTIFY].place_order(int(shop))
    platforms.run(0.2)
    platforms.edges[PRINTIFY].reply = json_error(403, "Forbidden")
    platforms.edges[PRINTIFY].path = f"/orders/{order}.json"
    hook = Webhook(
        platform=PRINTIFY,
        delivery_id="1",
        shop=shop,
        topic="order:updated",
        effect=WebhookEffect.WAKE,
        kind=DataKind.ORDERS,
        external_id=order,
    )
    begun = platforms.clock.now()
    platforms.app.webhooks.take(hook, now=begun)
    platforms.run(0.5)
    assert platforms.edges[PRINTIFY].answered > 0
    assert platforms.statuses() == {"connected"}
    assert platforms.late_since(begun) == []


def test_a_job_that_died_of_its_accounts_outage_comes_back_by_itself(platforms: Platforms) -> None:
    platforms.connect(ETSY, "s1")
    platforms.run(0.2)
    platforms.edges[ETSY].reply = json_error(404, "Resource not found")
    platforms.edges[ETSY].path = "/application/shops/"
    dead = "SELECT count(*) FROM sync_jobs WHERE status = 'dead'"
    while not platforms.one(dead):
        platforms.run(4)
    begun_at = "SELECT min(created_at) FROM sync_jobs"
    assert platforms.clock.now() - platforms.one(begun_at) > timedelta(hours=24)
    tick = platforms.app.tick()
    for _ in range(2):
        platforms.run(1 + REVIVE_EVERY / timedelta(hours=1))
        tick.step()
    revived = "SELECT job_id FROM sync_audit_log WHERE event_type = 'job_revived'"
    assert len(platforms.ask(revived)) > len(set(platforms.ask(revived))), "it is tried again"
    subjects = platforms.ask("SELECT split_part(subject, ' ', 1) FROM notices")
    assert len(subjects) == len(set(subjects)), "the seller is notified once of each job"
    assert platforms.statuses() == {"connected"}
    platforms.edges[ETSY].reply = None
    healed_at = platforms.clock.now()
    platforms.run(1 + REVIVE_EVERY / timedelta(hours=1))
    tick.step()
    platforms.run(0.5)
    assert platforms.late_since(healed_at) == []
    assert platforms.one(dead) == 0


@pytest.mark.parametrize("platform", PLATFORMS)
def test_ten_minutes_of_a_wrong_403_disconnect_nobody_and_delay_nobody_for_long(
    platforms: Platforms, platform: PlatformName
) -> None:
    for number in range(6):
        platforms.connect(platform, f"s{number}")
    platforms.run(0.2)
    platforms.edges[platform].reply = html_page(403)
    platforms.run(1 / 6)
    platforms.edges[platform].reply = None
    healed_at = platforms.clock.now()
    platforms.run(0.2)
    assert platforms.statuses() == {"connected"}
    assert platforms.late_since(healed_at) == [], "twice the interval of its tier is ten minutes"
