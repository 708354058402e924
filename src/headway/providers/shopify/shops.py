"""The addresses of shops on Shopify."""

import re

from headway.errors import InvalidError

# Where the API of every shop is, whatever address its customers see. A token goes nowhere else.
HOST = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.myshopify\.com")
# What a merchant's browser shows while looking at the shop from inside.
ADMIN = re.compile(r"admin\.shopify\.com/store/([a-z0-9-]+)")


def shop_domain(text: str) -> str:
    """Return the host name of a shop, however a person wrote it; raises InvalidError."""
    bare = re.sub(r"^[a-z][a-z0-9+.-]*://", "", text.strip().lower())
    if inside := ADMIN.match(bare):
        return f"{inside[1]}.myshopify.com"
    host = re.split(r"[/?#]", bare, maxsplit=1)[0].removesuffix(".")
    if not HOST.fullmatch(host):
        raise InvalidError(f"{text!r} is not a shop's address; write it as name.myshopify.com")
    return host
