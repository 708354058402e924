"""The example passes the suite that every provider must pass."""

import json
import os
from collections.abc import Callable, Collection, Mapping
from typing import Self
from urllib.parse import parse_qs, urlsplit

import pytest
from headway_example_platform import EXAMPLE, SETTING

from headway.core.accounts.jobs import DataKind
from headway.providers.webhook_signatures import hmac_sha256
from headway_lab.conformance import Check, PlatformWorld, Rows, checks_of
from headway_lab.simulators.reply import SimReply, json_reply

SHOP, TOKEN = "mugs", "an-example-token"
SECRET = os.environ.setdefault(SETTING, "an-example-secret")
PER_PAGE = 10


class ExampleWorld(PlatformWorld):
    """One shop with three pages of items."""

    provider = EXAMPLE

    def __init__(self, *, count: int = 25) -> None:
        super().__init__()
        self.items: list[dict[str, object]] = []
        for _ in range(count):
            self.add_row(DataKind.LISTINGS)
        self.connect(self.simulate, None, SHOP, access=TOKEN)

    def simulate(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> SimReply:
        """Answer as the platform would."""
        del method, body
        if headers.get("authorization") != f"Bearer {TOKEN}":
            return json_reply({}, status=401)
        page = int(parse_qs(urlsplit(target).query)["page"][0])
        rows = self.items[(page - 1) * PER_PAGE : page * PER_PAGE]
        return json_reply({"items": rows, "pages": -(-len(self.items) // PER_PAGE)})

    def truth(self, kind: DataKind) -> Collection[str]:
        del kind
        return [str(item["id"]) for item in self.items]

    def add_row(self, kind: DataKind) -> None:
        del kind
        number = len(self.items)
        self.items.append(
            {"id": number, "title": f"Mug {number}", "price": "9.50", "currency": "USD"}
        )

    def empty(self) -> Self:
        return type(self)(count=0)

    def webhook(self) -> tuple[Mapping[str, str], bytes]:
        body = json.dumps({"id": "e-1", "event": "item.changed", "shop": SHOP, "item": 1}).encode()
        return {"X-Example-Signature": hmac_sha256(SECRET.encode(), body).hex()}, body

    def edit_rows(self, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        page = json.loads(body)
        return json.dumps({**page, "items": edit(page["items"])}).encode()


@pytest.mark.parametrize("check", checks_of("platform"), ids=lambda check: check.__name__)
def test_the_example_conforms(check: Check) -> None:
    check(ExampleWorld())
