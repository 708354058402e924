"""A platform as a plug-in: listings of a shop, in numbered pages, with a bearer token.

A plug-in has its own settings: this one reads EXAMPLE_URL and EXAMPLE_WEBHOOK_SECRET.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any

import httpx

from headway.core.accounts.jobs import Account, DataKind, PlatformName
from headway.core.accounts.pagination import (
    RUN,
    Cursor,
    Page,
    PageRequest,
    PageStep,
    Paginator,
)
from headway.core.accounts.warehouse import Records, ShopListing, Unreadable
from headway.core.accounts.webhooks import Webhook, WebhookEffect, id_text, required_text
from headway.core.catalog.listings import LimitKey
from headway.core.limits.transitions import Resource, Window
from headway.errors import UnauthorizedError, UnreadableError
from headway.providers.http import build_client, check_status, exchange
from headway.providers.provider import (
    KeyedLimit,
    PlatformRole,
    Provider,
    ProviderContext,
    WebhookRole,
)
from headway.providers.tokens import ACCESS, AccountTokens
from headway.providers.webhook_signatures import hmac_sha256, is_same

NAME = "example"
URL = os.environ.get("EXAMPLE_URL", "https://api.platform.example")
SETTING = "EXAMPLE_WEBHOOK_SECRET"
CALLS, MINUTE_S, JITTER_S = 60, 60.0, 2.5
TIMEOUT_S = 30.0


def limit_key(shop: str) -> LimitKey:
    """Return the limit key of a shop; its tokens are stored under the same key."""
    return LimitKey(f"{NAME}:{shop}")


def limit_of(key: LimitKey) -> Resource:
    """Return the limit of one shop: 60 calls a minute."""
    return Resource(key=key, rules=(Window(limit=CALLS, span_s=MINUTE_S, jitter_s=JITTER_S),))


class ExamplePlatform:
    """One shop behind the engine's port `Platform`."""

    day_key: str | None = None
    cost = None

    def __init__(self, context: ProviderContext, account: Account) -> None:
        self._shop = account.shop
        self._clock = context.clock
        self._tokens = AccountTokens(
            limit_key(account.shop),
            token_store=context.token_store,
            vault=context.open_vault(),
            clock=context.clock,
        )
        self._client = build_client(
            URL, clock=context.clock, timeout_s=TIMEOUT_S, transport=context.transport
        )

    def __repr__(self) -> str:
        return f"ExamplePlatform({self._shop})"

    @property
    def keys(self) -> Sequence[str]:
        """The limit that every call passes."""
        return (limit_key(self._shop),)

    @property
    def observations(self) -> Mapping[str, Any]:
        """Nothing: replies do not report the limit."""
        return {}

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def needs_token(self) -> bool:
        """Return False: the token never expires."""
        return False

    def refresh_token(self, *, send_by_s: float = math.inf) -> bool:  # noqa: ARG002
        """Return False: there is nothing to refresh."""
        return False

    def price(self, ask: PageRequest) -> float:  # noqa: ARG002
        """Return 1: every request counts the same."""
        return 1.0

    def read(self, ask: PageRequest) -> Page:
        """Read one page of listings; raises ProviderError."""
        token = self._tokens.find(ACCESS)
        if token is None:
            raise UnauthorizedError(f"there is no token for {self._shop}", provider=NAME)
        request = self._client.build_request(
            "GET",
            f"/v1/shops/{self._shop}/items",
            params={"page": ask.values["page"]},
            headers={"Authorization": f"Bearer {token.text}"},
        )
        answer = exchange(
            self._client,
            request,
            clock=self._clock,
            timeout_s=TIMEOUT_S,
            provider=NAME,
            hide=(token.text,),
        )
        if answer.status == httpx.codes.UNAUTHORIZED and answer.document is not None:
            self._tokens.refuse(token)  # a page of a firewall says nothing of the token
        check_status(answer, provider=NAME, shows_body=True)
        return read_page(answer.body)


def read_page(body: bytes) -> Page:
    """Read a page; a bad row is set aside. Raises UnreadableError if it is not a page."""
    try:
        page = json.loads(body, parse_float=Decimal)
        rows, pages = page["items"], int(page["pages"])
        if not isinstance(rows, list):
            raise TypeError("items is not a list")  # noqa: TRY301 - handled with the others
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnreadableError("the reply is not a page of items", provider=NAME) from None
    listings, unreadable = [], []
    for row in rows:
        try:
            listings.append(_listing(row))
        except (KeyError, TypeError, InvalidOperation) as error:
            text = json.dumps(row, default=str)[:1000]
            unreadable.append(
                Unreadable(
                    kind=DataKind.LISTINGS.value,
                    external_id=sha256(text.encode()).hexdigest()[:32],
                    reason=f"{type(error).__name__}: {error}"[:100],
                    raw={"text": text},
                )
            )
    ids = tuple(listing.external_id for listing in listings)
    records = Records(listings=tuple(listings), unreadable=tuple(unreadable))
    return Page(records=records, ids=ids, total=pages)


def _listing(row: Any) -> ShopListing:  # noqa: ANN401 - whatever the other side sends
    return ShopListing(
        external_id=str(row["id"]),
        state="active",
        title=str(row["title"])[:255],
        price=Decimal(str(row["price"])),
        currency=str(row["currency"])[:3],
    )


@dataclass(frozen=True, slots=True)
class Items:
    """Read the pages of all items from the first to the last."""

    recheck_after = None

    def begin(self, cursor: Cursor, now: datetime, wanted: Sequence[str]) -> Cursor:  # noqa: ARG002
        """Begin a run at the first page, or continue the one under way."""
        return cursor if RUN in cursor else {**cursor, RUN: {"page": 1, "at": now.isoformat()}}

    def ask(self, cursor: Cursor) -> PageRequest:
        """Return the request for the next page."""
        return PageRequest(what="items", values={"page": cursor[RUN]["page"]})

    def advance(self, cursor: Cursor, page: Page, now: datetime) -> PageStep:  # noqa: ARG002
        """Continue with the next page, or end the run."""
        run = cursor[RUN]
        if run["page"] < (page.total or 0):
            return PageStep(cursor={**cursor, RUN: {**run, "page": run["page"] + 1}})
        rest = {name: value for name, value in cursor.items() if name != RUN}
        began_at = datetime.fromisoformat(run["at"])
        return PageStep(cursor=rest, is_done=True, gone_since=began_at)


def paginator_of(kind: DataKind, *, is_backfill: bool) -> Paginator:
    """Return how listings are read; there is nothing else, and no history."""
    assert kind is DataKind.LISTINGS, f"{NAME} has no {kind}"
    assert not is_backfill, f"{NAME} has no history"
    return Items()


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, _: datetime) -> bool:
    """Return True if the platform signed this body."""
    return is_same(hmac_sha256(secret.encode(), body).hex(), headers.get("x-example-signature", ""))


def parse_webhook(
    platform: PlatformName, _: Mapping[str, str], payload: Mapping[str, Any]
) -> Webhook:
    """Return what a delivery means: `item.changed` wakes the job that reads listings."""
    topic = required_text(payload.get("event"), "event")
    is_used = topic == "item.changed"
    return Webhook(
        platform=platform,
        delivery_id=required_text(payload.get("id"), "id"),
        shop=required_text(payload.get("shop"), "shop"),
        topic=topic,
        effect=WebhookEffect.WAKE if is_used else WebhookEffect.NOTHING,
        kind=DataKind.LISTINGS if is_used else None,
        external_id=id_text(payload.get("item")),
    )


EXAMPLE = Provider(
    name=NAME,
    title="Example",
    keyed_limit=KeyedLimit(
        key=lambda _, shop: limit_key(shop),
        owner=lambda _, key: key.removeprefix(f"{NAME}:") if key.startswith(f"{NAME}:") else None,
        resource=lambda key, _: limit_of(key),
        summary=f"{CALLS} calls a minute for each shop",
    ),
    platform=PlatformRole(
        open=ExamplePlatform,
        paginator_of=paginator_of,
        kinds=(DataKind.LISTINGS,),
        token_key=lambda _, shop: limit_key(shop),
        own_limit=lambda _, account, __: limit_of(limit_key(account.shop)),
        webhooks=WebhookRole(
            setting=SETTING,
            secret=lambda _: os.environ.get(SETTING, ""),
            is_signed=is_signed,
            parse=parse_webhook,
        ),
    ),
)
