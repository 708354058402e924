"""A token store in memory, as the suite hands it to a provider."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from headway.core.catalog.listings import LimitKey
from headway.store.accounts.credentials import Credential


class MemoryTokenStore:
    """Keeps tokens by limit key; one worker at a time holds the lease of a key."""

    def __init__(self) -> None:
        self._tokens: dict[tuple[str, str], Credential] = {}
        self._leases: dict[str, tuple[str, datetime]] = {}

    def load(self, limit_key: LimitKey) -> Sequence[Credential]:
        """Return the tokens of this limit key, expired ones included."""
        return [token for (key, _), token in self._tokens.items() if key == limit_key]

    def save(
        self,
        limit_key: LimitKey,
        name: str,
        *,
        secret: bytes,
        expires_at: datetime,
        owner: str,
        renewed_at: datetime | None = None,  # noqa: ARG002 - as the port has it
    ) -> int | None:
        """Store a token and return its version; None if the owner lost the lease."""
        if not self._is_held_by(limit_key, owner):
            return None
        known = self._tokens.get((limit_key, name))
        version = 1 if known is None else known.version + 1
        token = Credential(name=name, secret=secret, expires_at=expires_at, version=version)
        self._tokens[limit_key, name] = token
        return version

    def invalidate(
        self, limit_key: LimitKey, versions: Mapping[str, int], *, now: datetime
    ) -> None:
        """Expire exactly these versions."""
        for name, version in versions.items():
            token = self._tokens.get((limit_key, name))
            if token is not None and token.version == version:
                expires_at = min(token.expires_at, now)
                self._tokens[limit_key, name] = replace(token, expires_at=expires_at)

    def move(self, limit_key: LimitKey, new_key: LimitKey, *, now: datetime) -> bool:  # noqa: ARG002
        """Rename the shop of these tokens; False if the new name is another account's."""
        if self.load(new_key):
            return False
        for token in self.load(limit_key):
            self._tokens[new_key, token.name] = self._tokens.pop((limit_key, token.name))
        return True

    def begin_refresh(
        self, limit_key: LimitKey, *, owner: str, now: datetime, lease_until: datetime
    ) -> bool:
        """Take the lease; return False while another worker holds it."""
        if limit_key in self._leases and self._leases[limit_key][1] > now:
            return False
        self._leases[limit_key] = (owner, lease_until)
        return True

    def end_refresh(self, limit_key: LimitKey, *, owner: str) -> None:
        """Release the lease if this owner still holds it."""
        if self._is_held_by(limit_key, owner):
            del self._leases[limit_key]

    def _is_held_by(self, limit_key: LimitKey, owner: str) -> bool:
        return limit_key in self._leases and self._leases[limit_key][0] == owner
