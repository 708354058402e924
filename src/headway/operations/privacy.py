"""Customers' requests for their data: the queue, the export, and the answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from headway.core.access import Need
from headway.errors import ConflictError, NotFoundError
from headway.operations.callers import Caller
from headway.operations.inputs import NAME_CHARS_MAX, PLAIN, Cursor, Limit, SellerQuery
from headway.operations.operation import operation
from headway.operations.pages import cut
from headway.store.accounts.privacy_requests import PrivacyRequest, PrivacyRequests

TAG = "privacy"
RequestId = Annotated[
    str,
    Field(
        min_length=1,
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="The request's id.",
        examples=["6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11"],
    ),
]
IncludeAnswered = Annotated[bool, Field(description="True for answered ones, too.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyRequestPage:
    """Requests, those that are due first before others, and where to go on."""

    items: tuple[PrivacyRequest, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerExport:
    """Everything that is stored of a customer."""

    request: PrivacyRequest
    """The request that the export answers."""
    records: Mapping[str, tuple[Mapping[str, Any], ...]]
    """Rows by table. Example: `{"customers": [{"name": "Ann"}]}`"""


@operation(
    "GET",
    "/api/privacy/requests",
    need=Need.READ,
    tag=TAG,
    errors=(404, 422),
    name="list_privacy_requests",
)
def privacy_requests(
    caller: Caller,
    *,
    seller: SellerQuery = None,
    include_answered: IncludeAnswered = False,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> PrivacyRequestPage:
    """List customers' requests for their data that are not answered yet."""
    store = PrivacyRequests(caller.own.pool)
    whose = caller.named(seller)
    rows = store.some(whose, is_all=include_answered, cursor=cursor, limit=limit + 1)
    shown, next_cursor = cut(rows, limit)
    return PrivacyRequestPage(items=shown, next_cursor=next_cursor)


@operation(
    "POST", "/api/privacy/requests/{request_id}/export", need=Need.WRITE, tag=TAG, errors=(404,)
)
def export_privacy_request(caller: Caller, request_id: RequestId) -> CustomerExport:
    """Return everything that is stored of the customer of a request."""
    _found(caller, request_id)
    records = PrivacyRequests(caller.own.pool).export(request_id, now=caller.now)
    return CustomerExport(request=_found(caller, request_id), records=records)


@operation(
    "POST", "/api/privacy/requests/{request_id}/done", need=Need.WRITE, tag=TAG, errors=(404, 409)
)
def answer_privacy_request(caller: Caller, request_id: RequestId) -> PrivacyRequest:
    """Mark a request as answered: the customer has the export."""
    found = _found(caller, request_id)
    store = PrivacyRequests(caller.own.pool)
    if not store.answer(found.id, actor=caller.actor, now=caller.now):
        raise ConflictError(f"the request was answered before, by {found.actor}")
    return _found(caller, request_id)


def _found(caller: Caller, request_id: str) -> PrivacyRequest:
    """Return a request that the caller may see; or raise NotFoundError."""
    found = PrivacyRequests(caller.own.pool).find(request_id, user_id=caller.seller)
    if found is None:
        raise NotFoundError("there is no such request; see: headway privacy list")
    return found
