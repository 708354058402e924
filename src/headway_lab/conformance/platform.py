"""Checks for platforms: pagination ends and finds every row, and a bad row spoils no page."""

import json

from headway.core.accounts.jobs import DataKind
from headway.core.accounts.pagination import Page
from headway_lab.conformance.world import PlatformWorld, Rows

PAGES_MAX = 200
# Pages may overlap, so that rows which move between two requests are not lost.
READS_MAX = 2
BAD_ROWS: Rows = [{}, None, "a text", 7, []]


def _walk(world: PlatformWorld, kind: DataKind) -> list[Page]:
    """Read a kind to its end, as a worker would; the cursor survives JSON between two pages."""
    role = world.provider.platform
    assert role is not None
    paginator, clock = role.paginator_of(kind, is_backfill=False), world.context.clock
    pages: list[Page] = []
    cursor = paginator.begin({}, clock.now(), ())
    while len(pages) < PAGES_MAX:
        page = world.client.read(paginator.ask(cursor))
        pages.append(page)
        step = paginator.advance(json.loads(json.dumps(cursor)), page, clock.now())
        if step.is_done:
            return pages
        cursor = step.cursor
        clock.sleep(10)  # limits that the simulator keeps
    raise AssertionError(f"{kind} did not end after {PAGES_MAX} pages")


def _ids(pages: list[Page], kind: DataKind) -> list[str]:
    return [row.external_id for page in pages for row in getattr(page.records, kind.value)]


def pagination_ends_and_finds_every_row(world: PlatformWorld) -> None:
    """Check that a first run of each kind ends, and reads every row."""
    role = world.provider.platform
    assert role is not None
    assert set(world.kinds) <= set(role.kinds)
    for kind in world.kinds:
        found = _ids(_walk(world, kind), kind)
        assert set(found) == set(world.truth(kind)), kind
        assert len(found) <= READS_MAX * len(set(found)), kind


def every_kind_has_a_price_in_permits(world: PlatformWorld) -> None:
    """Check that the cost of a request is known before it is sent, and positive."""
    role = world.provider.platform
    assert role is not None
    for kind in world.kinds:
        paginator = role.paginator_of(kind, is_backfill=False)
        cursor = paginator.begin({}, world.context.clock.now(), ())
        assert world.client.price(paginator.ask(cursor)) > 0


def a_bad_row_does_not_spoil_its_page(world: PlatformWorld) -> None:
    """Check that a bad row is set aside and the other rows of its page are read."""
    for kind in world.kinds:
        for bad in BAD_ROWS:
            world.transport.edit = lambda body, bad=bad: world.edit_rows(
                body, lambda rows: [bad, *rows[1:]]
            )
            first = _first_page(world, kind)
            world.transport.edit = None
            whole = _first_page(world, kind)
            read, all_ids = set(_ids([first], kind)), set(_ids([whole], kind))
            assert read, (kind, bad)
            assert read < all_ids, (kind, bad)
            assert first.records.unreadable, (kind, bad)


def _first_page(world: PlatformWorld, kind: DataKind) -> Page:
    role = world.provider.platform
    assert role is not None
    paginator = role.paginator_of(kind, is_backfill=False)
    cursor = paginator.begin({}, world.context.clock.now(), ())
    world.context.clock.sleep(10)
    page = world.client.read(paginator.ask(cursor))
    assert isinstance(page, Page)
    return page


CHECKS = (
    pagination_ends_and_finds_every_row,
    every_kind_has_a_price_in_permits,
    a_bad_row_does_not_spoil_its_page,
)
