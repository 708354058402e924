"""Shopify's consent page, in the shape that all platforms have.

Shopify has a page for each shop, so the shop must be known beforehand; it is verified with the new
token, so that no token is stored under another shop's name.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import httpx

from headway.clock import Clock
from headway.core.catalog.listings import LimitKey
from headway.core.limits.transitions import Resource
from headway.errors import ConfigError, NotFoundError
from headway.providers.http import HttpResponse, build_client, check_status, exchange
from headway.providers.oauth import AuthorizedShop
from headway.providers.shopify.access_scopes import scope_names
from headway.providers.shopify.api import WHO, shop_address
from headway.providers.shopify.oauth_requests import consent_url, exchange_code
from headway.providers.shopify.replies import PROVIDER, read_shop
from headway.providers.shopify.storefront import ShopAccess, shop_limit_key, shop_resource
from headway.providers.tokens import TokenGrant


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopifyOAuth:
    """A merchant lets our app into their shop."""

    access: ShopAccess
    scopes: str
    url_template: str
    clock: Clock
    timeout_s: float
    transport: httpx.BaseTransport | None = None

    def resources(self, shop: str) -> Sequence[Resource]:
        """Return the bucket of the app in that shop."""
        return (shop_resource(shop_limit_key(self.access.client_id, shop)),)

    def url(self, *, redirect_uri: str, state: str, challenge: str, shop: str) -> str:  # noqa: ARG002 - Shopify has no PKCE
        """Return the shop's page; raises ConfigError."""
        if not self.access.client_id or not self.access.client_secret:
            raise ConfigError(
                "HEADWAY_SHOPIFY_CLIENT_ID and HEADWAY_SHOPIFY_CLIENT_SECRET must be set to connect"
                " a shop"
            )
        return consent_url(
            shop,
            client_id=self.access.client_id,
            scopes=scope_names(self.scopes),
            redirect_uri=redirect_uri,
            state=state,
            url=self.url_template,
        )

    def exchange(self, code: str, *, redirect_uri: str, verifier: str, shop: str) -> TokenGrant:  # noqa: ARG002
        """Change the code for tokens; one call."""
        return exchange_code(
            shop,
            code,
            access=self.access,
            clock=self.clock,
            url=self.url_template,
            timeout_s=self.timeout_s,
            transport=self.transport,
        )

    def find_shop(self, grant: TokenGrant, *, shop: str) -> AuthorizedShop:
        """Read the shop's name; one call. Raises NotFoundError if it is another shop."""
        answer = self._ask(shop, grant.access)
        check_status(answer, provider=PROVIDER, shows_body=True)
        domain, name = read_shop(answer.body)
        if domain != shop:
            raise NotFoundError(f"Shopify let us into {domain}, and not into {shop}")
        return AuthorizedShop(shop=domain, title=name)

    def find_title(self, grant: TokenGrant, authorized: AuthorizedShop) -> str:  # noqa: ARG002
        """Return the shop's address, for one that has no name of its own."""
        return authorized.shop

    def limit_key(self, authorized: AuthorizedShop) -> LimitKey:
        """Return where the connectors look for the tokens."""
        return shop_limit_key(self.access.client_id, authorized.shop)

    def close(self) -> None:
        """Nothing stays open: each call has a connection of its own."""

    def _ask(self, shop: str, bearer: str) -> HttpResponse:
        base = str(shop_address(self.url_template, shop))
        with build_client(
            base, clock=self.clock, timeout_s=self.timeout_s, transport=self.transport
        ) as client:
            request = client.build_request(
                "POST",
                self.access.path,
                json={"query": WHO},
                headers={"X-Shopify-Access-Token": bearer},
            )
            return exchange(
                client,
                request,
                clock=self.clock,
                timeout_s=self.timeout_s,
                provider=PROVIDER,
                hide=(bearer,),
            )
