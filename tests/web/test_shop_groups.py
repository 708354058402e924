"""One key and one login for the shops of an owner: the header, the session and the page."""

import re
from collections.abc import Callable

import httpx
import pytest
from psycopg_pool import ConnectionPool
from tests.conftest import START
from tests.web.login_requests import ME, OpenSite, bearer, log_in, refused

from headway.core.access import AccessGrant, Role
from headway.core.catalog.listings import SellerId
from headway.store.access.keys import ApiKeys
from headway.store.catalog.shop_groups import ShopGroups
from headway_lab.virtual_clock import VirtualClock

ACME, EU, BOLT = SellerId("acme"), SellerId("acme/eu"), SellerId("bolt")
PUBLISH = "/api/bulk-publish"
KeyOf = Callable[..., str]


def acting_for(seller: str) -> dict[str, str]:
    return {"Headway-Seller": seller.replace("/", "%2F")}


def shown_shop(page: httpx.Response) -> str:
    """Return the shop that a page is about."""
    found = re.search(r'data-seller="([^"]*)"', page.text)
    assert found is not None
    return found[1]


@pytest.fixture
def key_of(pool: ConnectionPool, access: ApiKeys, clock: VirtualClock) -> KeyOf:
    """Put acme/eu into the group of acme; return a function that makes keys."""
    groups = ShopGroups(pool)
    groups.put(EU, ACME, now=START)
    with pool.connection() as connection:
        for seller in (ACME, EU):
            connection.execute(
                "INSERT INTO connected_accounts (user_id, platform, shop)"
                " VALUES (%s, 'shopify', %s)",
                (seller, f"{seller.replace('/', '-')}.myshopify.com"),
            )

    def make(seller: SellerId | None, role: Role = Role.SELLER) -> str:
        grant = AccessGrant(name=f"{role} of {seller}", role=role, seller=seller)
        return access.add_key(grant, now=clock.now())[1]

    return make


def test_a_key_acts_for_the_shop_that_the_header_names(open_site: OpenSite, key_of: KeyOf) -> None:
    site, key = open_site(), bearer(key_of(ACME))
    assert site.get(ME, headers=key).json()["seller"] == ACME
    identity = site.get(ME, headers=key | acting_for(EU)).json()
    assert (identity["seller"], identity["main_seller"]) == (EU, ACME)
    shops = site.get("/api/me/shops", headers=key | acting_for(EU)).json()
    assert [shop["seller"] for shop in shops["shops"]] == [ACME, EU]
    detail = refused(site.get(ME, headers=key | acting_for(BOLT)), 403)
    assert "acme has no shop bolt" in detail
    assert "Headway-Seller" in refused(
        site.get(f"/api/sync/products?seller={BOLT}", headers=key), 403
    )
    assert "cannot be printed" in refused(
        site.get(ME, headers=key | {"Headway-Seller": "a%00"}), 422
    )
    for stranger in (key_of(EU), key_of(BOLT)):
        refused(site.get(ME, headers=bearer(stranger) | acting_for(ACME)), 403)
    assert "belongs to no seller" in refused(
        site.get(ME, headers=bearer(key_of(None, Role.OPERATOR)) | acting_for(ACME)), 403
    )


def test_what_a_key_does_for_a_shop_is_done_in_that_shop(
    open_site: OpenSite, key_of: KeyOf, pool: ConnectionPool
) -> None:
    site, key = open_site(), bearer(key_of(ACME))
    body = {"part_numbers": ["WF1=K3"]}
    # The same request for another shop is not the same request.
    once = {"Idempotency-Key": "k1"}
    first = site.post(PUBLISH, json=body, headers=key | once)
    assert "another request was sent" in refused(
        site.post(PUBLISH, json=body, headers=key | once | acting_for(EU)), 422
    )
    second = site.post(PUBLISH, json=body, headers=key | acting_for(EU))
    assert [one.json()["seller"] for one in (first, second)] == [ACME, EU]
    with pool.connection() as connection:
        rows = connection.execute("SELECT user_id, sku FROM product_staging ORDER BY 1").fetchall()
    assert rows == [(ACME, "WF1=K3"), (EU, "WF1=K3")]
    batch = f"{PUBLISH}/{second.json()['batch_id']}"
    assert site.get(batch, headers=key).status_code == 404
    assert site.get(batch, headers=key | acting_for(EU)).status_code == 200


def test_a_browser_switches_between_the_shops_of_its_owner(
    open_site: OpenSite, key_of: KeyOf, pool: ConnectionPool
) -> None:
    site = open_site()
    csrf = log_in(site, key_of(ACME))
    assert shown_shop(site.get("/parts")) == ACME
    refused(site.post("/switch", data={"seller": EU}), 403)
    assert shown_shop(site.get("/parts")) == ACME, "a form without the token does nothing"
    refused(site.post("/switch", data={"csrf": csrf, "seller": BOLT}), 403)
    reply = site.post("/switch", data={"csrf": csrf, "seller": EU})
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    page = site.get("/parts")
    assert shown_shop(page) == EU
    assert site.get(ME).json()["seller"] == EU
    # A tab that still shows the first shop acts for that one.
    assert site.get(ME, headers=acting_for(ACME)).json()["seller"] == ACME
    assert "acme-eu.myshopify.com" in site.get("/shops").text
    ShopGroups(pool).put(EU, None, now=START)
    assert shown_shop(site.get("/parts")) == ACME, "it ends at once"


def test_only_the_owner_of_several_shops_sees_a_choice(open_site: OpenSite, key_of: KeyOf) -> None:
    site = open_site()
    for key, has_choice in (
        (key_of(ACME), True),
        (key_of(EU), False),
        (key_of(None, Role.OPERATOR), False),
    ):
        log_in(site, key)
        assert ('action="/switch"' in site.get("/").text) is has_choice
        site.cookies.clear()
