"""A simulated Etsy: many shops, Open API v3, its limits by app, its tokens, its quirks.

It counts arrivals in its own log, and knows what a warehouse must hold in the end.
"""

import base64
import hashlib
import hmac
import itertools
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from headway.clock import Clock, fresh_id, rng
from headway_lab.simulators.etsy.call import SCOPES, EtsyRequest, read_call
from headway_lab.simulators.etsy.meter import EtsyCallLog, EtsyMeter
from headway_lab.simulators.etsy.records import EtsyBuyer, Owner, pack
from headway_lab.simulators.etsy.shop import EtsyShop
from headway_lab.simulators.etsy.tokens import EtsyApp, EtsyTokens, Pair
from headway_lab.simulators.etsy.truth import Rows
from headway_lab.simulators.faults import FaultPlan, SimulatedFault
from headway_lab.simulators.reply import SimReply, json_reply

__all__ = ["EtsyApp", "EtsySimulator"]

HTML_PAGE = b"<!DOCTYPE html><html><title>Etsy is taking a short break</title></html>"
REFUSALS = {
    "second": ("Exceeded per second rate limit", ""),
    "day": ("Exceeded daily rate limit", "86400"),
}
PAGE_TYPE = {"Content-Type": "text/html"}
SPOILT: Mapping[SimulatedFault | None, SimReply] = {
    SimulatedFault.TIMEOUT: SimReply(outcome="hang"),
    SimulatedFault.DROP: SimReply(outcome="drop"),
    SimulatedFault.ERROR: json_reply({"error": "Server Error"}, status=500),
    SimulatedFault.UNAVAILABLE: SimReply(status=503, headers=PAGE_TYPE, body=HTML_PAGE),
    SimulatedFault.HTML: SimReply(headers=PAGE_TYPE, body=HTML_PAGE),
}
UNIX = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class EtsySimulator:
    """Answers requests as Etsy does, and keeps a log of them."""

    def __init__(
        self,
        clock: Clock,
        *,
        app: EtsyApp | None = None,
        seed: int = 0,
        per_second: int = 10,
        per_day: int = 10_000,
        faults: FaultPlan | None = None,
        quiet_share: float = 0.3,
        lag_s: tuple[float, float] = (0.0, 0.0),
        keeps_old_refresh: bool = False,
        delay_s: tuple[float, float] = (0.08, 0.35),
        hook_secret: str = "whsec_c2ltLWhvb2stc2VjcmV0",  # noqa: S107 - simulated
    ) -> None:
        self._clock = clock
        self._origin_s = clock.monotonic()
        self._seed = seed
        self._generator = rng(f"etsy {seed}")
        self._app = app or EtsyApp()
        self._delay_s = delay_s
        self._quiet_share = quiet_share
        self._lag_s = lag_s
        self._hook_secret = hook_secret
        # Over real HTTP each call has a thread of its own; nothing below ever sleeps.
        self._lock = threading.RLock()
        self._numbers = itertools.count(10_001)
        self._shops: dict[int, EtsyShop] = {}
        self._owned: dict[int, EtsyShop] = {}
        self._scopes: dict[int, frozenset[str]] = {}
        self.tokens = EtsyTokens(self._app, self._generator, is_lenient=keeps_old_refresh)
        self.meter = EtsyMeter(per_second=per_second, per_day=per_day)
        self.faults = faults or FaultPlan(seed)
        self.log = EtsyCallLog()
        # For hours in 2022 complete tokens were refused for a missing scope.
        self.denies_scopes = False

    def elapsed_s(self) -> float:
        """Return the second it is on the simulator's own clock, as faults are planned on."""
        return self._clock.monotonic() - self._origin_s

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        """Answer one request at its arrival."""
        with self._lock:
            at_s = self.elapsed_s()
            fault = self.faults.call_fault(at_s)
            if fault is not None:
                self.faults.injected[fault] += 1
            if fault is SimulatedFault.REFUSED:
                return SimReply(outcome="refuse")
            call = read_call(method, path, body)
            delay_s = self._generator.uniform(*self._delay_s)
            if call.endpoint == "consent":  # a page for people, not a part of the API
                return self._consent(call, at_s)
            self.log.arrive(call.endpoint or "other", at_s)
            refused = self.meter.admit(at_s)
            if refused is None:
                lowered = {name.lower(): value for name, value in headers.items()}
                reply = self._suffer(call, lowered, fault, at_s)
            else:
                self.log.refusals[refused] += 1
                text, wait_s = REFUSALS[refused]
                more = {"Retry-After": wait_s} if wait_s else {}
                reply = json_reply({"error": text}, status=429, headers=more)
            if fault is SimulatedFault.SLOW:
                delay_s += self.faults.slowness_s()
            # Too many in a second are refused before anything is counted, without a header.
            limits = {} if refused == "second" else self.meter.headers(at_s)
            return replace(reply, headers={**reply.headers, **limits}, delay_s=delay_s)

    def _suffer(
        self,
        call: EtsyRequest,
        headers: Mapping[str, str],
        fault: SimulatedFault | None,
        at_s: float,
    ) -> SimReply:
        """Serve a call unless a fault comes first; a read has no effect that could be lost."""
        # A pair of tokens that is lost on its way needs a person, and no run could go on.
        if fault is SimulatedFault.TRUNCATE and call.endpoint == "token":
            fault = SimulatedFault.ERROR
        if fault in SPOILT:
            return SPOILT[fault]
        reply = self._serve(call, headers, at_s)
        if fault is SimulatedFault.TRUNCATE:
            return replace(reply, body=reply.body[: self.faults.cut(len(reply.body))])
        return reply

    def _serve(self, call: EtsyRequest, headers: Mapping[str, str], at_s: float) -> SimReply:
        if not call.endpoint:
            return _message(404, "Resource not found")
        if refusal := self._check_key(headers.get("x-api-key", "")):
            return refusal
        if call.endpoint == "token":
            return self.tokens.answer(call.params, at_s)
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        user_id = self.tokens.user_of(call.params.get("token", bearer), at_s)
        if call.endpoint == "scopes":
            return json_reply({"scopes": sorted(self._scopes.get(user_id or 0, ()))})
        return self._authorized(call, user_id)

    def _authorized(self, call: EtsyRequest, user_id: int | None) -> SimReply:
        if user_id is None:
            text = "The access token is expired, revoked or malformed"
            body = {"error": "invalid_token", "error_description": text}
            return json_reply(body, status=401)
        is_granted = SCOPES.get(call.endpoint, "shops_r") in self._scopes.get(user_id, ())
        if self.denies_scopes or not is_granted:
            body = {"error": "insufficient_scope", "error_description": "Missing scope"}
            return json_reply(body, status=403)
        return self._open(call, user_id)

    def _check_key(self, key: str) -> SimReply | None:
        keystring, colon, secret = key.partition(":")
        if not colon:
            text = "Invalid API key: should be in the format 'keystring:shared_secret'."
            return _message(403, text)
        if keystring != self._app.keystring:
            return _message(403, "API key not found or not active. See x-api-key header.")
        if not secret:
            return _message(403, "Shared secret is required in x-api-key header.")
        if secret != self._app.shared_secret:
            return _message(403, "Incorrect shared secret in x-api-key header.")
        return None

    def _open(self, call: EtsyRequest, user_id: int) -> SimReply:
        if call.wrong:
            return _message(400, call.wrong)
        own = self._owned.get(user_id)
        if call.endpoint == "me":
            shop_id = own.owner.shop_id if own else 0
            return json_reply({"user_id": user_id, "shop_id": shop_id})
        is_own = call.endpoint == "owned" and call.number == user_id
        shop = own if is_own else self._shops.get(call.shop_id)
        if shop is None:
            return _message(404, "No such shop")
        if call.endpoint in {"shop", "owned"}:
            return json_reply(_shop_json(shop))
        return (
            self._show(call, shop) if shop is own else _message(403, "Not the owner of this shop")
        )

    def _show(self, call: EtsyRequest, shop: EtsyShop) -> SimReply:
        shop.catch_up(self._now_s())
        if call.endpoint == "receipt":
            receipt = shop.find_receipt(call.number)
            return _message(404, "No such receipt") if receipt is None else _json(receipt)
        find = {
            "receipts": shop.find_receipts,
            "listings": shop.find_listings,
            "ledger": shop.find_entries,
            "payments": shop.find_payments,
        }
        count, rows = find[call.endpoint](call.params)
        return _json(b'{"count":%d,"results":[%b]}' % (count, b",".join(rows)))

    def _consent(self, call: EtsyRequest, at_s: float) -> SimReply:
        """Agree at once, for the shop that `login` names or the first one."""
        params = call.params
        shop_id = int(params.get("login", next(iter(self._shops), 0)))
        shop = self._shops.get(shop_id)
        if shop is None or params.get("client_id") != self._app.keystring:
            return _message(400, "The app or the shop is unknown")
        redirect = params.get("redirect_uri", "")
        code = self.tokens.consent(
            shop.owner.user_id,
            at_s,
            redirect=redirect,
            challenge=params.get("code_challenge", ""),
        )
        self._scopes[shop.owner.user_id] = frozenset(params.get("scope", "").split())
        query = urlencode({"code": code, "state": params.get("state", "")})
        return SimReply(status=302, headers={"Location": f"{redirect}?{query}"})

    # For tests and worlds: what people do.

    def add_shop(
        self, shop_id: int | None = None, *, name: str = "", currency: str = "USD"
    ) -> EtsyShop:
        """Open a shop, and return it."""
        with self._lock:
            number = next(self._numbers) if shop_id is None else shop_id
            owner = Owner(
                shop_id=number,
                user_id=number + 50_000_000,
                name=name or f"Shop{number}",
                currency=currency,
            )
            shop = EtsyShop(
                owner,
                generator=rng(f"etsy {self._seed} {number}"),
                numbers=self._numbers,
                quiet_share=self._quiet_share,
                lag_s=self._lag_s,
            )
            self._shops[number] = self._owned[owner.user_id] = shop
            self._scopes[owner.user_id] = frozenset(SCOPES.values())
            return shop

    def shop(self, shop_id: int) -> EtsyShop:
        """Return a shop."""
        return self._shops[shop_id]

    def grant(self, shop_id: int, *, scopes: Sequence[str] | None = None) -> Pair:
        """Make a pair of tokens as the owner's consent would."""
        with self._lock:
            user_id = self._shops[shop_id].owner.user_id
            if scopes is not None:
                self._scopes[user_id] = frozenset(scopes)
            return self.tokens.issue(user_id, self.elapsed_s())

    def place_order(
        self,
        shop_id: int,
        *,
        at: datetime | None = None,
        buyer: EtsyBuyer | None = None,
        items: Sequence[tuple[int, int]] = (),
        is_paid: bool = True,
        discount: int = 0,
    ) -> int:
        """Place an order, now or in the past; see EtsyShop.place_order."""
        at_s = self._now_s() if at is None else int((at - UNIX).total_seconds())
        with self._lock:
            return self._shops[shop_id].place_order(
                at_s, buyer=buyer, items=items, is_paid=is_paid, discount=discount
            )

    def pay(self, shop_id: int, receipt_id: int) -> None:
        """Pay an order."""
        with self._lock:
            self._shops[shop_id].pay(receipt_id, self._now_s())

    def ship(self, shop_id: int, receipt_id: int, *, is_quiet: bool | None = None) -> None:
        """Ship a package; with `is_quiet` `last_modified` stays, by default it is drawn."""
        with self._lock:
            self._shops[shop_id].ship(receipt_id, self._now_s(), is_quiet=is_quiet)

    def deliver(self, shop_id: int, receipt_id: int) -> None:
        """Deliver the packages."""
        with self._lock:
            self._shops[shop_id].deliver(receipt_id, self._now_s())

    def cancel(self, shop_id: int, receipt_id: int, *, is_quiet: bool | None = None) -> None:
        """Cancel an order."""
        with self._lock:
            self._shops[shop_id].cancel(receipt_id, self._now_s(), is_quiet=is_quiet)

    def refund(self, shop_id: int, receipt_id: int, **fields: Any) -> None:  # noqa: ANN401
        """Refund money; see EtsyShop.refund."""
        with self._lock:
            self._shops[shop_id].refund(receipt_id, self._now_s(), **fields)

    def pay_out(self, shop_id: int) -> None:
        """Transfer what the shop earned to the seller's bank."""
        with self._lock:
            self._shops[shop_id].pay_out(self._now_s())

    def add_listing(self, shop_id: int, **fields: Any) -> int:  # noqa: ANN401
        """Add a listing; see EtsyShop.add_listing."""
        with self._lock:
            return self._shops[shop_id].add_listing(self._now_s(), **fields)

    def edit_listing(self, shop_id: int, listing_id: int, **fields: Any) -> None:  # noqa: ANN401
        """Change a listing; see EtsyShop.edit_listing."""
        with self._lock:
            self._shops[shop_id].edit_listing(listing_id, self._now_s(), **fields)

    def remove_listing(self, shop_id: int, listing_id: int) -> None:
        """Delete a listing."""
        with self._lock:
            self._shops[shop_id].remove_listing(listing_id)

    def truth(self, shop_id: int) -> dict[str, Rows]:
        """Return what a warehouse must hold of a shop, by table and key."""
        with self._lock:
            self._shops[shop_id].catch_up(self._now_s())
            return self._shops[shop_id].truth()

    def hook(self, event: str, shop_id: int, receipt_id: int) -> tuple[dict[str, str], bytes]:
        """Return the headers and the body of a signed webhook, such as `order.paid`."""
        with self._lock:
            number, stamp = f"msg_{fresh_id(self._generator)}", str(self._now_s())
        where = f"https://api.etsy.com/v3/application/shops/{shop_id}/receipts/{receipt_id}"
        body = pack({"event_type": event, "resource_url": where, "shop_id": shop_id})
        key = base64.b64decode(self._hook_secret.removeprefix("whsec_"))
        signed = hmac.new(key, f"{number}.{stamp}.".encode() + body, hashlib.sha256).digest()
        headers = {
            "webhook-id": number,
            "webhook-timestamp": stamp,
            "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
        }
        return {**headers, "Content-Type": "application/json"}, body

    def _now_s(self) -> int:
        return int(self._clock.now().timestamp())


def _json(body: bytes) -> SimReply:
    return SimReply(headers={"Content-Type": "application/json"}, body=body)


def _message(status: int, text: str) -> SimReply:
    return json_reply({"error": text}, status=status)


def _shop_json(shop: EtsyShop) -> dict[str, Any]:
    owner = shop.owner
    created_s = min(
        (
            *(receipt.created_s for receipt in shop.receipts.values()),
            *(listing.created_s for listing in shop.listings.values()),
            *(entry.at_s for entry in shop.ledger),
        ),
        default=None,
    )
    created = (
        {} if created_s is None else {"create_date": created_s, "created_timestamp": created_s}
    )
    active = sum(listing.state == "active" for listing in shop.listings.values())
    return {
        "shop_id": owner.shop_id,
        "user_id": owner.user_id,
        "shop_name": owner.name,
        **created,
        "title": f"{owner.name} makes mugs",
        "currency_code": owner.currency,
        "is_vacation": False,
        "listing_active_count": active,
        "login_name": owner.name.lower(),
        "url": f"https://www.etsy.com/shop/{owner.name}",
        "transaction_sold_count": len(shop.receipts),
    }
