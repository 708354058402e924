"""Terms of a seller that are tables: the seller's own locations, and markups of groups of parts.

Both are written as `NAME=VALUE, NAME=VALUE`, as the settings of a deployment are.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase

from headway.errors import InvalidError

FAMILY = "family:"
MARKUP_MAX = 100
ENTRIES_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMarkup:
    """The markup of the parts whose number matches a pattern, or of one family."""

    pattern: str
    markup: Decimal

    def covers(self, sku: str, family: str | None) -> bool:
        """Return True if the part belongs to the group; case does not matter."""
        pattern = self.pattern.casefold()
        if pattern.startswith(FAMILY):
            return (family or "").casefold() == pattern.removeprefix(FAMILY).strip()
        return fnmatchcase(sku.casefold(), pattern)


def read_locations(text: str) -> dict[str, str]:
    """Return the shop's locations by the supplier's; raises InvalidError."""
    table = dict(_pairs(text, "Supplier place=Shop place"))
    if not table:
        raise InvalidError("must name a location at least: Supplier place=Shop place")
    if len({" ".join(name.split()).casefold() for name in table}) < len(table):
        raise InvalidError("has two names that differ only in case or spaces, which do not count")
    return table


def read_markups(text: str) -> tuple[GroupMarkup, ...]:
    """Return the markups of groups in the order written; raises InvalidError."""
    return tuple(
        GroupMarkup(pattern=pattern, markup=_markup(value))
        for pattern, value in _pairs(text, "WF*=12%, family:Hardware=0.08")
    )


def write_table(table: Mapping[str, str]) -> str:
    """Return a table as it is written."""
    return ", ".join(f"{name}={value}" for name, value in table.items())


def _pairs(text: str, example: str) -> Sequence[tuple[str, str]]:
    # A part number may hold a =, as in WF338109=K3; a value never does.
    pairs = [part.rpartition("=") for part in text.split(",") if part.strip()]
    for name, equals, value in pairs:
        if not (equals and name.strip() and value.strip()):
            raise InvalidError(f"must be written as {example}")
    if len(pairs) > ENTRIES_MAX:
        raise InvalidError(f"has {len(pairs)} entries; at most {ENTRIES_MAX} are allowed")
    if len({name.strip() for name, _, _ in pairs}) < len(pairs):
        raise InvalidError("names something twice")
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def _markup(text: str) -> Decimal:
    try:
        markup = Decimal(text.removesuffix("%").strip()) / (100 if text.endswith("%") else 1)
    except InvalidOperation:
        raise InvalidError(f"{text!r} is no share; write 12% or 0.12") from None
    if not (markup.is_finite() and -1 < markup <= MARKUP_MAX):
        raise InvalidError(f"{text!r} must be above -100% and at most {MARKUP_MAX * 100}%")
    return markup
