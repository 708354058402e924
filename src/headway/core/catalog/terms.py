"""Terms that a seller may choose instead of the deployment's, and their bounds."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from headway.core.catalog.channels import read_names
from headway.core.catalog.description_template import check_template
from headway.core.catalog.term_tables import read_locations, read_markups
from headway.errors import InvalidError

Term = Decimal | str | None


def _one_of(*words: str) -> tuple[Callable[[Any], bool], str]:
    return lambda value: value in words, f"must be one of {', '.join(words)}"


def _between(least: int, most: int, *, is_open: bool = False) -> tuple[Callable[[Any], bool], str]:
    def fits(value: object) -> bool:
        return (
            isinstance(value, Decimal)
            and value.is_finite()
            and (least < value or (value == least and not is_open))
            and value <= most
        )

    return fits, f"must be a number {'above' if is_open else 'from'} {least} to {most}"


def _are_channels(value: object) -> bool:
    try:
        return isinstance(value, str) and len(read_names(value)) >= 0
    except InvalidError:
        return False


def _reads(read: Callable[[str], object]) -> tuple[Callable[[Any], bool], str]:
    def fits(value: object) -> bool:
        try:
            return isinstance(value, str) and read(value) is not None
        except InvalidError:
            return False

    return fits, "must be written as NAME=VALUE, NAME=VALUE"


# What a seller may choose, in the order of the columns: as the settings, so with their bounds.
TERMS = {
    "price_basis": _one_of("list", "net"),
    "markup": _between(-1, 100, is_open=True),
    "rounding": _one_of("cent", "whole", "99"),
    "margin_min": _between(-1, 100, is_open=True),
    "compare_at": _one_of("keep", "clear", "list"),
    "channels": (_are_channels, "must be sales channels such as Online Store, Point of Sale"),
    "oversell": _one_of("keep", "deny"),
    "description_template": (lambda value: isinstance(value, str), "must be a text"),
    "guard_move": _between(0, 10**6),
    "guard_share": _between(0, 1),
    "currency": (
        lambda value: isinstance(value, str) and re.fullmatch("[A-Z]{3}", value) is not None,
        "must be three capital letters such as EUR",
    ),
    "locations": _reads(read_locations),
    "markups": _reads(read_markups),
}
TABLES: Mapping[str, Callable[[str], object]] = {
    "locations": read_locations,
    "markups": read_markups,
}


def check_terms(changes: Mapping[str, Term]) -> None:
    """Raise InvalidError if a name or a value is not allowed; None means the deployment's."""
    for name, value in changes.items():
        if name not in TERMS:
            raise InvalidError(f"{name} is not a seller's term; known: {', '.join(TERMS)}")
        if name in TABLES and isinstance(value, str):
            try:
                TABLES[name](value)
            except InvalidError as error:
                raise InvalidError(f"{name} {error}") from None
        fits, rule = TERMS[name]
        if value is not None and not fits(value):
            raise InvalidError(f"{name} {rule}")
    try:
        check_template(str(changes.get("description_template") or ""))
    except InvalidError as error:
        raise InvalidError(f"description_template {error}") from None
