"""Signatures as Standard Webhooks defines them."""

from datetime import UTC, datetime, timedelta

import pytest

from headway.core.accounts.standard_webhooks import is_signed, make_secret, sign
from headway.errors import InvalidError

# The example of the specification, which every library of it is tested with.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, TIMESTAMP = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
NOW = datetime.fromtimestamp(TIMESTAMP, UTC)
HEADERS = {
    "webhook-id": ID,
    "webhook-timestamp": str(TIMESTAMP),
    "webhook-signature": SIGNATURE,
}


def test_the_signature_of_the_specification_is_made_and_accepted() -> None:
    assert sign(SECRET, ID, TIMESTAMP, BODY) == SIGNATURE
    assert is_signed(SECRET, HEADERS, BODY, NOW)


def test_one_of_several_signatures_is_enough() -> None:
    headers = {**HEADERS, "webhook-signature": f"v1,bm9uZQ== v2,other {SIGNATURE}"}
    assert is_signed(SECRET, headers, BODY, NOW)


@pytest.mark.parametrize(
    "changed",
    (
        {"webhook-id": "msg_other"},
        {"webhook-timestamp": str(TIMESTAMP + 1)},
        {"webhook-timestamp": "soon"},
        {"webhook-signature": ""},
        {"webhook-signature": "v1,\udcff"},
    ),
)
def test_a_changed_header_is_noticed(changed: dict[str, str]) -> None:
    assert not is_signed(SECRET, {**HEADERS, **changed}, BODY, NOW)


def test_a_changed_body_another_secret_and_an_old_delivery_are_noticed() -> None:
    assert not is_signed(SECRET, HEADERS, BODY + b" ", NOW)
    assert not is_signed(make_secret("ab" * 32), HEADERS, BODY, NOW)
    assert not is_signed(SECRET, HEADERS, BODY, NOW + timedelta(minutes=6))
    assert not is_signed(SECRET, HEADERS, BODY, NOW - timedelta(minutes=6))


def test_a_new_secret_has_32_random_bytes_and_signs() -> None:
    secret = make_secret("0123456789abcdef" * 4)
    assert secret.startswith("whsec_")
    assert sign(secret, ID, TIMESTAMP, BODY).startswith("v1,")
    with pytest.raises(InvalidError, match="copy it whole"):
        sign("whsec_?", ID, TIMESTAMP, BODY)
