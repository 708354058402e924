"""Names of shops, as a person writes them and as they are stored."""

import re

from headway.errors import InvalidError

# A colon would not fit: the shop is the last part of its token key.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,126}")
NUMBER = re.compile(r"[1-9][0-9]{0,18}")


def plain_name(text: str) -> str:
    """Return the name or id of a shop; raises InvalidError."""
    if not NAME.fullmatch(text.strip()):
        raise InvalidError(f"{text!r} is not the name of a shop; it has letters, digits and . _ -")
    return text.strip()


def shop_number(platform: str, text: str) -> str:
    """Return the id of a shop on a platform that numbers its shops; raises InvalidError."""
    if not NUMBER.fullmatch(text.strip()):
        raise InvalidError(f"{text!r} is not an id of a shop on {platform}; it is a number")
    return text.strip()
