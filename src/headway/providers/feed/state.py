"""The state of a price list for all workers: its last good version, and one held back.

Kept in the store of tokens, encrypted as everything there; the list itself is a file.
"""

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from headway.clock import Clock, fresh_id
from headway.core.catalog.listings import LimitKey
from headway.errors import ConflictError
from headway.providers.token_store import TokenStore
from headway.providers.vault import Vault

NAME = "list"
LEASE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class ListState:
    """The last good list: its hash, its validators, its rows, and when it was last confirmed.

    `baseline` is the number of rows that the next list is compared with. A list that is held back
    has `held_rows` rows and `held_reason`.
    """

    sha256: str = ""
    etag: str = ""
    modified: str = ""
    rows: int = 0
    baseline: int = 0
    checked_at: datetime | None = None
    held_rows: int = 0
    held_reason: str = ""


class FeedStates:
    """The state of one price list; changes need the lease that `begin` takes."""

    def __init__(
        self, limit_key: LimitKey, *, token_store: TokenStore, vault: Vault, clock: Clock
    ) -> None:
        self._limit_key = limit_key
        self._store = token_store
        self._vault = vault
        self._clock = clock

    def load(self) -> ListState:
        """Return the state; an empty one before the first list."""
        for stored in self._store.load(self._limit_key):
            if stored.name == NAME:
                values = json.loads(self._vault.decrypt(stored.secret))
                checked_at = values.pop("checked_at")
                at = None if checked_at is None else datetime.fromisoformat(checked_at)
                return ListState(**values, checked_at=at)
        return ListState()

    def begin(self) -> str | None:
        """Take the lease and return its owner; None while another worker holds it."""
        owner, now = fresh_id(), self._clock.now()
        is_taken = self._store.begin_refresh(
            self._limit_key, owner=owner, now=now, lease_until=now + LEASE
        )
        return owner if is_taken else None

    def save(self, state: ListState, *, owner: str, until: datetime) -> None:
        """Store the state; `until` is when the list must be read again."""
        checked_at = None if state.checked_at is None else state.checked_at.isoformat()
        text = json.dumps({**asdict(state), "checked_at": checked_at})
        self._store.save(
            self._limit_key,
            NAME,
            secret=self._vault.encrypt(text),
            expires_at=until,
            owner=owner,
        )

    def end(self, owner: str) -> None:
        """Release the lease."""
        self._store.end_refresh(self._limit_key, owner=owner)

    def accept(self) -> ListState:
        """Compare the next list with the held one; raises ConflictError if none is held."""
        owner = self.begin()
        if owner is None:
            raise ConflictError("the price list is being read just now; try again in a minute")
        try:
            state = self.load()
            if not state.held_reason:
                raise ConflictError("no price list is held")
            accepted = replace(state, baseline=state.held_rows, held_rows=0, held_reason="")
            self.save(accepted, owner=owner, until=self._clock.now())
        finally:
            self.end(owner)
        return state
