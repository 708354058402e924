"""The events that endpoints receive: when each is sent, what it contains, and an example.

Events name records and say what changed; they contain nothing about buyers. `docs/reference` and
the API's list of types are made of this; a test compares it with what the database writes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TEST = "webhook.test"
SENT_AT = "2026-03-04T12:00:00.000000Z"
ACCOUNT = "6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11"
INSTANT = "date-time"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventField:
    """A field of an event's `data`."""

    name: str
    type: str | Sequence[str]
    description: str
    example: Any
    format: str = ""
    choices: Sequence[str] = ()

    @property
    def schema(self) -> dict[str, Any]:
        """Its JSON schema."""
        schema: dict[str, Any] = {
            "type": self.type if isinstance(self.type, str) else list(self.type),
            "description": self.description,
        }
        if self.format:
            schema["format"] = self.format
        if self.choices:
            schema["enum"] = list(self.choices)
        if self.type == "array":
            schema["items"] = {"type": "string"}
        return schema


@dataclass(frozen=True, slots=True, kw_only=True)
class EventType:
    """A type of event: when it is sent, and the fields of its `data`."""

    name: str
    """The name of the type. Example: `order.created`"""
    description: str
    """When it is sent."""
    fields: Sequence[EventField]
    subject: str

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the whole body."""
        envelope: dict[str, Any] = {
            "id": {
                "type": "string",
                "description": "The header webhook-id, equal in every attempt.",
            },
            "type": {"const": self.name},
            "timestamp": {"type": "string", "format": INSTANT, "description": "When it happened."},
            "sequence": {
                "type": "integer",
                "description": "Its position: it increases with each event of a subject.",
            },
            "seller": {"type": ["string", "null"], "description": "The seller it is about."},
            "subject": {
                "type": "string",
                "description": "What it is about; events of one subject arrive in order.",
            },
            "data": {
                "type": "object",
                "properties": {field.name: field.schema for field in self.fields},
                "required": [field.name for field in self.fields],
                "additionalProperties": False,
            },
        }
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": self.name,
            "description": self.description,
            "type": "object",
            "properties": envelope,
            "required": list(envelope),
        }

    @property
    def example(self) -> dict[str, Any]:
        """A whole body."""
        return {
            "id": "evt_0d6f3b1d7c114f0e9a552d6f3b1d7c11",
            "type": self.name,
            "timestamp": SENT_AT,
            "sequence": 1042,
            "seller": "acme",
            "subject": self.subject,
            "data": {field.name: field.example for field in self.fields},
        }


def _text(name: str, description: str, example: str) -> EventField:
    return EventField(name=name, type="string", description=description, example=example)


def _instant(name: str, description: str, example: str | None = SENT_AT) -> EventField:
    return EventField(
        name=name,
        type=("string", "null"),
        description=description,
        example=example,
        format=INSTANT,
    )


def _amount(name: str, description: str, example: str | None) -> EventField:
    return EventField(name=name, type=("string", "null"), description=description, example=example)


ACCOUNT_ID = EventField(
    name="account_id",
    type="string",
    description="The account's id.",
    example=ACCOUNT,
    format="uuid",
)
PLATFORM = _text("platform", "The platform.", "example")
REASON = _text("reason", "Why, in a sentence; empty if there is no reason.", "")
CHANGED = EventField(
    name="changed",
    type="array",
    description="Fields that differ from before; none if only what it contains has changed.",
    example=["status"],
)
ORDER = (
    ACCOUNT_ID,
    PLATFORM,
    _text("order_id", "The platform's id of the order.", "3141592653"),
    _text("number", "The order number as the buyer sees it.", "#1001"),
    _text("status", "The platform's word; `gone` once the platform has deleted it.", "paid"),
    _text("payment_status", "Whether it is paid, as the platform says it.", "paid"),
    _text("fulfillment_status", "Whether it is shipped, as the platform says it.", "unshipped"),
    EventField(
        name="is_open",
        type="boolean",
        description="True while Headway expects it to change.",
        example=True,
    ),
    _text("currency", "Currency of the amounts.", "USD"),
    _amount("total", "Amount as ordered; null if unknown.", "42.50"),
    _amount("current_total", "Amount after edits and returns; null if unknown.", None),
    _instant("placed_at", "When it was placed."),
    _instant("modified_at", "Last change according to the platform.", None),
    _instant("cancelled_at", "When it was canceled.", None),
)
LISTING = (
    ACCOUNT_ID,
    PLATFORM,
    _text("listing_id", "The platform's id of the listing.", "1234567890"),
    _text("sku", "The seller's SKU.", "MUG-1"),
    _text("title", "The title.", "Blue mug"),
    _text("state", "The platform's word, or `removed`.", "active"),
    _amount("price", "The price; null if unknown.", "12.00"),
    _text("currency", "Currency of the price.", "USD"),
    EventField(
        name="quantity", type=("integer", "null"), description="Stock; null if unknown.", example=7
    ),
    _instant("modified_at", "Last change according to the platform."),
    EventField(
        name="change",
        type="string",
        description="What happened to it.",
        example="updated",
        choices=("created", "updated", "removed"),
    ),
    CHANGED,
)
ACCOUNT_FIELDS = (
    ACCOUNT_ID,
    PLATFORM,
    _text("shop", "The shop as the platform names it.", "12345678"),
    _text("title", "The shop's name; empty if unknown.", "Acme Mugs"),
)
JOB = (
    ACCOUNT_ID,
    PLATFORM,
    _text("kind", "The kind of data.", "orders"),
    EventField(
        name="job_id",
        type="string",
        description="The job's id.",
        example="0b8f6f0c-1b9e-4a4e-8f0e-9a552d6f3b1d",
        format="uuid",
    ),
    REASON,
)
STATE: Mapping[str, Any] = {"price": "120.00", "quantity": 4, "currency": "USD"}
PART = (
    _text("part_number", "The supplier's part number.", "WF338109=K3"),
    REASON,
    EventField(
        name="before",
        type=("object", "null"),
        description="What the shop showed, or was to show; null if nothing.",
        example=STATE,
    ),
    EventField(
        name="after",
        type=("object", "null"),
        description="What it shows now, or should show; null if nothing.",
        example={**STATE, "price": "240.00"},
    ),
)
ENDPOINT = (
    EventField(
        name="endpoint_id",
        type="string",
        description="The endpoint's id.",
        example=ACCOUNT,
        format="uuid",
    ),
)


def _part(name: str, description: str) -> EventType:
    return EventType(
        name=name, description=description, fields=PART, subject="part:acme/WF338109=K3"
    )


def _job(name: str, description: str) -> EventType:
    return EventType(name=name, description=description, fields=JOB, subject=f"account:{ACCOUNT}")


EVENT_TYPES: Mapping[str, EventType] = {
    event_type.name: event_type
    for event_type in (
        EventType(
            name="order.created",
            description="An order placed since the account was connected was read the first time.",
            fields=ORDER,
            subject=f"order:{ACCOUNT}/3141592653",
        ),
        EventType(
            name="order.updated",
            description="An order, its lines, shipments or refunds are not as they were.",
            fields=(*ORDER, CHANGED),
            subject=f"order:{ACCOUNT}/3141592653",
        ),
        EventType(
            name="listing.changed",
            description="A listing is new after the first complete pull, changed, or removed.",
            fields=LISTING,
            subject=f"listing:{ACCOUNT}/1234567890",
        ),
        EventType(
            name="account.connected",
            description="An account was connected, or connected again.",
            fields=(*ACCOUNT_FIELDS, REASON),
            subject=f"account:{ACCOUNT}",
        ),
        EventType(
            name="account.disconnected",
            description="An account was disconnected: on request, by its platform, or deleted.",
            fields=(*ACCOUNT_FIELDS, REASON),
            subject=f"account:{ACCOUNT}",
        ),
        _job("account.reading_failed", "A job of an account stopped after repeated failures."),
        _job("quota.reached", "The month's orders of the seller's plan are used up."),
        _job("quota.lifted", "A job that waited for the plan goes on."),
        _part("change.held", "A change waits for a person to approve or reject it."),
        _part("change.approved", "A person approved a held change."),
        _part("change.rejected", "A person rejected a held change."),
        _part("change.applied", "The shop confirmed a change."),
        _part("change.failed", "The shop refused a change."),
        _part("part.published", "A part is in the shop for the first time."),
        _part("part.blocked", "A part cannot be published; `reason` says why."),
        _part("part.parked", "A part is not read any more after repeated failures."),
        _part("part.revived", "A parked or removed part is read again."),
        _part("part.removed", "A person removed a part."),
        EventType(
            name="endpoint.disabled",
            description="Headway stopped sending to an endpoint that was gone or failed for days.",
            fields=(
                *ENDPOINT,
                _text("url", "Its URL.", "https://app.example.com/webhooks"),
                REASON,
            ),
            subject=f"endpoint:{ACCOUNT}",
        ),
        EventType(
            name=TEST,
            description="Somebody asked for a test; only the endpoint under test receives it.",
            fields=ENDPOINT,
            subject=f"endpoint:{ACCOUNT}",
        ),
    )
}
