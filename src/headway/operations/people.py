"""Who may come in: keys for programs, and browsers that are logged in.

Keys and sessions belong to no seller, and expire in real time.
"""

from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from headway.core.access import AccessGrant, Need, Role
from headway.core.catalog.listings import SellerId
from headway.errors import InvalidError, NotFoundError
from headway.operations.callers import Caller, OperatorCaller
from headway.operations.inputs import (
    NAME_CHARS_MAX,
    PLAIN,
    Instant,
    NamePath,
    RequestBody,
    SellerText,
    example,
)
from headway.operations.operation import operation
from headway.store.access.keys import ApiKey, ApiKeys
from headway.store.access.sessions import BrowserSession, Sessions

TAG = "access"
ERRORS = (404,)
KeyName = Annotated[
    str,
    StringConstraints(
        min_length=1,
        max_length=100,
        pattern=r"^[^\s\x00-\x1f\x7f]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f])?$",
    ),
]
SessionName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="The name of a key, or the role that a login link gave.",
        examples=["acme-app"],
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerIdentity:
    """Who asks, and what they may."""

    name: str
    """The name of the key or session. Example: `ada`"""
    role: Role
    """What it may do."""
    seller: SellerId | None
    """The seller that the request is about; null if the key belongs to none."""
    main_seller: SellerId | None
    """The seller that the key belongs to, whichever shop it acts for; null if to none.
    Example: `acme`
    """
    may: tuple[Need, ...]
    """The permissions of its role."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyList:
    """All keys, those that were revoked last."""

    keys: tuple[ApiKey, ...]
    """The keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKey(ApiKey):
    """A key that was made; `key` is shown this once, and null when the reply is replayed."""

    key: str | None = field(repr=False)
    """The key, shown this once; null when the reply is replayed. Example: `hw_1f0c9a2b_example`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionList:
    """Sessions, those seen last first."""

    sessions: tuple[BrowserSession, ...]
    """The sessions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginLink:
    """A link that logs one browser in, once; null when the reply is replayed.

    Without HEADWAY_PUBLIC_URL it is a path on the server.
    """

    link: str | None = field(repr=False)
    """The link; null when the reply is replayed.
    Example: `https://headway.example.com/login#hw_link_example`
    """
    role: Role
    seller: SellerId | None
    """The seller whose data it opens; null if it opens all sellers'."""
    expires_at: datetime


class LoginLinkBody(RequestBody):
    """Who opens the link is logged in as this, until which instant it may be opened."""

    model_config = example({"role": "operator", "expires_at": "2036-03-04T12:00:00Z"})
    role: Role = Role.OPERATOR
    seller: SellerText | None = None
    """The seller whose data it opens. Example: `acme`"""
    expires_at: Instant
    """Until when the link may be opened. Example: `2036-03-04T09:00:00Z`"""


class KeyBody(RequestBody):
    """A key to be made. Only the roles `seller` (required) and `reader` belong to a seller."""

    model_config = example({"name": "acme-app", "role": "seller", "seller": "acme"})
    name: KeyName
    """The key's name. Example: `acme-app`"""
    role: Role
    seller: SellerText | None = None
    """The seller it belongs to. Example: `acme`"""
    expires_at: Instant | None = None
    """When it expires; never if it is left out. Example: `2036-03-04T09:00:00Z`"""


@operation("GET", "/api/me", need=Need.READ, tag=TAG, name="get_me")
def me(caller: Caller) -> CallerIdentity:
    """Show who asks, and what they may."""
    who = caller.principal
    may = tuple(need for need in Need if who.may(need))
    return CallerIdentity(
        name=who.name, role=who.role, seller=who.seller, main_seller=who.main, may=may
    )


@operation("GET", "/api/keys", need=Need.OPERATE, tag=TAG, name="list_keys")
def keys(caller: OperatorCaller) -> KeyList:
    """List keys, and when each was last used."""
    return KeyList(keys=tuple(_keys(caller).all_keys()))


@operation("POST", "/api/keys", need=Need.OPERATE, tag=TAG, status=201, shown_once="key")
def create_key(caller: OperatorCaller, body: KeyBody) -> NewKey:
    """Make a key; it is shown in this reply, and never again."""
    grant = _grant(body.name, body.role, body.seller, body.expires_at)
    key, secret = _keys(caller).add_key(grant, now=caller.real_time.now())
    kept: dict[str, Any] = {
        attribute.name: getattr(key, attribute.name) for attribute in fields(key)
    }
    return NewKey(**kept, key=secret)


@operation(
    "POST",
    "/api/links",
    need=Need.OPERATE,
    tag=TAG,
    status=201,
    shown_once="link",
    name="create_login_link",
)
def create_link(caller: OperatorCaller, body: LoginLinkBody) -> LoginLink:
    """Create a link that logs one browser in, once."""
    if body.role is Role.PERMITS:
        raise InvalidError("role: permits opens no page, so it has no login link; make a key")
    grant = _grant(str(body.role), body.role, body.seller, None)
    secret = _keys(caller).add_link(grant, expires_at=body.expires_at, now=caller.real_time.now())
    return LoginLink(
        link=f"{caller.app.settings.public_url.rstrip('/')}/login/{secret}",
        role=body.role,
        seller=body.seller,
        expires_at=body.expires_at,
    )


@operation("DELETE", "/api/keys/{key_id}", need=Need.OPERATE, tag=TAG, errors=ERRORS)
def revoke_key(caller: OperatorCaller, key_id: NamePath) -> ApiKey:
    """Revoke a key, by its id, name or beginning, and end the sessions that it began."""
    key = _keys(caller).revoke_key(key_id, now=caller.real_time.now())
    if key is None:
        raise NotFoundError(
            "no working key has this name, beginning or id; see: headway key list, or /api/keys"
        )
    return key


@operation("GET", "/api/sessions", need=Need.OPERATE, tag=TAG, name="list_sessions")
def sessions(caller: OperatorCaller) -> SessionList:
    """List browsers that are logged in: who, since when, last seen, from where."""
    return SessionList(sessions=tuple(_sessions(caller).live(now=caller.real_time.now())))


@operation("DELETE", "/api/sessions", need=Need.OPERATE, tag=TAG, errors=ERRORS)
def end_sessions(caller: OperatorCaller, name: SessionName) -> SessionList:
    """End all sessions of somebody, by the name that the audit shows."""
    ended = _sessions(caller).end_named(name, now=caller.real_time.now())
    if not ended:
        raise NotFoundError(
            "nobody of this name is logged in; see: headway sessions, or /api/sessions"
        )
    return SessionList(sessions=tuple(ended))


@operation("DELETE", "/api/sessions/{session_id}", need=Need.OPERATE, tag=TAG, errors=ERRORS)
def end_session(caller: OperatorCaller, session_id: NamePath) -> BrowserSession:
    """End a session; its browser must log in again."""
    ended = _sessions(caller).end(session_id, now=caller.real_time.now())
    if ended is None:
        raise NotFoundError(
            "nobody is logged in under this id; see: headway sessions, or /api/sessions"
        )
    return ended


def _grant(
    name: str, role: Role, seller: SellerId | None, expires_at: datetime | None
) -> AccessGrant:
    if role is Role.SELLER and seller is None:
        raise InvalidError("seller: name the seller; the role seller needs one")
    if role in {Role.OPERATOR, Role.PERMITS} and seller is not None:
        raise InvalidError(f"seller: leave it out; the role {role} belongs to no seller")
    return AccessGrant(name=name, role=role, seller=seller, expires_at=expires_at)


def _keys(caller: OperatorCaller) -> ApiKeys:
    return ApiKeys(caller.app.pool, clock=caller.app.clock)


def _sessions(caller: OperatorCaller) -> Sessions:
    return Sessions(caller.app.pool, clock=caller.app.clock)
