"""A connect link that returns its visitor to an application, over a real server and database."""

import hmac
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest
from pydantic import SecretStr
from tests.web.test_oauth import (
    RETURN_SECRET,
    RETURN_URL,
    Execute,
    World,
    execute,
    make,
    refused,
    world,
)

from headway.app.accounts import connect_account
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, InvalidError
from headway.operations.callers import operator
from headway.operations.shop_links import LinkBody, connect_link
from headway_lab.platforms import ETSY

__all__ = ["execute", "make", "world"]


def outcome_of(response: httpx.Response) -> dict[str, str]:
    """Return the outcome as an application would read it: only if its signature is right."""
    assert response.status_code == 303, response.text
    url = response.headers["location"]
    assert url.startswith(f"{RETURN_URL}&")
    fields = {name: text for name, text in parse_qsl(urlsplit(url).query) if name != "tab"}
    signature = fields.pop("headway_signature")
    text = urlencode(sorted(fields.items()))
    assert signature == hmac.new(RETURN_SECRET.encode(), text.encode(), "sha256").hexdigest()
    return fields


def linked(world: World) -> str:
    """Make a link that returns to an application, and open it; return the platform's page."""
    body = LinkBody(shop="etsy", seller=SellerId("acme"), return_url=RETURN_URL, state="visit 7")
    link = connect_link(operator(world.app, "tester"), body).link
    assert link is not None
    return world.api.get(link).headers["location"]


def test_the_person_returns_to_the_application_with_a_signed_outcome(
    world: World, execute: Execute
) -> None:
    query = world.etsy.agree(linked(world))
    response = world.back(query)
    ((account_id,),) = execute("SELECT id::text FROM connected_accounts")
    assert outcome_of(response) == {
        "headway_status": "connected",
        "headway_seller": "acme",
        "headway_platform": "etsy",
        "headway_account": account_id,
        "headway_shop": "77",
        "headway_state": "visit 7",
        "headway_at": str(int(world.clock.now().timestamp())),
    }
    assert "headway_connect_etsy" not in world.api.cookies
    refused(world.back(query), 403)


def test_a_refusal_returns_to_the_application_too_and_connects_nothing(
    world: World, execute: Execute
) -> None:
    state = world.etsy.agree(linked(world))["state"]
    outcome = outcome_of(world.back({"error": "access_denied", "state": state}))
    assert outcome["headway_status"] == "refused"
    assert outcome["headway_reason"] == "Access was not given"
    assert "headway_account" not in outcome
    now = world.clock.now()
    connect_account(world.app.pool, SellerId("zenith"), "77", platform=ETSY, now=now)
    outcome = outcome_of(world.back(world.etsy.agree(linked(world))))
    assert "77 is the shop of zenith" in outcome["headway_reason"]
    assert execute("SELECT user_id FROM connected_accounts") == [("zenith",)]


def test_a_visit_that_may_be_continued_stays_with_us(world: World) -> None:
    world.etsy.calls_a_day = 3
    assert world.back(world.etsy.agree(linked(world))).status_code == 303
    response = world.back(world.etsy.agree(linked(world)))
    assert "Load this page again in a minute" in refused(response, 503)


def test_a_link_returns_only_where_an_operator_allowed_it(world: World) -> None:
    body = LinkBody(shop="etsy", seller=SellerId("acme"), return_url="https://evil.example/done")
    caller = operator(world.app, "tester")
    with pytest.raises(InvalidError, match="HEADWAY_RETURN_URLS does not allow it"):
        connect_link(caller, body)
    settings = world.app.settings.model_copy(update={"return_secret": SecretStr("")})
    unsigned = operator(replace(world.app, settings=settings), "tester")
    with pytest.raises(ConflictError, match="HEADWAY_RETURN_SECRET must be set"):
        connect_link(unsigned, body.model_copy(update={"return_url": RETURN_URL}))
