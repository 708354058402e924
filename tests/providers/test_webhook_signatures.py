"""Only what a platform signed, over exactly these bytes, is from that platform."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.core.accounts.jobs import PlatformName
from headway.core.accounts.standard_webhooks import AGE_S_MAX
from headway.errors import ConfigError
from headway.providers.registry import platform_role
from headway_lab.platforms import ETSY, PLATFORMS, PRINTIFY, SHOPIFY

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)
KEY = bytes(range(32))
SECRETS = {
    SHOPIFY: "hush-shopify",
    ETSY: "whsec_" + base64.b64encode(KEY).decode(),
    PRINTIFY: "hush-printify",
}
platforms = pytest.mark.parametrize("platform", PLATFORMS)


def signed(platform: PlatformName, body: bytes, *, at: datetime = NOW) -> dict[str, str]:
    """Sign as the platform's page says, with nothing of ours."""
    secret = SECRETS[platform].encode()
    if platform == SHOPIFY:
        mac = hmac.digest(secret, body, hashlib.sha256)
        return {"x-shopify-hmac-sha256": base64.b64encode(mac).decode()}
    if platform == PRINTIFY:
        return {"x-pfy-signature": "sha256=" + hmac.new(secret, body, hashlib.sha256).hexdigest()}
    stamp = str(int(at.timestamp()))
    mac = hmac.digest(KEY, f"msg_1.{stamp}.".encode() + body, hashlib.sha256)
    return {
        "webhook-id": "msg_1",
        "webhook-timestamp": stamp,
        "webhook-signature": "v1," + base64.b64encode(mac).decode(),
    }


def is_signed(
    platform: PlatformName, secret: str, headers: Mapping[str, str], body: bytes, *, now: datetime
) -> bool:
    role = platform_role(platform).webhooks
    assert role is not None
    return role.verify(secret, headers, body, now)


def says(platform: PlatformName, headers: Mapping[str, str], body: bytes) -> bool:
    return is_signed(platform, SECRETS[platform], headers, body, now=NOW)


def test_the_examples_that_others_computed_are_verified() -> None:
    # The vector that the makers of standard webhooks publish with every library.
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    at = datetime.fromtimestamp(1614265330, UTC)
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    assert is_signed(ETSY, secret, headers, body, now=at)
    assert not is_signed(ETSY, secret, headers, body + b" ", now=at)


@platforms
@given(body=st.binary(max_size=400), flip=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_signed_body_is_believed_and_one_flipped_bit_is_not(
    platform: PlatformName, body: bytes, flip: int, bit: int
) -> None:
    headers = signed(platform, body)
    assert says(platform, headers, body)
    if body:
        changed = bytearray(body)
        changed[flip % len(body)] ^= 1 << bit
        assert not says(platform, headers, bytes(changed))


@platforms
@given(noise=st.text(max_size=80), body=st.binary(max_size=50))
def test_no_signature_of_anybody_else_is_believed(
    platform: PlatformName, noise: str, body: bytes
) -> None:
    good = signed(platform, body)
    name = list(good)[-1]
    assert not says(platform, {**good, name: noise}, body)
    assert not says(platform, {**good, name: good[name][:-1]}, body)
    assert not says(platform, {}, body)


@platforms
def test_a_signature_of_another_secret_is_not_believed(platform: PlatformName) -> None:
    headers = signed(platform, b"{}")
    other = "whsec_" + base64.b64encode(b"another").decode()
    assert not is_signed(platform, other, headers, b"{}", now=NOW)


@pytest.mark.parametrize("age_s", (-AGE_S_MAX - 1, -AGE_S_MAX, 0, AGE_S_MAX, AGE_S_MAX + 1))
def test_a_delivery_of_etsy_is_good_for_five_minutes_either_way(age_s: int) -> None:
    headers = signed(ETSY, b"{}", at=NOW - timedelta(seconds=age_s))
    assert says(ETSY, headers, b"{}") is (abs(age_s) <= AGE_S_MAX)


@pytest.mark.parametrize("stamp", ("", "soon", "-1", "1e9", "9" * 40, "\uff11" * 10))
def test_a_time_that_is_none_is_refused(stamp: str) -> None:
    headers = {**signed(ETSY, b"{}"), "webhook-timestamp": stamp}
    assert not says(ETSY, headers, b"{}")


def test_one_good_signature_among_several_is_enough() -> None:
    headers = signed(ETSY, b"{}")
    several = f"v1,AAAA v1a,BBBB {headers['webhook-signature']} v2,CCCC"
    assert says(ETSY, {**headers, "webhook-signature": several}, b"{}")
    assert not says(ETSY, {**headers, "webhook-signature": "v1,AAAA v1,BB"}, b"{}")


@platforms
def test_a_missing_secret_is_named_by_its_setting(platform: PlatformName) -> None:
    with pytest.raises(ConfigError, match=r"HEADWAY_.*_SECRET is not set"):
        is_signed(platform, "", {}, b"{}", now=NOW)


@pytest.mark.parametrize("secret", ("whsec_not*base64", "whsec_", "whsec_äöü"))
def test_a_secret_that_is_none_is_not_shown(secret: str) -> None:
    headers = signed(ETSY, b"{}")
    with pytest.raises(ConfigError, match="HEADWAY_ETSY_WEBHOOK_SECRET") as raised:
        is_signed(ETSY, secret, headers, b"{}", now=NOW)
    assert "not*base64" not in str(raised.value)
