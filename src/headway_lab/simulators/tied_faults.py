"""Faults that return every time: tied to one row, page or list of a shop, or to all tokens.

They stand between a simulator and its transport: the simulator counts the call as always, and its
reply is replaced.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from headway_lab.simulators.faults import Interval
from headway_lab.simulators.poison import OK, REPLIES, Handle, PoisonForm
from headway_lab.simulators.reply import SimReply, json_reply

HTML = {"Content-Type": "text/html"}
REFUSALS = (
    json_reply(
        {"error": "insufficient_scope", "error_description": "The token lacks a scope"}, status=403
    ),
    SimReply(status=403, headers=HTML, body=b"<!DOCTYPE html><title>Access denied</title>"),
    json_reply({"errors": "Forbidden"}, status=403),
)
# Requests for tokens: their refusal is another fault.
TOKEN_PATH = re.compile(r"oauth|/token")
ENDLESS_CURSOR = "endless"
COUNT = re.compile(rb'"count":\d+')
TOTAL = re.compile(rb'"total": (\d+)')
NEXT_PAGE = re.compile(rb'"next_page_url": null')
LAST_PAGE = re.compile(rb'"last_page": \d+')
END_CURSOR = re.compile(rb'"endCursor":("[^"]*"|null)')


@dataclass(frozen=True, slots=True, kw_only=True)
class SimRequest:
    """A request that was answered; `shop_mark` of a fault is a part of its path."""

    path: str
    body: bytes


class TiedFault(Protocol):
    """A fault that returns every time."""

    @property
    def kind(self) -> str:
        """What it is called."""

    def spoil(self, request: SimRequest, reply: SimReply) -> SimReply | None:
        """Return the reply that arrives instead; None if this fault has no part in it."""


@dataclass
class FaultyServer:
    """A simulator's `handle` with tied faults; `injected` counts what they spoiled, by kind."""

    handle: Handle
    faults: list[TiedFault] = field(default_factory=list)
    injected: Counter[str] = field(default_factory=Counter)
    # How many replies each fault spoiled, and the calls to each shop whose mark is in here.
    spoiled: Counter[int] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def __call__(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        """Answer as the simulator does, unless a fault comes first."""
        reply = self.handle(method, path, headers, body)
        self.calls.update(mark for mark in self.calls if mark in path)
        for number, fault in enumerate(self.faults):
            spoiled = fault.spoil(SimRequest(path=path, body=body), reply)
            if spoiled is not None:
                self.injected[fault.kind] += 1
                self.spoiled[number] += 1
                # Limits are still reported.
                headers = {**reply.headers, **spoiled.headers}
                return replace(spoiled, headers=headers, delay_s=reply.delay_s)
        return reply


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonedRow:
    """A row that spoils whatever reply would show it; `text` occurs only in that row.

    In the form of garbage the reply arrives, with something else in the place of that text.
    """

    shop_mark: str
    text: bytes
    garbage: bytes
    form: PoisonForm
    kind: str = "poison"

    def spoil(self, request: SimRequest, reply: SimReply) -> SimReply | None:
        """Return what arrives in place of a reply that shows the row."""
        if self.shop_mark not in request.path or reply.status != OK or self.text not in reply.body:
            return None
        if self.form is PoisonForm.GARBAGE:
            return replace(reply, body=reply.body.replace(self.text, self.garbage))
        return REPLIES[self.form]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonedPage:
    """A shop whose pages fail, or are too large, unless they hold few rows."""

    shop_mark: str
    form: PoisonForm
    rows_max: int = 3
    kind: str = "page-poison"

    def spoil(self, request: SimRequest, reply: SimReply) -> SimReply | None:
        """Return what arrives in place of a page with many rows."""
        is_page = self.shop_mark in request.path and reply.status == OK
        return REPLIES[self.form] if is_page and rows_in(reply.body) > self.rows_max else None


@dataclass(slots=True, kw_only=True)
class EndlessList:
    """A shop whose lists never settle: rows come again, totals flicker, the end never comes."""

    shop_mark: str
    kind: str = "endless"
    _first: dict[str, bytes] = field(default_factory=dict)

    def spoil(self, request: SimRequest, reply: SimReply) -> SimReply | None:
        """Return a page with more to come, whatever was asked for."""
        if self.shop_mark not in request.path:
            return None
        if ENDLESS_CURSOR.encode() in request.body and self._first:
            return replace(reply, status=OK, body=self._first[request.path])
        is_list = rows_in(reply.body) > 0 or request.path.partition("?")[0] in self._first
        return self._more(request, reply) if reply.status == OK and is_list else None

    def _more(self, request: SimRequest, reply: SimReply) -> SimReply | None:
        if b'"endCursor"' in reply.body and b'"orders"' in reply.body:
            return self._without_end(request.path, reply)
        if b'"next_page_url"' in reply.body:
            return _flickering(request.path, reply)
        if "/receipts?" in request.path:
            first = self._first.setdefault(request.path.partition("?")[0], reply.body)
            return replace(reply, body=COUNT.sub(b'"count":1000000', first, count=1))
        return None

    def _without_end(self, path: str, reply: SimReply) -> SimReply:
        body = reply.body.replace(b'"hasNextPage":false', b'"hasNextPage":true')
        body = END_CURSOR.sub(b'"endCursor":"%b"' % ENDLESS_CURSOR.encode(), body)
        self._first[path] = body
        return replace(reply, body=body)


def _flickering(path: str, reply: SimReply) -> SimReply:
    """Return a page with a total that differs from page to page, and always another page."""
    (page,) = parse_qs(urlsplit(path).query).get("page", ["1"])
    body = TOTAL.sub(lambda found: b'"total": %d' % (int(found[1]) + int(page) % 2), reply.body)
    body = NEXT_PAGE.sub(b'"next_page_url": "/?page=9999"', body)
    return replace(reply, body=LAST_PAGE.sub(b'"last_page": 9999', body))


class WrongRefusals:
    """For a while every token is refused with 403, in one of several forms after the other."""

    kind = "wrong-403"

    def __init__(self, spans: Sequence[Interval], now_s: Callable[[], float]) -> None:
        self._spans = spans
        self._now_s = now_s
        self._forms = cycle(REFUSALS)

    def spoil(self, request: SimRequest, _reply: SimReply) -> SimReply | None:
        """Return a refusal while the fault lasts."""
        if TOKEN_PATH.search(request.path):
            return None
        at_s = self._now_s()
        return next(self._forms) if any(span.holds(at_s) for span in self._spans) else None


def rows_in(body: bytes) -> int:
    """Return how many rows a page of any platform holds: the length of its longest list."""
    try:
        return _longest(json.loads(body))
    except ValueError:
        return 0


def _longest(value: Any) -> int:  # noqa: ANN401 - JSON
    if isinstance(value, list):
        return len(value)
    if isinstance(value, dict):
        return max(map(_longest, value.values()), default=0)
    return 0
