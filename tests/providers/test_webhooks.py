"""What a webhook means, from its headers and its body."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.accounts.jobs import DataKind, PlatformName
from headway.core.accounts.webhooks import Webhook, WebhookEffect
from headway.errors import RequestError
from headway.providers.etsy.webhooks import TOPICS as ETSY_TOPICS
from headway.providers.registry import platform_role
from headway.providers.shopify.webhooks import TOPICS as SHOPIFY_TOPICS
from headway_lab.platforms import ETSY, PLATFORMS, PRINTIFY, SHOPIFY

SHOP = "one.myshopify.com"


def read_hook(platform: PlatformName, headers: Mapping[str, str], body: bytes) -> Webhook:
    role = platform_role(platform).webhooks
    assert role is not None
    return role.read(platform, headers, body)


def shopify(topic: str, body: object, **headers: str) -> Webhook:
    usual_headers = {
        "x-shopify-topic": topic,
        "x-shopify-webhook-id": "w-1",
        "x-shopify-shop-domain": SHOP,
        **headers,
    }
    return read_hook(SHOPIFY, usual_headers, json.dumps(body).encode())


def etsy(body: object, **headers: str) -> Webhook:
    return read_hook(ETSY, {"webhook-id": "msg_1", **headers}, json.dumps(body).encode())


def printify(body: object) -> Webhook:
    return read_hook(PRINTIFY, {}, json.dumps(body).encode())


@pytest.mark.parametrize(
    ("topic", "body", "kind", "external_id"),
    (
        ("orders/create", {"id": 82}, DataKind.ORDERS, "82"),
        ("orders/updated", {"id": 82, "order_id": 7}, DataKind.ORDERS, "82"),
        ("orders/edited", {"order_edit": {"order_id": 9}}, DataKind.ORDERS, "9"),
        ("refunds/create", {"id": 1, "order_id": 5}, DataKind.ORDERS, "5"),
        ("fulfillments/update", {"id": 1, "order_id": 5}, DataKind.ORDERS, "5"),
        ("products/delete", {"id": 3}, DataKind.LISTINGS, "3"),
        ("customers/update", {"id": 4}, DataKind.CUSTOMERS, "4"),
        ("orders/create", {"id": "gid://shopify/Order/82"}, DataKind.ORDERS, "82"),
        ("orders/create", {}, DataKind.ORDERS, None),
        ("orders/create", {"id": True}, DataKind.ORDERS, None),
        ("orders/create", {"id": 10**40}, DataKind.ORDERS, None),
        ("orders/create", {"id": "a\u0000b"}, DataKind.ORDERS, None),
    ),
)
def test_a_topic_of_shopify_names_what_to_look_at(
    topic: str, body: object, kind: DataKind, external_id: str | None
) -> None:
    hook = shopify(topic, body)
    assert (hook.effect, hook.kind, hook.external_id) == (WebhookEffect.WAKE, kind, external_id)
    assert (hook.delivery_id, hook.shop, hook.topic) == ("w-1", SHOP, topic)


def test_every_kind_that_a_topic_names_has_a_job() -> None:
    assert {kind for kind, _ in SHOPIFY_TOPICS.values()} <= set(platform_role(SHOPIFY).kinds)


SHOP_BODY = {"id": 1, "name": "One", "domain": "one.example", "myshopify_domain": SHOP}
PRIVACY_BODY = {"shop_id": 1, "shop_domain": SHOP}
BUYER = {"customer": {"id": 191, "email": "x@y"}}
SIGNED_BODIES = {
    "app/uninstalled": SHOP_BODY,
    "customers/data_request": {**PRIVACY_BODY, **BUYER, "orders_requested": [1]},
    "customers/redact": {**PRIVACY_BODY, **BUYER, "orders_to_redact": [1, "2", None, {}]},
    "shop/redact": PRIVACY_BODY,
}


def test_an_uninstalled_app_is_reported() -> None:
    assert shopify("app/uninstalled", SHOP_BODY).effect is WebhookEffect.UNINSTALL
    loud = {**SHOP_BODY, "myshopify_domain": SHOP.upper()}
    assert shopify("app/uninstalled", loud).effect is WebhookEffect.UNINSTALL


@pytest.mark.parametrize("topic", SIGNED_BODIES)
@pytest.mark.parametrize("body", ({"id": 1}, {"id": 1, "name": "x", "customer": {"id": 1}}))
def test_a_signed_body_that_names_no_shop_ends_and_erases_nothing(topic: str, body: object) -> None:
    with pytest.raises(RequestError, match="domain in the body is not the shop"):
        shopify(topic, body)


@pytest.mark.parametrize("topic", SIGNED_BODIES)
def test_a_body_sent_again_under_another_shops_name_ends_and_erases_nothing(topic: str) -> None:
    with pytest.raises(RequestError, match="domain in the body is not the shop"):
        shopify(topic, SIGNED_BODIES[topic], **{"x-shopify-shop-domain": "two.myshopify.com"})


@pytest.mark.parametrize("topic", SIGNED_BODIES)
@pytest.mark.parametrize("other", SIGNED_BODIES)
def test_a_body_sent_again_under_another_topic_ends_and_erases_nothing(
    topic: str, other: str
) -> None:
    if topic != other:
        with pytest.raises(RequestError, match=r"missing|does not belong|is not the shop"):
            shopify(topic, SIGNED_BODIES[other])


def test_the_privacy_topics_are_understood() -> None:
    redact = shopify("customers/redact", SIGNED_BODIES["customers/redact"])
    assert redact.effect is WebhookEffect.REDACT_CUSTOMER
    assert redact.external_id == "191"
    assert redact.order_ids == ("1", "2")
    request = shopify("customers/data_request", SIGNED_BODIES["customers/data_request"])
    assert (request.effect, request.external_id) == (WebhookEffect.RECORD, "191")
    whole = shopify("shop/redact", PRIVACY_BODY)
    assert (whole.effect, whole.external_id) == (WebhookEffect.REDACT_SHOP, None)


def test_a_customer_without_an_id_is_not_everybody() -> None:
    body = {**PRIVACY_BODY, "customer": {"email": "x@y"}, "orders_to_redact": []}
    with pytest.raises(RequestError, match=r"customer\.id"):
        shopify("customers/redact", body)


@pytest.mark.parametrize("topic", ("themes/publish", "bulk_operations/finish", "shop/update", "x"))
def test_a_topic_that_we_do_not_use_does_nothing(topic: str) -> None:
    assert shopify(topic, {"id": 1}).effect is WebhookEffect.NOTHING


@pytest.mark.parametrize("name", ("topic", "webhook-id", "shop-domain"))
@pytest.mark.parametrize("value", ("", "x" * 201, "a\nb"))
def test_a_header_of_shopify_that_is_missing_or_odd_is_named(name: str, value: str) -> None:
    with pytest.raises(RequestError, match="X-Shopify-") as raised:
        shopify("orders/create", {"id": 1}, **{f"x-shopify-{name}": value})
    assert raised.value.status_code == 400


@pytest.mark.parametrize("topic", sorted(ETSY_TOPICS))
def test_an_event_of_etsy_names_the_receipt(topic: str) -> None:
    body = {
        "event_type": topic,
        "resource_url": "https://api.etsy.com/v3/application/shops/77/receipts/3210",
        "shop_id": 77,
    }
    hook = etsy(body)
    assert (hook.effect, hook.kind, hook.external_id) == (
        WebhookEffect.WAKE,
        DataKind.ORDERS,
        "3210",
    )
    assert (hook.shop, hook.delivery_id, hook.topic) == ("77", "msg_1", topic)
    loud = etsy({**body, "event_type": topic.upper().replace(".", "_")})
    assert loud.topic == topic


@pytest.mark.parametrize("url", (None, 5, "", "https://x/receipts/", "https://x/receipts/12a"))
def test_an_event_of_etsy_without_a_receipt_still_wakes(url: Any) -> None:
    hook = etsy({"event_type": "order.paid", "shop_id": "77", "resource_url": url})
    assert (hook.effect, hook.external_id) == (WebhookEffect.WAKE, None)


def test_an_event_of_printify_names_the_order_and_the_shop() -> None:
    resource: dict[str, Any] = {"id": "5a96", "type": "order", "data": {"shop_id": 815}}
    hook = printify({"id": "e-1", "type": "order:shipment:created", "resource": resource})
    assert (hook.effect, hook.kind, hook.external_id) == (
        WebhookEffect.WAKE,
        DataKind.ORDERS,
        "5a96",
    )
    assert (hook.shop, hook.delivery_id) == ("815", "e-1")
    product = printify({"id": "e-2", "type": "product:deleted", "resource": resource})
    assert product.kind is DataKind.LISTINGS
    gone = {"id": 815, "type": "shop", "data": None}
    end = printify({"id": "e-3", "type": "shop:disconnected", "resource": gone})
    assert (end.effect, end.shop, end.kind) == (WebhookEffect.DISCONNECT, "815", None)


@pytest.mark.parametrize("body", (b"", b"{", b"[1]", b'"x"', b"\xff", b"[" * 100_000, b"null"))
@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_is_no_object_is_refused(platform: PlatformName, body: bytes) -> None:
    with pytest.raises(RequestError, match="not a JSON object"):
        read_hook(platform, {}, body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "id",
                    "type",
                    "resource",
                    "data",
                    "shop_id",
                    "event_type",
                    "customer",
                    "order_edit",
                )
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(
    platform=st.sampled_from(PLATFORMS),
    body=JSON,
    topic=st.sampled_from(("orders/edited", "customers/redact", "shop/redact", "x")),
)
def test_no_body_whatsoever_is_our_fault(platform: PlatformName, body: object, topic: str) -> None:
    headers = {
        "x-shopify-topic": topic,
        "x-shopify-webhook-id": "1",
        "x-shopify-shop-domain": SHOP,
        "webhook-id": "1",
    }
    try:
        hook = read_hook(platform, headers, json.dumps(body).encode())
    except RequestError:
        return
    assert hook.delivery_id
    assert hook.shop
