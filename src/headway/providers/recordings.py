"""Recordings: replies as lines of JSON, with what was asked for and without secrets and buyers.

A `Recorder` keeps replies in memory as they come. `strip_replies` makes the lines that may be
stored; `read_line` reads one back. Numbers keep their digits, whatever Python could hold of them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from headway.clock import Clock, fresh_secret
from headway.core.accounts.pagination import PageRequest
from headway.errors import InvalidError
from headway.providers.http import HttpResponse, observed
from headway.providers.stand_ins import (
    DEPTH_MAX,
    JsonNumber,
    StandIns,
    StripRule,
    dump_json,
    is_deeper,
    parse_json,
)

FORMAT = 1
QUOTE, TOKEN = "quote", "token"
BYTES_MAX = 20_000_000
ERROR_STATUS = 400
HEADERS = frozenset({"content-type", "date", "retry-after"})
# A version, a number or a type of content: nothing in it can be a secret.
HEADER_VALUE = re.compile(
    r"[0-9]{1,10}(\.[0-9]{1,6})?|[0-9]{4}-[0-9]{2}|[a-z]+/[a-z+]+(; ?charset=[\w-]+)?"
)
SHOP_LABEL = re.compile(r"^[^.]+")
Role = Literal["platform", "supplier"]
Kind = TypeVar("Kind", str, dict[str, Any])
NAMES: Mapping[type, str] = {str: "a text", dict: "an object"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRule:
    """How the replies of a provider are stripped, and what to expect in them.

    `headers` are those that its clients read. `rows` says, by request, where the rows of a reply
    are and which model reads one; fields that the model names and a row lacks are reported.
    """

    strip: StripRule = field(default_factory=StripRule)
    headers: frozenset[str] = frozenset()
    rows: Mapping[str, tuple[Sequence[str], Callable[[Any], BaseModel]]] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RawReply:
    """A reply as it came; it holds secrets and buyers, and is never stored."""

    provider: str
    role: Role
    shop: str
    at: datetime
    request: PageRequest
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReply:
    """A line of a recording: the request in our words, and the reply to it.

    `document` is the JSON of the body, its numbers as `JsonNumber`; a body that is no JSON is in
    `text`.
    """

    provider: str
    role: Role
    shop: str
    at: datetime
    request: PageRequest
    status: int
    headers: Mapping[str, str]
    document: Any = None
    text: str | None = None

    @property
    def body(self) -> bytes:
        """The body as it is replayed."""
        return (dump_json(self.document) if self.text is None else self.text).encode()


class Recorder:
    """Keeps the replies of one shop or supplier in memory, until they are stripped.

    Of token requests only refusals are kept: what is granted is a secret.
    """

    def __init__(self, provider: str, role: Role, *, clock: Clock, shop: str = "") -> None:
        self._provider, self._role, self._shop = provider, role, shop
        self._clock = clock
        self.replies: list[RawReply] = []
        self._size = 0

    @property
    def is_empty(self) -> bool:
        """True if no reply was kept."""
        return not self.replies

    @property
    def is_full(self) -> bool:
        """True if no more should be asked for."""
        return self._size >= BYTES_MAX

    @contextmanager
    def recording(self, what: str, values: Mapping[str, Any]) -> Iterator[None]:
        """Keep the replies that are read meanwhile, with what was asked for."""
        with observed(lambda answer: self._keep(PageRequest(what=what, values=values), answer)):
            yield

    def lines(self, rule: RecordingRule) -> list[str]:
        """Return the replies as they may be stored."""
        return strip_replies(rule, self.replies, salt=fresh_secret())

    def _keep(self, request: PageRequest, answer: HttpResponse) -> None:
        if request.what == TOKEN and answer.status < ERROR_STATUS:
            return
        self._size += len(answer.body)
        reply = RawReply(
            provider=self._provider,
            role=self._role,
            shop=self._shop,
            at=self._clock.now(),
            request=request,
            status=answer.status,
            headers=answer.headers,
            body=answer.body,
        )
        self.replies.append(reply)


def strip_replies(rule: RecordingRule, replies: Sequence[RawReply], *, salt: str) -> list[str]:
    """Return the lines that may be stored; the same text has the same stand-in in all of them."""
    stand_ins = StandIns(rule.strip, salt=salt)
    parsed = [
        (reply, parse_json(json.dumps(dict(reply.request.values)).encode())) for reply in replies
    ]
    bodies = [_load(reply.body) for reply in replies]
    for document in (*(values for _, values in parsed), *bodies):
        stand_ins.learn(document)
    return [
        _line(rule, stand_ins, reply, values, body)
        for (reply, values), body in zip(parsed, bodies, strict=True)
    ]


def read_line(line: bytes) -> RecordedReply:
    """Read one line; raises InvalidError that names the field."""
    try:
        fields = parse_json(line)
    except (ValueError, RecursionError):
        raise InvalidError("this is no JSON; the file is damaged or cut off") from None
    if is_deeper(fields, 2 * DEPTH_MAX):
        raise InvalidError("objects are nested too deep")
    if not isinstance(fields, dict) or fields.get("headway_recording") != str(FORMAT):
        raise InvalidError(f"headway_recording must be {FORMAT}: this is no recording of Headway")
    request = _field(fields, "request", dict)
    at = _field(fields, "at", str)
    try:
        instant = datetime.fromisoformat(at)
    except ValueError:
        raise InvalidError(f"at must be an instant, not {at[:40]!r}") from None
    if instant.tzinfo is None:
        raise InvalidError("at must have a time zone")
    role, headers = _field(fields, "role", str), _field(fields, "headers", dict)
    if role not in {"platform", "supplier"}:
        raise InvalidError("role must be platform or supplier")
    if not all(map(_is_header, (*headers, *headers.values()))):
        raise InvalidError("headers must be texts in ASCII")
    if ("body" in fields) == ("text" in fields):
        raise InvalidError("a line has either body or text")
    return RecordedReply(
        provider=_field(fields, "provider", str),
        role=role,  # type: ignore[arg-type]
        shop=_field(fields, "shop", str),
        at=instant,
        request=PageRequest(
            what=_field(request, "what", str),
            values=_values(_field(request, "values", dict)),
        ),
        status=_status(fields.get("status")),
        headers=headers,
        document=fields.get("body"),
        text=_field(fields, "text", str) if "text" in fields else None,
    )


def _line(
    rule: RecordingRule, stand_ins: StandIns, reply: RawReply, values: object, body: object
) -> str:
    # A shop's address keeps its shape: a number, or what follows the first dot.
    shop = "1" if reply.shop.isdecimal() else SHOP_LABEL.sub("shop", reply.shop)
    if isinstance(body, bytes):
        content = {"text": stand_ins.message(body.decode(errors="replace"))}
    else:
        content = {"body": stand_ins.strip(body)}
    return dump_json(
        {
            "headway_recording": JsonNumber(FORMAT),
            "provider": reply.provider,
            "role": reply.role,
            "shop": shop,
            "at": reply.at.isoformat(),
            "request": {"what": reply.request.what, "values": stand_ins.strip(values)},
            "status": JsonNumber(reply.status),
            "headers": _headers(reply.headers, HEADERS | rule.headers),
            **content,
        }
    )


def _headers(headers: Mapping[str, str], names: frozenset[str]) -> dict[str, str]:
    return {
        name.lower(): value
        for name, value in headers.items()
        if name.lower() in names and (HEADER_VALUE.fullmatch(value) or _is_date(value))
    }


def _is_header(value: object) -> bool:
    return type(value) is str and value.isascii() and value.isprintable()


def _is_date(value: str) -> bool:
    try:
        return len(value) <= len("Thu, 01 Jan 1970 00:00:00 +0000") and bool(
            parsedate_to_datetime(value)
        )
    except (ValueError, TypeError, IndexError, OverflowError):
        return False


def _load(body: bytes) -> Any:  # noqa: ANN401 - JSON
    """Return the JSON of a body, or the body itself if it is none."""
    try:
        return parse_json(body)
    except (ValueError, RecursionError):
        return body


def _field(fields: Mapping[str, Any], name: str, kind: type[Kind]) -> Kind:
    value = fields.get(name)
    if type(value) is not kind:
        raise InvalidError(f"{name} must be {NAMES[kind]}")
    return value


def _values(values: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(json.loads(dump_json(values)))
    except ValueError:
        raise InvalidError("values holds a number of too many digits") from None


def _status(value: object) -> int:
    if not isinstance(value, JsonNumber) or not re.fullmatch("[1-5][0-9][0-9]", value):
        raise InvalidError("status must be a number from 100 to 599")
    return int(value)
