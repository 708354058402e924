"""The part of a server's desk that is about who may come in."""

from collections.abc import Mapping
from typing import Any

from headway.cli.remote_requests import ApiRequests, word
from headway.core.access import AccessGrant
from headway.store.access.keys import ApiKey
from headway.store.access.sessions import BrowserSession

KEYS, SESSIONS = "/api/keys", "/api/sessions"


class RemoteAccess:
    """Keys and sessions of a server, if the key is an operator's."""

    def __init__(self, asking: ApiRequests) -> None:
        self._asking = asking

    def all_keys(self) -> list[ApiKey]:
        """Return every key, those that were revoked last."""
        return [self._key(each) for each in self._asking.api.get(KEYS).json["keys"]]

    def create_key(self, grant: AccessGrant) -> tuple[ApiKey, str]:
        """Make a key; return how people see it, and the key, which is nowhere afterwards."""
        body = {
            "name": grant.name,
            "role": grant.role.value,
            "seller": grant.seller,
            "expires_at": grant.expires_at and grant.expires_at.isoformat(),
        }
        made = self._asking.api.post(KEYS, body).json
        return self._key(made), self._asking.read(str, made["key"])

    def revoke_key(self, which: str) -> ApiKey:
        """Let a key open nothing from now on, nor its sessions; raises RequestError."""
        return self._key(self._asking.api.delete(f"{KEYS}/{word(which)}").json)

    def sessions(self) -> list[BrowserSession]:
        """Return every session that lets somebody in, those seen last first."""
        return self._sessions(self._asking.api.get(SESSIONS).json)

    def end_session(self, id_: str) -> BrowserSession:
        """End one session; raises NotFoundError."""
        ended = self._asking.api.delete(f"{SESSIONS}/{word(id_)}").json
        return self._asking.read(BrowserSession, _named(ended))

    def end_sessions(self, name: str) -> list[BrowserSession]:
        """End all sessions of somebody; raises NotFoundError."""
        return self._sessions(self._asking.api.delete(SESSIONS, {"name": name}).json)

    def _key(self, answer: Mapping[str, Any]) -> ApiKey:
        return self._asking.read(ApiKey, _named(answer))

    def _sessions(self, answer: Mapping[str, Any]) -> list[BrowserSession]:
        found = [_named(each) for each in answer.get("sessions", ())]
        return self._asking.read(list[BrowserSession], found)


def _named(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer with the seller under the name that the store has for it."""
    return {**answer, "user_id": answer.get("seller")}
