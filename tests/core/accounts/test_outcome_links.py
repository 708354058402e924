"""Only allowed addresses are returned to, with an outcome that nobody can make up."""

from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlsplit

import pytest

from headway.core.accounts.outcome_links import (
    SIGNATURE,
    check_return_url,
    outcome_url,
    read_return_urls,
    sign,
)
from headway.errors import InvalidError

ALLOWED = read_return_urls("https://app.example.com/connected, http://localhost:3000")
SECRET = "s" * 32


@pytest.mark.parametrize(
    "url",
    (
        "https://app.example.com/connected",
        "https://app.example.com/connected/etsy?tab=2",
        "http://localhost:3000/anything",
    ),
)
def test_an_address_at_or_below_an_allowed_one_is_accepted(url: str) -> None:
    check_return_url(url, ALLOWED)


@pytest.mark.parametrize(
    "url",
    (
        "https://app.example.com/",
        "https://app.example.com/connected-elsewhere",
        "https://app.example.com/connected/../admin",
        "https://app.example.com/connected/%2e%2e/admin",
        "https://app.example.com.evil.example/connected",
        "https://app.example.com@evil.example/connected",
        "https://app.example.com:8443/connected",
        "http://app.example.com/connected",
        "https://evil.example\\@app.example.com/connected",
        "https://app.example.com/connected#x",
        "https://app.example.com/connec\nted",
        "javascript:alert(1)",
        "//app.example.com/connected",
        "",
    ),
)
def test_any_other_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidError, match="return_url"):
        check_return_url(url, ALLOWED)


@pytest.mark.parametrize("text", ("app.example.com", "http://app.example.com", "ftp://x", "https:"))
def test_a_setting_that_allows_no_safe_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidError, match="write an address"):
        read_return_urls(text)


def test_the_outcome_is_signed_and_keeps_the_applications_own_query() -> None:
    at = datetime(2026, 3, 4, tzinfo=UTC)
    url = outcome_url(
        "https://app.example.com/connected?tab=2&headway_status=connected",
        {"status": "refused", "seller": "acme & co"},
        secret=SECRET,
        state="visit 7",
        at=at,
    )
    query = parse_qsl(urlsplit(url).query)
    fields = {name: text for name, text in query if name.startswith("headway_")}
    assert query[0] == ("tab", "2")
    assert [name for name, _ in query].count("headway_status") == 1
    assert fields["headway_status"] == "refused"
    assert fields["headway_state"] == "visit 7"
    assert fields["headway_at"] == str(int(at.timestamp()))
    signature = fields.pop(SIGNATURE)
    assert signature == sign(fields, SECRET)
    assert signature != sign({**fields, "headway_status": "connected"}, SECRET)
    assert signature != sign(fields, SECRET[1:])
