"""Sales channels: the names that people write, and why a product is not visible on one of them."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from headway.core.catalog.storefront import Change, Gid, Shop
from headway.errors import InvalidError

NAME_CHARS_MAX = 100
NAMES_MAX = 20
NONE = "none"


@lru_cache(maxsize=256)
def read_names(text: str) -> tuple[str, ...]:
    """Return the channels in `Online Store, Point of Sale`, or none of them for `none`.

    Raises InvalidError for a name that cannot be one.
    """
    names = dict.fromkeys(name.strip() for name in re.split("[,;]", text))
    if [name.lower() for name in names] == [NONE]:
        return ()
    for name in names:
        if not name or len(name) > NAME_CHARS_MAX or not name.isprintable():
            raise InvalidError(
                "write sales channels as Online Store, Point of Sale; or none to publish nowhere"
            )
    if len(names) > NAMES_MAX:
        raise InvalidError(f"{len(names)} sales channels; at most {NAMES_MAX} are allowed")
    return tuple(sorted(names))


def channel_id(shop: Shop, name: str) -> Gid | None:
    """Return the id of a channel in this shop, whatever the case of its name."""
    ids = {own.casefold(): gid for own, gid in (shop.channels or {}).items()}
    return ids.get(name.casefold())


def lacked(desired: Mapping[str, Any], applied: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the channels on which a product should be visible and is not known to be."""
    visible = applied.get("channels") or ()
    return tuple(name for name in desired.get("channels") or () if name not in visible)


def find_obstacle(change: Change, shop: Shop) -> str | None:
    """Return why a product cannot be published where it should be; None if it can or is.

    A shop whose channels are not known yet is no obstacle.
    """
    names = lacked(change.desired, change.applied or {})
    if not names or shop.channels is None:
        return None
    if shop.missing_scopes:
        return scopes_message(shop.domain, shop.missing_scopes)
    unknown = [name for name in names if channel_id(shop, name) is None]
    if not unknown:
        return None
    return channels_message(unknown, list(shop.channels))


def scopes_message(domain: str, scopes: tuple[str, ...]) -> str:
    """Return what to do where products cannot be published for want of scopes."""
    named = " and ".join(scopes)
    return (
        f"not published: the app lacks {named} in {domain}; grant them, then connect the shop"
        f" again: headway connect {domain}"
    )


def visibility_change(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return what an event changed in visibility: `published on Online Store`, or nothing."""
    if "channels" not in new:
        return ""
    before, after = old.get("channels") or (), new["channels"] or ()
    gained = ", ".join(name for name in after if name not in before)
    lost = ", ".join(name for name in before if name not in after)
    words = [f"published on {gained}" if gained else "", f"unpublished from {lost}" if lost else ""]
    return ", ".join(filter(None, words))


def channels_message(unknown: list[str], channels: list[str]) -> str:
    """Return what to do where a shop has no such channel."""
    has = ", ".join(sorted(channels)) or "none"
    return (
        f"not published: the shop has no sales channel {', '.join(unknown)} (it has: {has});"
        " choose others with headway terms SELLER --channels"
    )
