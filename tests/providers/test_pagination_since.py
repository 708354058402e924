"""A first run may be late by weeks: no day between the connection and that run is left out."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from headway.core.accounts.jobs import DataKind, PlatformName
from headway.core.accounts.pagination import RUN, SINCE, Cursor
from headway.providers.registry import platform_role
from headway_lab.platforms import ETSY, PRINTIFY, SHOPIFY

CONNECTED = datetime(2026, 1, 27, tzinfo=UTC)


def seconds(instant: datetime) -> float:
    return instant.timestamp()


def from_shopify(cursor: Cursor) -> float:
    return seconds(datetime.fromisoformat(cursor["newest"]))


def from_printify(cursor: Cursor) -> float:
    return seconds(datetime.fromisoformat(cursor["boundary"]))


BEGINS: dict[tuple[PlatformName, DataKind], Callable[[Cursor], float]] = {
    (SHOPIFY, DataKind.ORDERS): from_shopify,
    (SHOPIFY, DataKind.CUSTOMERS): from_shopify,
    (PRINTIFY, DataKind.ORDERS): from_printify,
    (ETSY, DataKind.ORDERS): lambda cursor: cursor["seen_s"],
    (ETSY, DataKind.PAYMENTS): lambda cursor: cursor[RUN]["from_s"],
}


@pytest.mark.parametrize("late", (timedelta(0), timedelta(days=5), timedelta(days=40)), ids=str)
@pytest.mark.parametrize(("platform", "kind"), list(BEGINS), ids=str)
def test_a_first_run_looks_back_to_the_day_of_the_connection(
    platform: PlatformName, kind: DataKind, late: timedelta
) -> None:
    walk, begins = (
        platform_role(platform).paginator_of(kind, is_backfill=False),
        BEGINS[platform, kind],
    )
    first = {SINCE: CONNECTED.isoformat()}
    begun = walk.begin(json.loads(json.dumps(first)), CONNECTED + late, ())
    assert begins(begun) < seconds(CONNECTED)
    later = walk.begin({}, CONNECTED + late, ())
    assert begins(later) >= begins(begun), "without a word of when, from now"


def test_etsys_recent_receipts_are_walked_again_if_the_first_run_is_late() -> None:
    walk = platform_role(ETSY).paginator_of(DataKind.ORDERS, is_backfill=False)
    first = {SINCE: CONNECTED.isoformat()}
    at_once = walk.begin(first, CONNECTED, ())
    late = walk.begin(first, CONNECTED + timedelta(days=5), ())
    assert len(late[RUN]["phases"]) > len(at_once[RUN]["phases"])
