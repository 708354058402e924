"""Operations at a server: each request follows from its declaration, and so does the reply.

Replies are read into the dataclasses that the operation itself returns, so a command prints the
same for both. A refusal of the server is raised here, with the same message.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast, get_args
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from headway import __version__
from headway.client.api import PROVIDER, ApiReply, HeadwayApi
from headway.errors import StoreError, UnreadableError
from headway.operations import changes
from headway.operations.callers import OperatorCaller
from headway.operations.export import STOPPED
from headway.operations.operation import ApiOperation, Arguments
from headway.store.catalog.history import HistoryEvent

Result = TypeVar("Result")
# A place in the path of an operation, such as `{sku:path}`.
PLACE = re.compile(r"\{(\w+)(?::\w+)?\}")


class RemoteClient:
    """One server, and the clock of its last reply."""

    def __init__(self, api: HeadwayApi) -> None:
        self._api = api

    @property
    def now(self) -> datetime:
        """The time by the server's clock, as of its last reply."""
        return self._last().now

    @property
    def speed(self) -> float | None:
        """How many times faster than real time that clock runs; None for real time."""
        return self._last().speed

    def call(
        self,
        operation: ApiOperation[OperatorCaller, Arguments, Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """Do an operation at the server; raises HeadwayError."""
        signature = operation.signature
        arguments = signature.bind(*args, **kwargs).arguments
        path = PLACE.sub(lambda place: _quoted(arguments.pop(place[1])), operation.path)
        body = arguments.pop("body", None)
        query = to_jsonable_python(arguments)
        kind = signature.return_annotation
        sent = None if body is None else body.model_dump(mode="json", exclude_unset=True)
        if operation.streams and operation.method == "GET":
            return cast("Result", self._events(path, query))
        if operation.streams:
            lines = self._api.lines(path, query, method=operation.method, body=sent)
            (item,) = get_args(kind)
            return cast("Result", (self._read(item, json.loads(line)) for line in lines))
        reply = self._api.request(operation.method, path, query=query, body=sent)
        return cast("Result", self._read(kind, reply.json))

    def _events(self, path: str, query: dict[str, Any]) -> Iterator[HistoryEvent]:
        """Yield events as they come; raises StoreError where the export ended early."""
        for line in self._api.lines(path, {**query, "format": "jsonl"}):
            row = json.loads(line)
            if row["kind"] == STOPPED:
                raise StoreError(row["error"])
            yield self._read(HistoryEvent, row)

    def _last(self) -> ApiReply:
        if self._api.last is None:
            self.call(changes.held, limit=1)  # cheap, and every key may read it
        assert self._api.last is not None
        return self._api.last

    def _read(self, kind: type[Result], answer: object) -> Result:
        """Read a reply; raises UnreadableError if another version wrote it."""
        try:
            return cast("Result", _adapter(cast("Any", kind)).validate_python(answer))
        except ValidationError:
            last = self._api.last
            server_version = "another version" if last is None else f"headway {last.version}"
            raise UnreadableError(
                f"cannot read what {self._api.url} answered; it runs {server_version}, this is"
                f" headway {__version__}: use the same version here",
                provider=PROVIDER,
            ) from None


def _quoted(name: object) -> str:
    """Write a name into an address; `.` and `..` would mean a folder."""
    text = str(name)
    return {".": "%2E", "..": "%2E%2E"}.get(text) or quote(text, safe="")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:  # noqa: ANN401 - any type
    return TypeAdapter(kind)
