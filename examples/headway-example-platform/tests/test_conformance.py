"""The example passes the suite that every provider must pass."""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from headway_example_platform import EXAMPLE, limit_key, limit_of

from headway.core.accounts.jobs import Account, DataKind
from headway.core.catalog.listings import SellerId
from headway.providers.tokens import store_tokens
from headway_lab.conformance import (
    Check,
    FaultyTransport,
    PlatformWorld,
    checks_of,
    open_context,
)
from headway_lab.conformance.world import START, Rows
from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.virtual_clock import VirtualClock

SHOP, TOKEN = "mugs", "an-example-token"
ITEMS = [
    {"id": number, "title": f"Mug {number}", "price": "9.50", "currency": "USD"}
    for number in range(25)
]
PER_PAGE = 10


def simulate(method: str, target: str, headers: Mapping[str, str], body: bytes) -> SimReply:
    """Answer as the platform would."""
    del method, body
    if headers.get("authorization") != f"Bearer {TOKEN}":
        return json_reply({}, status=401)
    page = int(parse_qs(urlsplit(target).query)["page"][0])
    rows = ITEMS[(page - 1) * PER_PAGE : page * PER_PAGE]
    return json_reply({"items": rows, "pages": -(-len(ITEMS) // PER_PAGE)})


class ExampleWorld(PlatformWorld):
    """One shop with 25 items."""

    provider = EXAMPLE
    kinds = (DataKind.LISTINGS,)
    secrets = (TOKEN,)

    def __init__(self) -> None:
        clock = VirtualClock(START)
        self.transport = FaultyTransport(simulate, clock)
        self.context = open_context(None, self.transport, clock)
        store_tokens(
            self.context.shelf,
            self.context.open_vault(),
            limit_key(SHOP),
            clock=clock,
            access=TOKEN,
        )
        platform: Any = EXAMPLE.name
        self.account = Account(id="1", user_id=SellerId("acme"), platform=platform, shop=SHOP)
        assert EXAMPLE.platform is not None
        self._client = EXAMPLE.platform.open(self.context, self.account)

    @property
    def client(self) -> Any:
        return self._client

    @property
    def limit_keys(self) -> Collection[str]:
        return [limit_of(limit_key(SHOP)).key]

    @property
    def used_keys(self) -> Collection[str]:
        return list(self._client.keys)

    def call(self) -> object:
        assert EXAMPLE.platform is not None
        paginator = EXAMPLE.platform.paginator_of(DataKind.LISTINGS, is_backfill=False)
        return self._client.read(paginator.ask(paginator.begin({}, START, ())))

    def truth(self, kind: DataKind) -> Collection[str]:
        del kind
        return [str(item["id"]) for item in ITEMS]

    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        page = json.loads(body)
        return json.dumps({**page, "items": edit(page["items"])}).encode()


@pytest.mark.parametrize("check", checks_of("platform"), ids=lambda check: check.__name__)
def test_the_example_conforms(check: Check) -> None:
    check(ExampleWorld())
