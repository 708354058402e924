"""Etsy's consent page, in the shape that all platforms have."""

from collections.abc import Sequence

from headway.core.catalog.listings import LimitKey
from headway.core.limits.transitions import Resource
from headway.errors import ConfigError, NotFoundError
from headway.providers.etsy.api import CONSENT, EtsyAccess, EtsyApi, consent_url
from headway.providers.etsy.limits import day_resource, second_resource
from headway.providers.etsy.replies import PROVIDER
from headway.providers.oauth import AuthorizedShop
from headway.providers.token_store import token_key
from headway.providers.tokens import TokenGrant


class EtsyOAuth:
    """A seller grants our app access to their Etsy shop; Etsy names the shop afterwards."""

    def __init__(
        self,
        api: EtsyApi,
        access: EtsyAccess,
        *,
        per_second: int,
        per_day: int,
        page: str = CONSENT,
    ) -> None:
        self._api = api
        self._keystring = access.keystring
        self._limits = (per_second, per_day)
        self._page = page

    def resources(self, shop: str) -> Sequence[Resource]:  # noqa: ARG002 - as the port has it
        """Return the limits of the app: of a second, and of 24 hours."""
        per_second, per_day = self._limits
        return (
            second_resource(self._keystring, limit=per_second),
            day_resource(self._keystring, limit=per_day),
        )

    def url(self, *, redirect_uri: str, state: str, challenge: str, shop: str) -> str:  # noqa: ARG002
        """Return Etsy's page; raises ConfigError."""
        if not self._keystring:
            raise ConfigError("HEADWAY_ETSY_KEYSTRING is not set, so nobody can connect a shop")
        return consent_url(self._keystring, redirect_uri, state, challenge, page=self._page)

    def exchange(self, code: str, *, redirect_uri: str, verifier: str, shop: str) -> TokenGrant:  # noqa: ARG002
        """Change the code for tokens; one call."""
        return self._api.exchange_code(code, redirect_uri=redirect_uri, verifier=verifier)

    def find_shop(self, grant: TokenGrant, *, shop: str) -> AuthorizedShop:  # noqa: ARG002
        """Return the seller's shop; one call. Raises NotFoundError."""
        authorized = self._api.find_self(grant.access)
        if authorized.shop_id is None:
            raise NotFoundError("this Etsy account has no shop; sign in at Etsy as its owner")
        return AuthorizedShop(shop=authorized.shop_id)

    def find_title(self, grant: TokenGrant, authorized: AuthorizedShop) -> str:
        """Return the shop's name; one call."""
        return self._api.find_title(authorized.shop, grant.access)

    def limit_key(self, authorized: AuthorizedShop) -> LimitKey:
        """Return where the connector looks for the tokens."""
        return token_key(PROVIDER, authorized.shop)

    def close(self) -> None:
        """Let connections go."""
        self._api.close()
