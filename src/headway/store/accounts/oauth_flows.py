"""OAuth authorizations in progress.

A flow is one row. It starts as a link code that an operator passes on, becomes a state once a
browser presents the code, and is deleted once the platform sends that browser back: each step
works once. The table holds digests of link codes, so reading it gives no access.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from headway.core.accounts.jobs import PlatformName
from headway.core.catalog.listings import SellerId
from headway.store.pool import Pool, guarded

LINK_CODE = "ticket:"
COLUMNS = "platform, user_id, shop, verifier, return_url, return_state"
OPEN = """
INSERT INTO oauth_flows
  (state, platform, user_id, shop, verifier, return_url, return_state, expires_at)
VALUES (%(state)s, %(platform)s, %(user_id)s, %(shop)s, %(verifier)s, %(return_url)s,
  %(return_state)s, %(expires_at)s)
"""
BEGIN = f"""
UPDATE oauth_flows SET state = %(state)s, expires_at = %(expires_at)s
WHERE state = %(link_code)s AND platform = %(platform)s AND expires_at > %(now)s
RETURNING {COLUMNS}
"""
FIND = f"""
SELECT {COLUMNS} FROM oauth_flows
WHERE state = %(state)s AND platform = %(platform)s AND expires_at > %(now)s
"""
END = f"""
DELETE FROM oauth_flows
WHERE state = %(state)s AND platform = %(platform)s AND expires_at > %(now)s
RETURNING {COLUMNS}
"""
FORGET = "DELETE FROM oauth_flows WHERE expires_at < %s"
LOAD_ALL = "SELECT state, verifier FROM oauth_flows ORDER BY state"
REPLACE = "UPDATE oauth_flows SET verifier = %s WHERE state = %s AND verifier = %s"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthFlow:
    """The seller and shop of an authorization; the verifier is encrypted.

    The person is sent to `return_url` afterwards, with `return_state`; if it is empty, to our page.
    """

    platform: PlatformName
    user_id: SellerId
    shop: str
    verifier: bytes = field(repr=False)
    return_url: str = ""
    return_state: str = ""


class OAuthFlows:
    """Table `oauth_flows`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def open(self, flow: OAuthFlow, *, link_code: str, expires_at: datetime) -> None:
        """Store a link code that lets a browser connect a shop to a seller, once."""
        values = {
            "state": _digest(link_code),
            "platform": flow.platform,
            "user_id": flow.user_id,
            "shop": flow.shop,
            "verifier": flow.verifier,
            "return_url": flow.return_url,
            "return_state": flow.return_state,
            "expires_at": expires_at,
        }
        with guarded(), self._pool.connection() as connection:
            connection.execute(OPEN, values)

    def begin(
        self,
        platform: PlatformName,
        *,
        link_code: str,
        state: str,
        expires_at: datetime,
        now: datetime,
    ) -> OAuthFlow | None:
        """Exchange a link code for a state; None if the code is unknown or was used."""
        values = {
            "platform": platform,
            "link_code": _digest(link_code),
            "state": state,
            "expires_at": expires_at,
            "now": now,
        }
        return self._one(BEGIN, values)

    def find(self, platform: PlatformName, state: str, *, now: datetime) -> OAuthFlow | None:
        """Return a flow in progress; None if there is none."""
        if state.startswith(LINK_CODE):
            return None
        return self._one(FIND, {"platform": platform, "state": state, "now": now})

    def end(self, platform: PlatformName, state: str, *, now: datetime) -> OAuthFlow | None:
        """Delete and return a flow; None if it is unknown, expired or was taken."""
        if state.startswith(LINK_CODE):
            return None
        return self._one(END, {"platform": platform, "state": state, "now": now})

    def forget(self, before: datetime) -> int:
        """Delete flows that expired before then; return how many."""
        with guarded(), self._pool.connection() as connection:
            return connection.execute(FORGET, (before,)).rowcount

    def secrets(self) -> list[bytes]:
        """Return every verifier, as it is stored."""
        with guarded(), self._pool.connection() as connection:
            return [bytes(row[-1]) for row in connection.execute(LOAD_ALL).fetchall()]

    def reencrypt(self, rotate: Callable[[bytes], bytes | None]) -> int:
        """Replace every verifier by the result of `rotate`, None to leave it; return how many."""
        written = 0
        with guarded(), self._pool.connection() as connection:
            for state, verifier in connection.execute(LOAD_ALL).fetchall():
                rotated = rotate(bytes(verifier))
                if rotated is not None:
                    values = (rotated, state, verifier)
                    written += connection.execute(REPLACE, values).rowcount
        return written

    def _one(self, statement: str, values: dict[str, object]) -> OAuthFlow | None:
        with guarded(), self._pool.connection() as connection:
            row = connection.execute(statement, values).fetchone()
        if row is None:
            return None
        platform, user_id, shop, verifier, return_url, return_state = row
        return OAuthFlow(
            platform=PlatformName(platform),
            user_id=user_id,
            shop=shop,
            verifier=bytes(verifier),
            return_url=return_url,
            return_state=return_state,
        )


def _digest(link_code: str) -> str:
    return LINK_CODE + hashlib.sha256(link_code.encode()).hexdigest()
