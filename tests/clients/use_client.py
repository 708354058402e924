"""Call a running Headway with the generated client; run with its folder as the working folder."""

import json
import sys

sys.path.insert(0, ".")

from headway_client import AuthenticatedClient  # type: ignore[import-not-found]
from headway_client.api.pauses import pause_sync  # type: ignore[import-not-found]
from headway_client.api.products import list_products  # type: ignore[import-not-found]
from headway_client.models import (  # type: ignore[import-not-found]
    PauseBody,
    PauseKind,
    PauseList,
    Problem,
    ProductPage,
)

server, key, seller = sys.argv[1:]
client = AuthenticatedClient(base_url=server, token=key)
page = list_products.sync(client=client, seller=seller, limit=5)
assert isinstance(page, ProductPage), page
body = PauseBody(kind=PauseKind.SELLER, seller=seller, reason="stocktaking")
paused = pause_sync.sync(client=client, body=body)
assert isinstance(paused, PauseList), paused
refused = list_products.sync(client=client, seller="\0")
assert isinstance(refused, Problem), refused
sys.stdout.write(
    json.dumps(
        {
            "seller": page.items[0].seller,
            "currency": page.currency,
            "paused": [paused.pauses[0].seller, paused.pauses[0].reason],
            "refused": [refused.status, refused.detail],
        }
    )
)
