"""Where an outgoing webhook may go: to public addresses, whatever a name resolves to.

A seller's URL must not reach what only our own machines can: it is checked when it is set, and the
address that it resolves to is checked when the connection is made. An operator may allow networks
of their own, for endpoints of the deployment only.
"""

from collections.abc import Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from urllib.parse import SplitResult, urlsplit

from headway.errors import InvalidError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
URL_CHARS_MAX = 2000
# Addresses that hold an IPv4 address in their last 32 bits: NAT64, and IPv4-compatible ones.
EMBEDDING = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"), IPv6Network("::/96"))
LOCAL_NAMES = (".localhost", ".local", ".internal", ".home.arpa")


def read_networks(text: str) -> tuple[Network, ...]:
    """Return the networks in a setting, separated by commas; raises InvalidError."""
    networks = []
    for part in text.split(","):
        if name := part.strip():
            try:
                networks.append(ip_network(name))
            except ValueError:
                raise InvalidError(
                    f"{name!r} is not a network; write it as 10.0.0.0/8 or 127.0.0.0/8"
                ) from None
    return tuple(networks)


def check_url(url: str, networks: Sequence[Network] = ()) -> None:
    """Raise InvalidError if an endpoint cannot have this URL; `networks` are allowed besides."""
    parts = _parts(url)
    host = parts.hostname or ""
    if parts.scheme != "https" and not (parts.scheme == "http" and networks):
        raise InvalidError("url: must begin with https://")
    if not host or parts.username is not None or parts.password is not None or parts.fragment:
        raise InvalidError("url: must name a host, and have no user, password or #fragment")
    try:
        address = ip_address(host)
    except ValueError:
        name = f".{host.rstrip('.').lower()}"
        is_local = name.endswith(LOCAL_NAMES)
        if is_local and not networks:
            raise InvalidError(f"url: {host} is not a public address") from None
        return
    if not may_reach(address, networks):
        raise InvalidError(f"url: {host} is not a public address")


def may_reach(address: Address, networks: Sequence[Network] = ()) -> bool:
    """Return True if an endpoint may be at this address."""
    real = _unwrapped(address)
    is_public = real.is_global and not (real.is_multicast or real.is_reserved)
    return is_public or is_in(address, networks)


def is_in(address: Address, networks: Sequence[Network]) -> bool:
    """Return True if the address is in one of these networks; only there http is allowed."""
    forms = {address, _unwrapped(address)}
    return any(
        form in network for form in forms for network in networks if form.version == network.version
    )


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
    if inner is None and any(address in network for network in EMBEDDING):
        inner = IPv4Address(int(address) & 0xFFFF_FFFF)
    return inner or address


def _parts(url: str) -> SplitResult:
    if len(url) > URL_CHARS_MAX or not url.isprintable() or " " in url or "\\" in url:
        raise InvalidError(f"url: must have at most {URL_CHARS_MAX} characters, and no spaces")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise InvalidError("url: is not a valid URL; write https://example.com/webhooks") from None
    return parts
