"""Which addresses an endpoint may have."""

from ipaddress import ip_address

import pytest

from headway.core.accounts.webhook_addresses import check_url, is_in, may_reach, read_networks
from headway.errors import InvalidError

INTERNAL = (
    "127.0.0.1", "127.255.255.254", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "0.0.0.0", "255.255.255.255", "224.0.0.1", "240.0.0.1",
    "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fc00::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "64:ff9b::7f00:1",
    "64:ff9b::a00:1", "2002:7f00:1::", "2002:a00:1::1", "2001:db8::1", "::7f00:1",
)  # fmt: skip


@pytest.mark.parametrize("address", INTERNAL)
def test_no_endpoint_is_at_an_address_of_our_own_networks(address: str) -> None:
    assert not may_reach(ip_address(address))
    host = f"[{address}]" if ":" in address else address
    with pytest.raises(InvalidError, match="is not a public address"):
        check_url(f"https://{host}/webhooks")


@pytest.mark.parametrize("address", ("8.8.8.8", "1.1.1.1", "2606:4700:4700::1111"))
def test_public_addresses_are_reached(address: str) -> None:
    assert may_reach(ip_address(address))


@pytest.mark.parametrize(
    ("url", "reason"),
    (
        ("http://example.com/x", "must begin with https"),
        ("ftp://example.com/x", "must begin with https"),
        ("https:///x", "must name a host"),
        ("https://user:secret@example.com/x", "no user, password"),
        ("https://example.com/x#part", "#fragment"),
        ("https://example.com:99999/x", "not a valid URL"),
        ("https://exa mple.com/x", "no spaces"),
        ("https://example.com\\@127.0.0.1/", "no spaces"),
        ("https://localhost/x", "not a public address"),
        ("https://LOCALHOST./x", "not a public address"),
        ("https://db.internal/x", "not a public address"),
        ("https://example.com/" + "x" * 2000, "at most 2000"),
    ),
)
def test_a_url_that_an_endpoint_cannot_have_is_refused_with_the_reason(
    url: str, reason: str
) -> None:
    with pytest.raises(InvalidError, match=reason):
        check_url(url)


def test_networks_of_ones_own_allow_http_and_only_there() -> None:
    networks = read_networks("127.0.0.0/8, 10.0.0.0/8,::1/128")
    for address in ("127.0.0.1", "10.9.9.9", "::1", "::ffff:127.0.0.1"):
        assert may_reach(ip_address(address), networks)
        assert is_in(ip_address(address), networks)
    assert not may_reach(ip_address("192.168.1.1"), networks)
    assert not is_in(ip_address("8.8.8.8"), networks)
    check_url("http://127.0.0.1:9000/x", networks)
    check_url("http://localhost:9000/x", networks)
    with pytest.raises(InvalidError, match="192"):
        check_url("http://192.168.1.1/x", networks)


def test_what_is_not_a_network_is_refused() -> None:
    with pytest.raises(InvalidError, match=r"'example\.com' is not a network"):
        read_networks("10.0.0.0/8,example.com")
