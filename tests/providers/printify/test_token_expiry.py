"""A Printify token says itself when it expires."""

import json
from base64 import urlsafe_b64encode
from datetime import UTC, datetime

import pytest

from headway.providers.printify.provider import PRINTIFY, jwt_expiry


def token(claims: object) -> str:
    parts = (json.dumps(part).encode() for part in ({"typ": "JWT"}, claims))
    return ".".join([*(urlsafe_b64encode(part).decode().rstrip("=") for part in parts), "x"])


def test_the_expiry_of_a_json_web_token_is_read() -> None:
    at = datetime(2027, 2, 3, 4, 5, 6, tzinfo=UTC)
    for exp in (int(at.timestamp()), at.timestamp()):
        assert jwt_expiry(token({"exp": exp, "sub": "5"})) == at
    assert PRINTIFY.platform is not None
    assert PRINTIFY.platform.tokens.read_expiry is jwt_expiry


@pytest.mark.parametrize(
    "odd",
    ("", "plain", "a.b.c", token({}), token([]), token({"exp": "soon"}), token({"exp": 10**30})),
)
def test_any_other_token_has_no_expiry_of_its_own(odd: str) -> None:
    assert jwt_expiry(odd) is None
