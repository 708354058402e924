"""Sorted lists of a simulated shop: filtered by a query, read page by page behind a cursor.

A cursor holds the place of the last row, not its number: rows that move do not disturb it. The list
learns of a change a little later than the row itself does.
"""

import base64
import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from headway_lab.simulators.shopify.index import Place
from headway_lab.simulators.shopify.request import refuse
from headway_lab.simulators.shopify.schema import LIST_MAX

TERM = re.compile(r"""\s*(?:AND\s+)?(\w+):(>=|<=|>|<)?(?:'([^']*)'|"([^"]*)"|([^\s'"]+))""")
FAR = 1 << 62
ROWS_MAX = 25_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPage:
    """One page of a list, with cursors, and whether there are more."""

    nodes: Sequence[Any]
    cursors: Sequence[str]
    has_next: bool
    has_previous: bool


class Rows(Protocol):
    """Where rows are found by number."""

    def __getitem__(self, number: int, /) -> Any:  # noqa: ANN401 - whatever a list holds
        """Return the row of that number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A condition of a query: a field, a sign (none means equal) and a value."""

    field: str
    sign: str
    value: str


def read_terms(query: str | None, fields: Sequence[str]) -> list[Term]:
    """Read a query of conditions that must all hold, without those by other fields."""
    return [term for term in all_terms(query) if term.field in fields]


def all_terms(query: str | None) -> list[Term]:
    """Read a query of conditions that must all hold; raises GraphQLError."""
    terms: list[Term] = []
    at, text = 0, (query or "").strip()
    while at < len(text):
        match = TERM.match(text, at)
        if match is None:
            raise refuse("BAD_REQUEST", f"The simulated shop cannot read {text[at:]!r}")
        at = match.end()
        value = next(group for group in match.groups()[2:] if group is not None)
        terms.append(Term(field=match[1], sign=match[2] or "", value=value))
    return terms


def read_time(text: str) -> datetime:
    """Parse a time in a filter; raises GraphQLError."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise refuse("BAD_REQUEST", f"{text!r} is no time") from None
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)


def bounds(term: Term, *, has_whole_days: bool = False) -> tuple[Place, Place]:
    """Return the range of rows that a condition on a time selects."""
    instant = read_time(term.value).astimezone(UTC)
    until = instant
    if has_whole_days:
        instant = instant.replace(hour=0, minute=0, second=0, microsecond=0)
        until = instant + timedelta(days=1, seconds=-1)
    return span(term.sign, instant.timestamp(), until.timestamp())


def span(sign: str, first: float, last: float) -> tuple[Place, Place]:
    """Return the places on the side of a value that the sign names; places are stamp and number."""
    low, high = (-float(FAR), 0), (float(FAR), FAR)
    if sign == ">=":
        low = (first, 0)
    elif sign == ">":
        low = (last, FAR)
    elif sign == "<=":
        high = (last, FAR)
    elif sign == "<":
        high = (first, -1)
    else:
        low, high = (first, 0), (last, FAR)
    return low, high


def cut_page(
    places: Sequence[Place],
    arguments: Mapping[str, Any],
    *,
    between: Sequence[tuple[Place, Place]] = (),
    rows: Rows,
) -> ListedPage:
    """Return the first rows after a cursor that lie between all bounds; raises GraphQLError."""
    first = arguments.get("first")
    if first is None or not 0 < first <= LIST_MAX:
        raise refuse("BAD_REQUEST", f"first must be between 1 and {LIST_MAX}")
    start = max([bisect_left(places, low) for low, _ in between], default=0)
    end = min([bisect_right(places, high) for _, high in between], default=len(places))
    begin = start
    if (after := arguments.get("after")) is not None:
        start = max(start, bisect_right(places, _read_cursor(after)))
        if start - begin >= ROWS_MAX:
            raise refuse("BAD_REQUEST", "Pagination is limited to 25000 objects")
    last = min(start + first, end)
    shown = places[start:last] if start < last else []
    return ListedPage(
        nodes=[rows[number] for _, number in shown],
        cursors=[_cursor(place) for place in shown],
        has_next=last < end,
        has_previous=start > 0,
    )


def _cursor(place: Place) -> str:
    text = json.dumps({"last_id": place[1], "last_value": place[0]})
    return base64.b64encode(text.encode()).decode()


def _read_cursor(text: str) -> Place:
    try:
        values = json.loads(base64.b64decode(text))
        return float(values["last_value"]), int(values["last_id"])
    except (ValueError, KeyError, TypeError):
        raise refuse("BAD_REQUEST", "Invalid cursor for current pagination sort.") from None
