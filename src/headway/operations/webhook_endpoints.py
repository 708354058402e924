"""Outgoing webhooks: the endpoints that events are sent to, and their deliveries.

A seller sees and sets endpoints of their own; an operator's receive the events of all sellers, or
of one. A signing secret is shown once, when it is made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from pydantic import Field

from headway.app.providers import shared_vault
from headway.clock import fresh_secret
from headway.core.access import Need
from headway.core.accounts.outgoing_webhooks import ROTATION, EndpointStatus
from headway.core.accounts.standard_webhooks import make_secret
from headway.core.accounts.webhook_addresses import URL_CHARS_MAX, check_url, read_networks
from headway.core.accounts.webhook_catalog import EVENT_TYPES, TEST
from headway.core.catalog.listings import SellerId
from headway.errors import ConflictError, InvalidError, NotFoundError
from headway.operations.callers import Caller
from headway.operations.inputs import (
    NAME_CHARS_MAX,
    PLAIN,
    REASON_CHARS_MAX,
    Cursor,
    Instant,
    Limit,
    RequestBody,
    SellerQuery,
    SellerText,
    example,
)
from headway.operations.operation import operation
from headway.operations.pages import cut
from headway.store.accounts.webhook_endpoints import (
    EventDelivery,
    WebhookEndpoint,
    WebhookEndpoints,
)

TAG = "endpoints"
ERRORS = (404,)
PATH = "/api/webhook-endpoints"
URL = "https://app.example.com/webhooks"
EndpointUrl = Annotated[str, Field(min_length=1, max_length=URL_CHARS_MAX, pattern=PLAIN)]
DescriptionText = Annotated[str, Field(max_length=REASON_CHARS_MAX, pattern=PLAIN)]
EventTypes = Annotated[list[str], Field(max_length=len(EVENT_TYPES))]
EndpointPath = Annotated[
    str,
    Field(
        min_length=1,
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="The endpoint's id.",
        examples=["6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11"],
    ),
]
EventText = Annotated[str, Field(max_length=NAME_CHARS_MAX, pattern=PLAIN)]
DeliveryStatus = Annotated[
    str | None,
    Field(
        pattern="^(waiting|delivered|given up)$",
        description="Only deliveries that are `waiting`, `delivered` or `given up`.",
        examples=["waiting"],
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPage:
    """Endpoints by age, and where to go on."""

    items: tuple[WebhookEndpoint, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEndpoint(WebhookEndpoint):
    """An endpoint with its signing secret, which is shown this once."""

    secret: str | None = field(repr=False)
    """The signing secret, shown this once; null when the reply is replayed.
    Example: `whsec_example`
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryPage:
    """Deliveries of an endpoint, the newest first, and where to go on."""

    items: tuple[EventDelivery, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedTest:
    """A test event that was queued."""

    event: str
    """Its id: the header `webhook-id`. Example: `evt_0d6f3b1d7c114f0e9a552d6f3b1d7c11`"""
    message: str
    """What happens next. Example: `the test is sent within seconds`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedReplay:
    """Events that are sent again."""

    count: int
    """How many."""
    message: str
    """What happens next. Example: `12 events are sent again, in their order`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedEventType:
    """A type of event with the JSON schema of its body, and an example."""

    name: str
    """The name of the type. Example: `order.created`"""
    description: str
    """When it is sent. Example: `An order was read the first time.`"""
    schema: Mapping[str, Any]
    """The JSON schema of the body. Example: `{"type": "object"}`"""
    example: Mapping[str, Any]
    """A body. Example: `{"type": "order.created"}`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTypeList:
    """All types of events."""

    types: tuple[DescribedEventType, ...]
    """The types."""


class EndpointBody(RequestBody):
    """An endpoint to be made; without `event_types` it receives all types."""

    model_config = example(
        {"url": URL, "seller": "acme", "event_types": ["order.created", "order.updated"]}
    )
    url: EndpointUrl
    """Where events are sent. Example: `https://app.example.com/webhooks`"""
    seller: SellerText | None = None
    """Whose events it receives; all sellers', if an operator leaves it out. Example: `acme`"""
    description: DescriptionText = ""
    """What it is for. Example: `order import`"""
    event_types: EventTypes = Field(default_factory=list)
    """Types that it receives; empty for all. Example: `["order.created", "order.updated"]`"""


class EndpointChangeBody(RequestBody):
    """What changes; a field that is left out stays as it is."""

    model_config = example({"status": "enabled"})
    url: EndpointUrl | None = None
    """Where events are sent. Example: `https://app.example.com/webhooks`"""
    description: DescriptionText | None = None
    """What it is for. Example: `order import`"""
    event_types: EventTypes | None = None
    """Types that it receives; empty for all. Example: `["order.created"]`"""
    status: EndpointStatus | None = None
    """`enabled` sends what waits at once; `disabled` keeps it."""


class ReplayBody(RequestBody):
    """Which events are sent again: one, or all since an instant."""

    model_config = example({"since": "2026-03-04T00:00:00Z", "only_failed": True})
    event: EventText | None = None
    """The id of one event. Example: `evt_0d6f3b1d7c114f0e9a552d6f3b1d7c11`"""
    since: Instant | None = None
    """Events from this instant on. Example: `2026-03-04T00:00:00Z`"""
    only_failed: bool = False
    """Leave out events that were delivered."""


@operation("GET", PATH, need=Need.READ, tag=TAG, errors=(404, 422), name="list_webhook_endpoints")
def endpoints(
    caller: Caller, *, seller: SellerQuery = None, cursor: Cursor = None, limit: Limit = 50
) -> EndpointPage:
    """List endpoints; an operator sees all, a seller their own."""
    rows = _own(caller).some(seller=caller.known(seller), cursor=cursor, limit=limit + 1)
    shown, next_cursor = cut(rows, limit)
    return EndpointPage(items=shown, next_cursor=next_cursor)


@operation(
    "POST",
    PATH,
    need=Need.WRITE,
    tag=TAG,
    errors=(404, 422),
    status=201,
    shown_once="secret",
    name="create_webhook_endpoint",
)
def create_endpoint(caller: Caller, body: EndpointBody) -> NewEndpoint:
    """Make an endpoint; its signing secret is shown in this reply, and never again."""
    seller = caller.known(body.seller)
    _check_url(caller, body.url, seller)
    secret, encrypted = _new_secret(caller)
    endpoint_id = _all(caller).add(
        seller=seller,
        url=body.url,
        description=body.description,
        event_types=_known_types(body.event_types),
        secret=encrypted,
        now=caller.now,
    )
    return _with_secret(_own(caller).find(endpoint_id), secret)


@operation(
    "GET",
    f"{PATH}/{{endpoint_id}}",
    need=Need.READ,
    tag=TAG,
    errors=ERRORS,
    name="get_webhook_endpoint",
)
def endpoint(caller: Caller, endpoint_id: EndpointPath) -> WebhookEndpoint:
    """Show an endpoint, and how it answers."""
    return _own(caller).find(endpoint_id)


@operation(
    "PATCH",
    f"{PATH}/{{endpoint_id}}",
    need=Need.WRITE,
    tag=TAG,
    errors=(404, 422),
    name="update_webhook_endpoint",
)
def update_endpoint(
    caller: Caller, endpoint_id: EndpointPath, body: EndpointChangeBody
) -> WebhookEndpoint:
    """Change an endpoint, or enable it again; it then starts without its failures."""
    before = _own(caller).find(endpoint_id)
    if body.url is not None:
        _check_url(caller, body.url, before.seller)
    _all(caller).update(
        endpoint_id,
        url=body.url,
        description=body.description,
        event_types=None if body.event_types is None else _known_types(body.event_types),
        status=body.status,
        now=caller.now,
    )
    return _own(caller).find(endpoint_id)


@operation(
    "DELETE",
    f"{PATH}/{{endpoint_id}}",
    need=Need.WRITE,
    tag=TAG,
    errors=ERRORS,
    name="delete_webhook_endpoint",
)
def delete_endpoint(caller: Caller, endpoint_id: EndpointPath) -> WebhookEndpoint:
    """Delete an endpoint with its secret and its deliveries; show it as it was."""
    before = _own(caller).find(endpoint_id)
    _all(caller).delete(endpoint_id)
    return before


@operation(
    "POST",
    f"{PATH}/{{endpoint_id}}/rotate",
    need=Need.WRITE,
    tag=TAG,
    errors=ERRORS,
    shown_once="secret",
    name="rotate_webhook_secret",
)
def rotate_secret(caller: Caller, endpoint_id: EndpointPath) -> NewEndpoint:
    """Replace the signing secret; for 24 hours both secrets sign."""
    before = _own(caller).find(endpoint_id)
    secret, encrypted = _new_secret(caller)
    _all(caller).rotate(endpoint_id, encrypted, former_until=caller.now + ROTATION)
    return _with_secret(before, secret)


@operation(
    "POST",
    f"{PATH}/{{endpoint_id}}/test",
    need=Need.WRITE,
    tag=TAG,
    errors=(404, 409),
    name="test_webhook_endpoint",
)
def send_test(caller: Caller, endpoint_id: EndpointPath) -> QueuedTest:
    """Send a test event to this endpoint alone; its deliveries show the answer."""
    _enabled(caller, endpoint_id, f"sends {TEST}")
    event = _all(caller).add_test(endpoint_id, now=caller.now)
    return QueuedTest(event=event, message="the test is sent within seconds")


@operation(
    "POST",
    f"{PATH}/{{endpoint_id}}/replay",
    need=Need.WRITE,
    tag=TAG,
    errors=(404, 409, 422),
    name="replay_webhook_events",
)
def replay_events(caller: Caller, endpoint_id: EndpointPath, body: ReplayBody) -> QueuedReplay:
    """Send stored events again, under their ids: one, or all since an instant."""
    if (body.event is None) == (body.since is None):
        raise InvalidError("event, since: give one of the two")
    _enabled(caller, endpoint_id, "sends events again")
    count = _all(caller).replay(
        endpoint_id, message_id=body.event, since=body.since, only_failed=body.only_failed
    )
    if body.event is not None and not count:
        raise NotFoundError(f"event: no stored event for this endpoint has the id {body.event}")
    events = "1 event is" if count == 1 else f"{count:,} events are"
    return QueuedReplay(count=count, message=f"{events} sent again, in the old order")


@operation(
    "GET",
    f"{PATH}/{{endpoint_id}}/deliveries",
    need=Need.READ,
    tag=TAG,
    errors=(404, 422),
    name="list_webhook_deliveries",
)
def deliveries(
    caller: Caller,
    endpoint_id: EndpointPath,
    *,
    status: DeliveryStatus = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> DeliveryPage:
    """List the deliveries of an endpoint, the newest first, with the last answer."""
    store = _own(caller)
    store.find(endpoint_id)
    rows = store.deliveries(endpoint_id, status=status, cursor=cursor, limit=limit + 1)
    shown, next_cursor = cut(rows, limit)
    return DeliveryPage(items=shown, next_cursor=next_cursor)


@operation("GET", "/api/webhook-event-types", need=Need.READ, tag=TAG, name="list_event_types")
def event_types(caller: Caller) -> EventTypeList:  # noqa: ARG001 - the same for all callers
    """List the types of events, each with the JSON schema of its body and an example."""
    return EventTypeList(types=described_types())


def described_types() -> tuple[DescribedEventType, ...]:
    """Return the types of events as this version sends them."""
    return tuple(
        DescribedEventType(
            name=kind.name,
            description=kind.description,
            schema=kind.schema,
            example=kind.example,
        )
        for kind in EVENT_TYPES.values()
    )


def _own(caller: Caller) -> WebhookEndpoints:
    """Return the endpoints that the caller may see."""
    return WebhookEndpoints(caller.own.pool)


def _all(caller: Caller) -> WebhookEndpoints:
    """Return all endpoints; an operation changes those that the caller was found to see."""
    return WebhookEndpoints(caller.shared.pool)


def _enabled(caller: Caller, endpoint_id: str, does: str) -> WebhookEndpoint:
    found = _own(caller).find(endpoint_id)
    if found.status is not EndpointStatus.ENABLED:
        raise ConflictError(f"the endpoint is disabled, and Headway {does} only to enabled ones")
    return found


def _check_url(caller: Caller, url: str, seller: SellerId | None) -> None:
    """Refuse a URL that this endpoint cannot have; raises InvalidError."""
    settings = caller.shared.settings
    check_url(url, () if seller is not None else read_networks(settings.webhook_networks))


def _known_types(names: list[str]) -> list[str]:
    for name in names:
        if name not in EVENT_TYPES:
            raise InvalidError(
                f"event_types: {name!r} is unknown; choose from {', '.join(EVENT_TYPES)}"
            )
    return list(dict.fromkeys(names))


def _new_secret(caller: Caller) -> tuple[str, bytes]:
    secret = make_secret(fresh_secret())
    return secret, shared_vault(caller.shared.settings).encrypt(secret)


def _with_secret(found: WebhookEndpoint, secret: str) -> NewEndpoint:
    kept: dict[str, Any] = {
        attribute.name: getattr(found, attribute.name) for attribute in fields(found)
    }
    return NewEndpoint(**kept, secret=secret)
