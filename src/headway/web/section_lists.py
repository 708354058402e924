"""The long lists of the sections, a page at a time; the address holds a cursor for each list.

The lists are independent: the next page of one keeps the place in the others. Every page is as live
as the first one, and one read serves all viewers who have it open.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode

from headway.core.accounts.jobs import JobStatus
from headway.core.catalog.listings import ProductState, SellerId
from headway.errors import InvalidError
from headway.operations import accounts, changes, history, jobs, listings
from headway.operations.callers import Caller
from headway.store.accounts.job_list import JobView
from headway.store.catalog.product_list import ProductView
from headway.store.cursors import CHARS_MAX
from headway.store.status import FailingListing

# A section begins with a few rows of each list; later pages of a list have more rows.
ROWS_FIRST = 10
ROWS_ONWARD = 50
# A seller's jobs are a few dozen, and all of them are shown.
JOBS_MAX = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPage:
    """Some rows of a list, and the addresses of its first and its next page, where there are.

    `trouble` is the reason why there are none, for an address that was cut short.
    """

    name: str
    rows: tuple[Any, ...] = ()
    first: str | None = None
    next: str | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRow:
    """A job, and its place in the queue of all sellers."""

    job: JobView
    place: int


Rows = tuple[Any, ...]
# For a caller, a seller and a cursor: the rows, and the next cursor.
Read = Callable[[Caller, SellerId | None, str | None], tuple[Rows, str | None]]


def subject_of(view: str, query: str) -> str:
    """Return the cursors of an address, always written the same way."""
    parameters = parse_qs(query)
    cursors = {name: parameters[name][0] for name in LISTS.get(view, ()) if name in parameters}
    return urlencode({name: cursor for name, cursor in cursors.items() if len(cursor) <= CHARS_MAX})


def read(
    caller: Caller, view: str, subject: str, *, seller: SellerId | None
) -> dict[str, ListPage]:
    """Read a page of each list of a section; raises StoreError."""
    cursors = {name: values[0] for name, values in parse_qs(subject).items()}
    return {name: _page(caller, view, name, cursors, seller) for name in LISTS[view]}


def _page(
    caller: Caller, view: str, name: str, cursors: Mapping[str, str], seller: SellerId | None
) -> ListPage:
    others = {key: cursor for key, cursor in cursors.items() if key != name}
    first = _address(view, name, others) if name in cursors else None
    try:
        rows, cursor = LISTS[view][name](caller, seller, cursors.get(name))
    except InvalidError:
        return ListPage(name=name, first=first, trouble="this address leads nowhere")
    following = None if cursor is None else _address(view, name, {**others, name: cursor})
    return ListPage(name=name, rows=rows, first=first, next=following)


def _address(view: str, name: str, cursors: Mapping[str, str]) -> str:
    query = f"?{urlencode(cursors)}" if cursors else ""
    return f"/{view}{query}#{name}"


def _rows(cursor: str | None) -> int:
    return ROWS_FIRST if cursor is None else ROWS_ONWARD


def _held(caller: Caller, _: SellerId | None, cursor: str | None) -> tuple[Rows, str | None]:
    page = changes.held(caller, limit=_rows(cursor), cursor=cursor)
    return page.items, page.next_cursor


def _changes(caller: Caller, _: SellerId | None, cursor: str | None) -> tuple[Rows, str | None]:
    page = history.observed_changes(caller, limit=_rows(cursor), cursor=cursor)
    return page.items, page.next_cursor


def _listings(state: ProductState) -> Read:
    def read_listings(
        caller: Caller, _: SellerId | None, cursor: str | None
    ) -> tuple[Rows, str | None]:
        page = listings.products(caller, state=state, limit=_rows(cursor), cursor=cursor)
        return tuple(map(_trouble, page.items)), page.next_cursor

    return read_listings


def _trouble(product: ProductView) -> FailingListing:
    return FailingListing(
        seller=product.seller,
        sku=product.sku,
        failures=product.failures,
        error=product.last_error,
        next_at=product.due_at,
        is_parked=product.state is ProductState.PARKED,
    )


def _accounts(caller: Caller, _: SellerId | None, cursor: str | None) -> tuple[Rows, str | None]:
    page = accounts.accounts(caller, limit=_rows(cursor), cursor=cursor)
    return page.accounts, page.next_cursor


def _jobs(status: JobStatus) -> Read:
    def read_jobs(
        caller: Caller, _: SellerId | None, cursor: str | None
    ) -> tuple[Rows, str | None]:
        page = jobs.jobs(caller, status=status, limit=_rows(cursor), cursor=cursor)
        return page.jobs, page.next_cursor

    return read_jobs


def _queue(caller: Caller, seller: SellerId | None, cursor: str | None) -> tuple[Rows, str | None]:
    if seller is not None:
        every = jobs.jobs(caller, limit=JOBS_MAX).jobs
        own = [job for job in every if job.due_at and job.status is not JobStatus.RUNNING]
        return tuple(map(_placed, own, jobs.places(caller, own))), None
    page = jobs.jobs(caller, limit=_rows(cursor), cursor=cursor)
    rows, following = page.jobs, page.next_cursor
    # Of all sellers: the order of the list is the order of the queue.
    (begin,) = jobs.places(caller, rows[:1]) or [0]
    return tuple(map(_placed, rows, range(begin, begin + len(rows)))), following


def _placed(job: JobView, place: int) -> SectionRow:
    return SectionRow(job=job, place=place)


LISTS: Mapping[str, Mapping[str, Read]] = {
    "changes": {"held": _held, "changes": _changes},
    "trouble": {
        "parked": _listings(ProductState.PARKED),
        "failing": _listings(ProductState.FAILING),
        "dead": _jobs(JobStatus.DEAD),
    },
    "accounts": {
        "queue": _queue,
        "running": _jobs(JobStatus.RUNNING),
        "accounts": _accounts,
    },
}
