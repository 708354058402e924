"""Fields of a shop's reply: each is as promised, or UnreadableError is raised."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from headway.core.catalog.storefront import Gid
from headway.providers.shopify.replies import unreadable

AMOUNT = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")
QUANTITY_MAX = 1_000_000_000
GID_CHARS_MAX = 200


def get(node: object, name: str) -> Any:  # noqa: ANN401 - JSON, of whatever shape
    """Return the value of a name; None if there is none."""
    return node.get(name) if isinstance(node, dict) else None


def part(node: object, name: str) -> Mapping[str, Any]:
    """Return an object that must be there."""
    value = get(node, name)
    return value if isinstance(value, dict) else unreadable(f"no {name}")


def nodes(page: object) -> list[Any]:
    """Return the rows of a page."""
    value = get(page, "nodes")
    return value if isinstance(value, list) else unreadable("no list of nodes")


def is_cut(page: object) -> bool:
    """Return True if a page goes on."""
    return flag(part(page, "pageInfo"), "hasNextPage")


def text(node: object, name: str) -> str:
    """Return a text that must be there."""
    value = get(node, name)
    return value if isinstance(value, str) else unreadable(f"no {name}")


def flag(node: object, name: str) -> bool:
    """Return a truth that must be there."""
    value = get(node, name)
    return value if isinstance(value, bool) else unreadable(f"no {name}")


def gid(node: object, name: str) -> Gid:
    """Return an id that must be there."""
    value = text(node, name)
    if not value.startswith("gid://") or not value.isprintable() or len(value) > GID_CHARS_MAX:
        unreadable(f"no usable {name}")
    return Gid(value)


def amount(node: object, name: str) -> Decimal:
    """Return an amount of money that must be there, exact."""
    value = text(node, name)
    return Decimal(value) if AMOUNT.fullmatch(value) else unreadable(f"no usable {name}")


def whole(node: object, name: str) -> int:
    """Return a whole number that must be there."""
    number = get(node, name)
    if isinstance(number, bool) or not isinstance(number, int) or abs(number) > QUANTITY_MAX:
        unreadable(f"no usable {name}")
    return number
