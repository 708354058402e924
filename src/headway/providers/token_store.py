"""What providers need from the store that keeps their tokens."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from headway.core.catalog.listings import LimitKey


def token_key(platform: str, shop: str) -> LimitKey:
    """Return the name under which the tokens of a shop are kept; Shopify's are kept per app."""
    return LimitKey(f"{platform}:shop:{shop}")


class StoredToken(Protocol):
    """A stored token."""

    @property
    def name(self) -> str:
        """The name of the token."""

    @property
    def secret(self) -> bytes:
        """The encrypted text."""

    @property
    def expires_at(self) -> datetime:
        """When the token expires, or was found to be invalid."""

    @property
    def version(self) -> int:
        """How often a token of this name has been stored."""


class TokenStore(Protocol):
    """The store of tokens that all workers share; a lease decides who refreshes them."""

    def load(self, limit_key: LimitKey) -> Sequence[StoredToken]:
        """Return the tokens of this limit key, expired ones included."""

    def save(
        self,
        limit_key: LimitKey,
        name: str,
        *,
        secret: bytes,
        expires_at: datetime,
        owner: str,
        renewed_at: datetime | None = None,
    ) -> int | None:
        """Store a token and return its version; None if the owner lost the lease."""

    def invalidate(
        self, limit_key: LimitKey, versions: Mapping[str, int], *, now: datetime
    ) -> None:
        """Expire exactly these versions, by name; newer ones stay valid."""

    def move(self, limit_key: LimitKey, new_key: LimitKey, *, now: datetime) -> bool:
        """Rename the shop of these tokens; False if the new name is another account's.

        Both keys begin with the platform and end with the shop, after a colon each.
        """

    def begin_refresh(
        self, limit_key: LimitKey, *, owner: str, now: datetime, lease_until: datetime
    ) -> bool:
        """Take the lease to refresh; return False while another worker holds it."""

    def end_refresh(self, limit_key: LimitKey, *, owner: str) -> None:
        """Release the lease if this owner still holds it."""
