"""Input and output of a platform's consent page, in one shape for all platforms.

Each platform's own way is in its connector; the flow around it is in `web.connect`.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.core.catalog.listings import LimitKey
from headway.core.limits.transitions import Resource
from headway.providers.tokens import TokenGrant


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizedShop:
    """The shop that a person let us into; see `core.jobs.Account`."""

    shop: str
    title: str = ""
    owner_id: str = ""


class OAuthClient(Protocol):
    """One platform's consent page, and the calls that follow it. Each call raises ProviderError.

    `shop` is the shop to connect, where a platform must know it beforehand.
    """

    def resources(self, shop: str) -> Sequence[Resource]:
        """Return every limit that binds the calls below, a day's quota too."""

    def url(self, *, redirect_uri: str, state: str, challenge: str, shop: str) -> str:
        """Return where to send the person; raises ConfigError where a setting is missing."""

    def exchange(self, code: str, *, redirect_uri: str, verifier: str, shop: str) -> TokenGrant:
        """Change the code that the person came back with for tokens; one call."""

    def find_shop(self, grant: TokenGrant, *, shop: str) -> AuthorizedShop:
        """Return the shop of these tokens; one call. Raises NotFoundError if there is no shop."""

    def find_title(self, grant: TokenGrant, authorized: AuthorizedShop) -> str:
        """Return the shop's title, where `find_shop` did not return it; one call."""

    def limit_key(self, authorized: AuthorizedShop) -> LimitKey:
        """Return under which name the account's tokens are kept."""

    def close(self) -> None:
        """Let connections go."""


def challenge_of(verifier: str) -> str:
    """Return the PKCE challenge of a verifier (S256)."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
