"""Authentication: who sends a request, whether it is forged, and whether there are too many.

A program shows a key (`Authorization: Bearer`), a browser the cookie of its session. The cookie
goes along with every request, wanted or not, so a session's writes must also show a token that only
our own page knows, and come from our own page as far as the browser reports.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address, ip_network
from urllib.parse import unquote, urlsplit

from fastapi import Request, Response

from headway import __version__
from headway.app import App
from headway.clock import Clock, ScaledClock
from headway.core.access import AccessGrant, Principal
from headway.core.catalog.intake import seller_of
from headway.errors import ForbiddenError, UnauthenticatedError
from headway.operations.callers import Caller, caller_of, choose_shop
from headway.store.access.idempotency import Idempotency
from headway.store.access.keys import ApiKeys
from headway.store.access.sessions import Sessions
from headway.store.catalog.shop_groups import ShopGroups
from headway.web.request_limits import Buckets

# The version that answers, and its clock; a demo's runs faster than real time.
VERSION_HEADER, NOW_HEADER, SPEED_HEADER = "Headway-Version", "Headway-Now", "Headway-Speed"
COOKIE = "headway_session"
CSRF_HEADER = "X-CSRF-Token"
# One key of an owner acts for each of the owner's shops: this names the shop of a request.
SELLER_HEADER = "Headway-Seller"
SAFE = {"GET", "HEAD", "OPTIONS"}
OUR_SITES = {"same-origin", "none"}
NOBODY = (
    "send a key as 'Authorization: Bearer hw_...' (make one: headway key create), or log in at"
    " /login"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """An authenticated user or program; `csrf` is the token of a session, None for a key."""

    principal: Principal
    csrf: str | None = field(default=None, repr=False)


class AuthenticationGate:
    """Authenticates people and programs by the tables of keys and sessions.

    `real_time` is the real time, whatever clock the engine runs on.
    """

    def __init__(self, app: App, *, real_time: Clock) -> None:
        self.app = app
        self.access = ApiKeys(app.pool, clock=app.clock)
        self.sessions = Sessions(app.pool, clock=app.clock)
        self.idempotency = Idempotency(app.pool)
        self.shop_groups = ShopGroups(app.pool)
        self._real_time = real_time
        self._buckets = Buckets(app.settings.requests_per_minute, real_time)
        self._session_life = timedelta(hours=app.settings.session_h)
        self._public = urlsplit(app.settings.public_url)

    def now(self) -> datetime:
        """Return the instant that people live in."""
        return self._real_time.now()

    def admit(self, request: Request) -> Visitor:
        """Return the visitor; raises UnauthenticatedError, ForbiddenError or TooManyError."""
        visitor = self.visitor(request)
        if visitor is None:
            self._buckets.take(f"address {address_of(request)}")
            raise UnauthenticatedError(NOBODY)
        self._buckets.take(visitor.principal.holder)
        if visitor.csrf is not None and request.method not in SAFE:
            self.require_own_page(request)
            shown = request.headers.get(CSRF_HEADER, "")
            if not hmac.compare_digest(shown.encode(), visitor.csrf.encode()):
                raise ForbiddenError(f"the header {CSRF_HEADER} lacks this session's token")
        return visitor

    def visitor(self, request: Request) -> Visitor | None:
        """Return who sends the request, by key or else by session; None if unknown.

        Raises ForbiddenError if it names a shop that the sender may not act for.
        """
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        if scheme:
            is_key = scheme.lower() == "bearer"
            principal = self.access.find_key(shown.strip(), now=self.now()) if is_key else None
            return (
                None if principal is None else Visitor(principal=self._chosen(request, principal))
            )
        secret = request.cookies.get(COOKIE, "")
        principal = self.sessions.find(secret, now=self.now())
        if principal is None:
            return None
        return Visitor(principal=self._chosen(request, principal), csrf=csrf_of(secret))

    def _chosen(self, request: Request, principal: Principal) -> Principal:
        """Return the principal as the shop that the request names, if it names one."""
        named = request.headers.get(SELLER_HEADER, "")
        return choose_shop(self.app, principal, seller_of(unquote(named))) if named else principal

    def require_own_page(self, request: Request) -> None:
        """Raise ForbiddenError if a page of another site made this browser send the request."""
        site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
        own_hosts = {request.headers.get("host", ""), self._public.netloc} - {""}
        is_foreign = site is not None and site not in OUR_SITES
        if is_foreign or (origin is not None and _netloc(origin) not in own_hosts):
            raise ForbiddenError("this was sent by a page of another site")

    def caller(self, visitor: Visitor) -> Caller:
        """Return an authenticated visitor as the caller of an operation."""
        return caller_of(self.app, visitor.principal, real_time=self._real_time)

    def sign(self, reply: Response) -> Response:
        """Add our version and clock to a reply, so that a program knows the server's time."""
        clock = self.app.clock
        reply.headers[VERSION_HEADER] = __version__
        reply.headers[NOW_HEADER] = clock.now().isoformat()
        if isinstance(clock, ScaledClock):
            reply.headers[SPEED_HEADER] = repr(clock.speed)
        return reply

    def log_in(self, request: Request, reply: Response, who: Principal | AccessGrant) -> None:
        """Begin a session under a new id; the one that this browser had is over."""
        self.log_out(request, reply)
        now = self.now()
        secret = self.sessions.begin(
            who,
            expires_at=now + self._session_life,
            now=now,
            address=request.client.host if request.client else "",
        )
        reply.set_cookie(
            COOKIE,
            secret,
            max_age=int(self._session_life.total_seconds()),
            secure=self.is_https(request),
            httponly=True,
            samesite="lax",
        )

    def switch_shop(self, request: Request, who: Principal, seller: str) -> None:
        """Let a session show another shop of its owner; raises RequestError for any other."""
        chosen = choose_shop(self.app, who, seller_of(seller))
        shown = None if chosen.home is None else chosen.seller
        self.sessions.act_as(request.cookies.get(COOKIE, ""), shown, now=self.now())

    def log_out(self, request: Request, reply: Response) -> None:
        """End the session that this browser has."""
        if secret := request.cookies.get(COOKIE):
            self.sessions.log_out(secret, now=self.now())
        reply.delete_cookie(COOKIE, secure=self.is_https(request), httponly=True, samesite="lax")

    def is_https(self, request: Request) -> bool:
        """Return True if browsers reach us over https, by the request or the settings."""
        return "https" in {request.url.scheme, self._public.scheme}


def csrf_of(secret: str) -> str:
    """Return the token of a session: derived from the cookie's value, stored nowhere."""
    return hmac.new(secret.encode(), b"headway csrf", hashlib.sha256).hexdigest()


def _netloc(origin: str) -> str:
    """Return the host of an origin; empty if it is malformed."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def address_of(request: Request) -> str:
    """Return the key for counting wrong logins: an address, or the network of an IPv6 host."""
    host = request.client.host if request.client else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address):
        # A socket for both kinds names IPv4 hosts so; their networks would all be one.
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ip_network((address, 64), strict=False))
    return str(address)
