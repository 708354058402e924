"""The part of a desk that is about who may come in: keys, and browsers that are logged in."""

from headway.app import App
from headway.clock import Clock
from headway.core.access import AccessGrant
from headway.errors import NotFoundError
from headway.store.access.keys import ApiKey, ApiKeys
from headway.store.access.sessions import BrowserSession, Sessions


class PeopleOperations:
    """Keys and sessions; they belong to no seller, and live in the time of people, `wall`."""

    def __init__(self, whole: App, *, wall: Clock) -> None:
        self._access = ApiKeys(whole.pool, clock=whole.clock)
        self._sessions = Sessions(whole.pool, clock=whole.clock)
        self._wall = wall

    def all_keys(self) -> list[ApiKey]:
        """Return every key, those that were revoked last."""
        return self._access.all_keys()

    def create_key(self, grant: AccessGrant) -> tuple[ApiKey, str]:
        """Make a key; return how people see it, and the key, which is nowhere afterwards."""
        return self._access.add_key(grant, now=self._wall.now())

    def revoke_key(self, which: str) -> ApiKey:
        """Let a key open nothing from now on, nor its sessions; raises RequestError."""
        key = self._access.revoke_key(which, now=self._wall.now())
        if key is None:
            raise NotFoundError(
                "no working key has this name, beginning or id; see: headway key list, or /api/keys"
            )
        return key

    def sessions(self) -> list[BrowserSession]:
        """Return every session that lets somebody in, those seen last first."""
        return self._sessions.live(now=self._wall.now())

    def end_session(self, id_: str) -> BrowserSession:
        """End one session; raises NotFoundError."""
        ended = self._sessions.end(id_, now=self._wall.now())
        if ended is None:
            raise NotFoundError(
                "nobody is logged in under this id; see: headway sessions, or /api/sessions"
            )
        return ended

    def end_sessions(self, name: str) -> list[BrowserSession]:
        """End all sessions of somebody; raises NotFoundError."""
        ended = self._sessions.end_named(name, now=self._wall.now())
        if not ended:
            raise NotFoundError(
                "nobody of this name is logged in; see: headway sessions, or /api/sessions"
            )
        return ended
