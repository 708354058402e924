"""A simulated Printify: accounts with several shops, API v1, its limits and its quirks.

It keeps its own log: calls of the last minute by account, and how many it answered with an error.
Refused calls stay in the log, so repeating them never helps.
"""

import hashlib
import hmac
import itertools
import json
import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from headway.clock import Clock, Rng, rng
from headway_lab.simulators.faults import FaultPlan, SimulatedFault
from headway_lab.simulators.meter import ArrivalLog, LogGate
from headway_lab.simulators.printify.records import spell
from headway_lab.simulators.printify.shop import SimulatedPrintifyShop, Truth
from headway_lab.simulators.reply import SimReply, json_reply

PER_PAGE_MAX = {"orders": 10, "products": 50}
PERSONAL_LIFE_S = 365 * 86_400
SHOP_PATH = re.compile(r"/v1/shops/(\d+)/(orders|products)(?:/([^/]+))?\.json")
HTML_PAGE = b"<!DOCTYPE html><html><title>Bad gateway</title></html>"


@dataclass(slots=True, kw_only=True)
class PrintifyAccount:
    """The owner of a limit, and its tokens."""

    name: str
    log: ArrivalLog
    gate: LogGate
    shops: dict[int, SimulatedPrintifyShop] = field(default_factory=dict)
    access: dict[str, float] = field(default_factory=dict, repr=False)
    refresh: set[str] = field(default_factory=set, repr=False)
    calls: int = 0
    errors: int = 0
    refusals: int = 0


class PrintifySimulator:
    """Answers requests as Printify does, and keeps count of them."""

    def __init__(
        self,
        clock: Clock,
        *,
        limit: int = 600,
        span_s: float = 60.0,
        faults: FaultPlan | None = None,
        seed: int = 0,
        app_id: str = "sim-printify-app",
        token_life_s: float = 6 * 3600,
        hook_secret: str = "sim-hook-secret",  # noqa: S107 - a simulator's
        delay_s: tuple[float, float] = (0.05, 0.3),
    ) -> None:
        self._clock = clock
        self._origin_s = clock.monotonic()
        self._limit = limit
        self._span_s = span_s
        self._generator: Rng = rng(f"printify {seed}")
        self._app_id = app_id
        self._token_life_s = token_life_s
        self._hook_secret = hook_secret
        self._delay_s = delay_s
        self._accounts: dict[str, PrintifyAccount] = {}
        self._owners: dict[int, PrintifyAccount] = {}
        self._numbers = itertools.count(5001)
        # Over real HTTP each call has a thread of its own; nothing below ever sleeps.
        self._lock = threading.RLock()
        self.faults = faults or FaultPlan(seed)
        # The largest page; a platform changes it now and then.
        self.per_page_max = dict(PER_PAGE_MAX)
        self.calls: Counter[str] = Counter()

    @property
    def refusals(self) -> int:
        """How many calls came too fast."""
        return sum(account.refusals for account in self._accounts.values())

    @property
    def max_calls_in_window(self) -> int:
        """The most calls of one account, admitted or refused, that ever arrived within one span."""
        return max((account.log.calls_max for account in self._accounts.values()), default=0)

    def error_share(self, account: str) -> float:
        """Return the share of this account's calls that were answered with an error."""
        state = self._accounts[account]
        return state.errors / state.calls if state.calls else 0.0

    def elapsed_s(self) -> float:
        """Return the second it is on the simulator's own clock, as faults are planned on."""
        return self._clock.monotonic() - self._origin_s

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        """Answer one request at its arrival."""
        with self._lock:
            at_s = self.elapsed_s()
            fault = self.faults.call_fault(at_s)
            if fault is SimulatedFault.REFUSED:
                self.faults.injected[fault] += 1
                return SimReply(outcome="refuse")
            lowered = {name.lower(): value for name, value in headers.items()}
            target = urlsplit(path)
            delay_s = self._generator.uniform(*self._delay_s)
            if target.path == "/v1/app/oauth/tokens/refresh":
                # A pair of tokens that is lost on its way needs a person: no fault comes here.
                self.calls["refresh"] += 1
                return replace(self._refresh(body, at_s), delay_s=delay_s)
            account = self._account_of(lowered, at_s)
            if account is None:
                return replace(_error(401, "Unauthenticated."), delay_s=delay_s)
            reply = self._admit(account, at_s)
            if reply is None:
                reply = self._serve(account, method, target.path, target.query, lowered)
                reply = self._spoil(replace(reply, delay_s=delay_s), fault)
            account.errors += reply.status >= 400  # noqa: PLR2004 - the classes of errors
            return reply

    def _admit(self, account: PrintifyAccount, at_s: float) -> SimReply | None:
        account.calls += 1
        account.log.add(at_s)
        if not account.gate.admit(at_s).is_refused:
            return None
        account.refusals += 1
        return _error(429, "Too Many Attempts.")

    def _serve(
        self,
        account: PrintifyAccount,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
    ) -> SimReply:
        if not headers.get("user-agent"):
            return _error(400, "User-Agent header is required.")
        if method != "GET":
            return _error(405, "Method Not Allowed")
        if path == "/v1/shops.json":
            self.calls["shops"] += 1
            return json_reply(
                [
                    {"id": shop.id, "title": shop.title, "sales_channel": "custom_integration"}
                    for shop in account.shops.values()
                ]
            )
        match = SHOP_PATH.fullmatch(path)
        shop = account.shops.get(int(match[1])) if match else None
        if match is None or shop is None:
            return _error(404, "Not found.")
        kind, name = match[2], match[3]
        if name is None:
            self.calls[kind] += 1
            return self._page(shop, kind, query)
        self.calls["order"] += 1
        text = shop.order_text(name) if kind == "orders" else None
        return _error(404, "Not found.") if text is None else _text_reply(text)

    def _page(self, shop: SimulatedPrintifyShop, kind: str, query: str) -> SimReply:
        params = {name: values[0] for name, values in parse_qs(query).items()}
        page, limit = params.get("page", "1"), params.get("limit", "10")
        is_fit = page.isdigit() and limit.isdigit() and int(page) >= 1
        if not is_fit or not 1 <= int(limit) <= self.per_page_max[kind]:
            return _error(400, "Validation failed.", f"limit is at most {self.per_page_max[kind]}")
        number, size = int(page), int(limit)
        rows, total = shop.page_texts(kind, number, size)
        last = max(1, -(-total // size))
        envelope = json.dumps(
            {
                "current_page": number,
                "first_page_url": "/?page=1",
                "from": (number - 1) * size + 1 if rows else None,
                "last_page": last,
                "last_page_url": f"/?page={last}",
                "next_page_url": f"/?page={number + 1}" if number < last else None,
                "path": "/",
                "per_page": size,
                "prev_page_url": f"/?page={number - 1}" if number > 1 else None,
                "to": (number - 1) * size + len(rows) if rows else None,
                "total": total,
            }
        )
        return _text_reply(f'{envelope[:-1]},"data":[{",".join(rows)}]}}')

    def _spoil(self, reply: SimReply, fault: SimulatedFault | None) -> SimReply:
        """Apply the fault to a reply that was counted and earned."""
        spoiled = reply
        if fault is SimulatedFault.ERROR or fault is SimulatedFault.UNAVAILABLE:
            status = 500 if fault is SimulatedFault.ERROR else 503
            spoiled = replace(_error(status, "Server Error"), delay_s=reply.delay_s)
        elif fault is SimulatedFault.TIMEOUT or fault is SimulatedFault.DROP:
            spoiled = replace(reply, outcome="hang" if fault is SimulatedFault.TIMEOUT else "drop")
        elif fault is SimulatedFault.SLOW:
            spoiled = replace(reply, delay_s=reply.delay_s + self.faults.slowness_s())
        elif fault is SimulatedFault.HTML:
            spoiled = replace(reply, headers={"Content-Type": "text/html"}, body=HTML_PAGE)
        elif fault is SimulatedFault.TRUNCATE:
            spoiled = replace(reply, body=reply.body[: self.faults.cut(len(reply.body))])
        if fault is not None and spoiled is not reply:
            self.faults.injected[fault] += 1
        return spoiled

    def _account_of(self, headers: Mapping[str, str], at_s: float) -> PrintifyAccount | None:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme != "Bearer":
            return None
        accounts = self._accounts.values()
        return next(
            (account for account in accounts if account.access.get(token, at_s) > at_s), None
        )

    def _refresh(self, body: bytes, at_s: float) -> SimReply:
        form = {name: values[0] for name, values in parse_qs(body.decode("latin-1")).items()}
        token = form.get("refresh_token", "")
        account = next(
            (account for account in self._accounts.values() if token in account.refresh), None
        )
        if form.get("app_id") != self._app_id or account is None:
            error = {"error": "invalid_grant", "error_description": "The refresh token is invalid."}
            return json_reply(error, status=400)
        account.refresh.remove(token)
        access, refresh = self._issue(account, at_s)
        dies_at = self._clock.now() + timedelta(seconds=self._token_life_s)
        return json_reply(
            {"access_token": access, "refresh_token": refresh, "expire_at": spell(dies_at)}
        )

    def _issue(self, account: PrintifyAccount, at_s: float) -> tuple[str, str]:
        access, refresh = self._new_token("pat"), self._new_token("prt")
        account.access[access] = at_s + self._token_life_s
        account.refresh.add(refresh)
        return access, refresh

    def _new_token(self, kind: str) -> str:
        return f"{kind}_{self._generator.getrandbits(160):040x}"

    # For tests and worlds: who has shops here, and what happens in them.

    def add_shop(self, *, account: str = "owner", title: str = "") -> int:
        """Open a shop in an account, which may be new; return its id."""
        with self._lock:
            if account not in self._accounts:
                self._accounts[account] = PrintifyAccount(
                    name=account,
                    log=ArrivalLog(self._span_s),
                    gate=LogGate(self._limit, self._span_s),
                )
            shop_id = next(self._numbers)
            made = SimulatedPrintifyShop(shop_id, title or f"Shop {shop_id}", self._generator)
            self._owners[shop_id] = self._accounts[account]
            self._owners[shop_id].shops[shop_id] = made
            return shop_id

    def personal_token(self, account: str = "owner") -> str:
        """Make a token as a person does in the settings; it is good for a year."""
        with self._lock:
            token = self._new_token("personal")
            self._accounts[account].access[token] = self.elapsed_s() + PERSONAL_LIFE_S
            return token

    def grant(self, account: str = "owner") -> tuple[str, str]:
        """Return an access and a refresh token as an app gets them."""
        with self._lock:
            return self._issue(self._accounts[account], self.elapsed_s())

    def revoke(self, account: str = "owner", *, keeps_refresh: bool = False) -> None:
        """Invalidate all tokens, or all access tokens."""
        with self._lock:
            self._accounts[account].access.clear()
            if not keeps_refresh:
                self._accounts[account].refresh.clear()

    def shop(self, shop_id: int) -> SimulatedPrintifyShop:
        """Return a shop as it is now."""
        return self._owners[shop_id].shops[shop_id]

    def place_order(self, shop_id: int, **fields: Any) -> str:  # noqa: ANN401
        """Place an order; see SimulatedPrintifyShop.place_order."""
        with self._lock:
            return self.shop(shop_id).place_order(self._now(), **fields)

    def advance(self, shop_id: int, order_id: str) -> str:
        """Move an order one step on its way."""
        with self._lock:
            return self.shop(shop_id).advance(order_id, self._now())

    def cancel(self, shop_id: int, order_id: str) -> bool:
        """Cancel an order, if it is not yet being made."""
        with self._lock:
            return self.shop(shop_id).cancel(order_id)

    def deliver(self, shop_id: int, order_id: str) -> bool:
        """Deliver the packages of an order that are on their way."""
        with self._lock:
            return self.shop(shop_id).deliver(order_id, self._now())

    def add_product(self, shop_id: int, **fields: Any) -> str:  # noqa: ANN401
        """Add a product; see SimulatedPrintifyShop.add_product."""
        with self._lock:
            return self.shop(shop_id).add_product(self._now(), **fields)

    def edit_product(self, shop_id: int, product_id: str, **changes: Any) -> None:  # noqa: ANN401
        """Change a product; see SimulatedPrintifyShop.edit_product."""
        with self._lock:
            self.shop(shop_id).edit_product(product_id, self._now(), **changes)

    def remove_product(self, shop_id: int, product_id: str) -> None:
        """Take a product away."""
        with self._lock:
            self.shop(shop_id).remove_product(product_id)

    def truth(self, shop_id: int) -> Truth:
        """Return what the warehouse should hold of a shop; see SimulatedPrintifyShop.truth."""
        with self._lock:
            return self.shop(shop_id).truth()

    def hook(self, topic: str, shop_id: int, resource_id: str) -> tuple[dict[str, str], bytes]:
        """Return the headers and body of a webhook on an order or a product, signed."""
        with self._lock:
            event = {
                "id": f"{self._generator.getrandbits(96):024x}",
                "type": topic,
                "created_at": spell(self._clock.now()),
                "resource": {
                    "id": resource_id,
                    "type": topic.partition(":")[0],
                    "data": {"shop_id": shop_id},
                },
            }
        body = json.dumps(event).encode()
        digest = hmac.new(self._hook_secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {"Content-Type": "application/json", "X-Pfy-Signature": f"sha256={digest}"}
        return headers, body

    def _now(self) -> datetime:
        """Return the time as it is kept: in whole seconds."""
        return self._clock.now().replace(microsecond=0)


def _text_reply(text: str) -> SimReply:
    return SimReply(headers={"Content-Type": "application/json"}, body=text.encode())


def _error(status: int, message: str, reason: str = "") -> SimReply:
    code = 8000 + status
    body = {"status": "error", "code": code, "message": message}
    return json_reply(
        {**body, "errors": {"reason": reason or message, "code": code}}, status=status
    )
