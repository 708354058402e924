"""How a server is asked, and how its answers become the dataclasses that a desk returns."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from headway import __version__
from headway.cli.server_api import PROVIDER, ApiReply, HeadwayApi, Query
from headway.errors import UnreadableError

Read = TypeVar("Read")
PAGE_MAX = 200
CHEAP = "/api/sync/held"


class ApiRequests:
    """One server, and what it last told of its clock."""

    def __init__(self, api: HeadwayApi) -> None:
        self.api = api

    @property
    def now(self) -> datetime:
        """The instant, by the clock of the server, as of its last answer."""
        return self.told().now

    def told(self) -> ApiReply:
        """Return the last answer; there is one that costs little."""
        return self.api.last or self.api.get(CHEAP, {"limit": 1})

    def get(self, kind: type[Read], path: str, query: Query | None = None, key: str = "") -> Read:
        """Look at something, of that kind; `key` names the part of the answer that is meant."""
        answer = self.api.get(path, query).json
        return self.read(kind, _part(answer, key))

    def post(
        self, kind: type[Read], path: str, body: Mapping[str, Any] | None = None, key: str = ""
    ) -> Read:
        """Do something, which answers with that kind."""
        answer = self.api.post(path, body).json
        return self.read(kind, _part(answer, key))

    def some(self, kind: type[Read], path: str, query: Query, *, limit: int) -> list[Read]:
        """Look through pages until there are so many."""
        found: list[Read] = []
        cursor = query.get("cursor")
        while True:
            asked = {**query, "cursor": cursor, "limit": min(PAGE_MAX, limit - len(found))}
            page = self.api.get(path, asked).json
            found += [self.read(kind, each) for each in _part(page, "items")]
            cursor = _part(page, "next_cursor")
            if cursor is None or len(found) >= limit:
                return found

    def read(self, kind: type[Read], answer: object) -> Read:
        """Read a value of that kind; raises UnreadableError, which is another version's fault."""
        try:
            found: Read = _adapter(cast("Any", kind)).validate_python(answer)
        except ValidationError:
            last = self.api.last
            theirs = "another version" if last is None else f"headway {last.version}"
            raise UnreadableError(
                f"cannot read what {self.api.url} answered; it runs {theirs}, this is headway"
                f" {__version__}: use the same version here",
                provider=PROVIDER,
            ) from None
        return found


def word(name: str) -> str:
    """Write a name into an address; one that means a folder must not."""
    return {".": "%2E", "..": "%2E%2E"}.get(name) or quote(name, safe="")


def _part(answer: Any, key: str) -> Any:  # noqa: ANN401 - what JSON holds
    return answer.get(key) if key and isinstance(answer, dict) else answer


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - a type, of whatever it is
    return TypeAdapter(kind)
