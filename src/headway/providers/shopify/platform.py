"""A shop's orders, listings and customers behind the engine's port `Platform`.

The same app, tokens and bucket of points as for writing: both lanes share one limit.
"""

import math
from collections.abc import Mapping, Sequence

import httpx

from headway.clock import Clock
from headway.core.accounts.jobs import Account
from headway.core.accounts.pagination import Page, PageRequest
from headway.core.catalog.listings import LimitKey
from headway.core.catalog.storefront import Cost
from headway.core.limits.transitions import Observation
from headway.providers.shopify.api import ShopAccess, ShopApi
from headway.providers.shopify.read_queries import document_of, price_of
from headway.providers.shopify.read_replies import check_access, check_size, read_page, read_part
from headway.providers.token_store import TokenStore
from headway.providers.vault import Vault

# No call may cost more. Until a reply shows what a request costs, so many times as much is reserved
# as it is likely to be.
POINTS_PER_CALL = 1000
SAFETY = 2


class ShopifyPlatform:
    """One seller's shop, read."""

    # There is no quota of a day.
    day_key: str | None = None

    def __init__(
        self,
        account: Account,
        *,
        url: str = "https://{shop}",
        access: ShopAccess,
        token_store: TokenStore,
        vault: Vault,
        clock: Clock,
        timeout_s: float = 30,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._api = ShopApi(
            account.shop,
            url=url,
            access=access,
            token_store=token_store,
            vault=vault,
            clock=clock,
            timeout_s=timeout_s,
            transport=transport,
        )
        # What the shop charged for a request, by its kind and size; that never changes.
        self._charged: dict[tuple[str, int], float] = {}

    def __repr__(self) -> str:
        return f"ShopifyAccount({self.limit_key})"

    @property
    def limit_key(self) -> LimitKey:
        """The app and shop that the limit binds."""
        return self._api.limit_key

    @property
    def keys(self) -> Sequence[str]:
        """The bucket of points that binds every call."""
        return (self.limit_key,)

    @property
    def cost(self) -> Cost | None:
        """The cost of the last call, answered or refused; None if the shop did not report it."""
        return self._api.cost

    @property
    def observations(self) -> Mapping[str, Observation]:
        """The bucket's state in the last reply, by limit key."""
        observation = None if self.cost is None else self.cost.observation
        return {} if observation is None else {self.limit_key: observation}

    def close(self) -> None:
        """Let the connections go."""
        self._api.close()

    def needs_token(self) -> bool:
        """Return True if the access token must be refreshed before anything else."""
        return self._api.needs_token()

    def refresh_token(self, *, send_by_s: float = math.inf) -> bool:
        """Refresh it; False if no request was made: another worker is at it, or it is too late."""
        return self._api.refresh_token(send_by_s=send_by_s)

    def price(self, ask: PageRequest) -> float:
        """Return what this request costs in points: as charged before, or a safe estimate."""
        estimate = min(SAFETY * price_of(ask), POINTS_PER_CALL)
        return self._charged.get(_size(ask), estimate)

    def read(self, ask: PageRequest) -> Page:
        """Make this request, and read its page; raises ProviderError."""
        former = read_part(ask.values.get("next"))
        reply = self._api.ask(document_of(ask, after=former.after if former else None))
        if reply.cost is not None and reply.data:
            self._charged[_size(ask)] = reply.cost.requested
        check_access(reply)
        check_size(reply)
        reply.refuse()
        return read_page(ask, reply)


def _size(ask: PageRequest) -> tuple[str, int]:
    """Return what the cost of a request depends on."""
    return ask.what, ask.values.get("first") or len(ask.values.get("ids", ()))
