"""An independent model of the supplier: its tokens, its limit, its quirks.

It counts arrivals of all three kinds of request in its own log. Unknown SKUs are missing without a
message, a price may be text, the list price may be 0, locations come in any order.
"""

import json
import math
import threading
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from email.utils import format_datetime
from typing import Any, Protocol
from urllib.parse import parse_qs

from headway.clock import Clock, rng
from headway_lab.simulators.faults import BadPrice, Contradiction, FaultPlan, Poison, SimulatedFault
from headway_lab.simulators.meter import ArrivalLog, Semantics, make_gate
from headway_lab.simulators.reply import SimReply, json_reply

KINDS = {
    "/oauth2/v2.0/token": ("oauth", "POST"),
    "/boeing-part-price-availability/token/v1/oauth": ("part_token", "GET"),
    "/boeing-part-price-availability/price-availability/v1/wtoken": ("price", "POST"),
}
SEATS_MAX = 10
# How long a reply takes, from the arrival of its request.
DELAY_S = (0.1, 0.6)
FOREIGN_PLACE = "Germany CSC"
ODD_DETAILS: tuple[Mapping[str, Any], ...] = (
    {"weight": -1.5},
    {"weightUOM": "STONE"},
    {"countryOfOrigin": "UNITED STATES"},
    {"scheduleBCode": "n/a"},
    {"condition": "<b>new</b>"},
    {"productImage": "http://images.parts.example/plain.jpg"},
    {"weight": None, "countryOfOrigin": "", "scheduleBCode": None, "productImage": None},
)
HTML_PAGE = b"<!DOCTYPE html><html><title>Maintenance</title><p>We will be back soon.</html>"


@dataclass(frozen=True, slots=True, kw_only=True)
class SupplierPart:
    """A part as the supplier has it; its family is its maker, if that is shown."""

    sku: str
    list_price: Decimal | None
    net_price: Decimal | None
    stock: Mapping[str, int]
    currency: str = "USD"
    name: str = ""
    family: str = ""


class Catalog(Protocol):
    """What the supplier sells."""

    def lookup(self, sku: str) -> SupplierPart | None:
        """Return the part as it is now, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """What the supplier accepts as a customer."""

    client_id: str = "sim-client"
    client_secret: str = field(default="sim-client-secret", repr=False)
    username: str = "sim-user"
    password: str = field(default="sim-password", repr=False)


class BoeingSimulator:
    """Answers requests as the supplier does, and keeps count of them."""

    def __init__(
        self,
        catalog: Catalog,
        clock: Clock,
        *,
        limit: int = 2,
        span_s: float = 60.0,
        semantics: Semantics = "log",
        faults: FaultPlan | None = None,
        seed: int = 0,
        token_life_s: float = 3600.0,
        counts_auth: bool = True,
        sign_in: SignIn | None = None,
        delay_s: tuple[float, float] = DELAY_S,
    ) -> None:
        self._catalog = catalog
        self._clock = clock
        self._origin_s = clock.monotonic()
        self._log = ArrivalLog(span_s)
        self.gate = make_gate(semantics, limit, span_s)
        self._seed = seed
        self._generator = rng(f"boeing {seed}")
        self._token_life_s = token_life_s
        self._counts_auth = counts_auth
        self._sign_in = sign_in or SignIn()
        self._delay_s = delay_s
        self._tokens: dict[str, float] = {}
        # Over real HTTP each call has a thread of its own; nothing below ever sleeps.
        self._lock = threading.Lock()
        self.faults = faults or FaultPlan(seed)
        self.calls: Counter[str] = Counter()
        self.refusals = 0

    @property
    def max_calls_in_window(self) -> int:
        """The most calls, admitted or refused, that ever arrived within one span."""
        return self._log.calls_max

    def elapsed_s(self) -> float:
        """Return the second it is on the supplier's own clock, as faults are planned on."""
        return self._clock.monotonic() - self._origin_s

    def revoke_tokens(self) -> None:
        """Invalidate every token, as after an incident."""
        with self._lock:
            self._tokens.clear()

    def shown_prices(self, part: SupplierPart) -> tuple[Decimal | None, Decimal | None]:
        """Return the list and net price that replies show: three parts in ten hide the first."""
        is_hidden = part.net_price and self._trait(part.sku, "list") % 10 < 3  # noqa: PLR2004
        return None if is_hidden else part.list_price, part.net_price

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        """Answer one request at its arrival."""
        with self._lock:
            at_s = self.elapsed_s()
            fault = self.faults.call_fault(at_s)
            if fault is SimulatedFault.REFUSED:
                self.faults.injected[fault] += 1
                return SimReply(outcome="refuse")
            kind, expected = KINDS.get(path, ("other", method))
            self.calls[kind] += 1
            delay_s = self._generator.uniform(*self._delay_s)
            if kind in {"price", "other"} or self._counts_auth:
                self._log.add(at_s)
                admission = self.gate.admit(at_s)
                if admission.is_refused:
                    self.refusals += 1
                    return self._dated(_throttled(admission.wait_s), delay_s)
                delay_s += admission.delay_s
            lowered = {name.lower(): value for name, value in headers.items()}
            if method != expected:
                reply = json_reply({"error": "method not allowed"}, status=405)
            else:
                reply = self._serve(kind, lowered, body, at_s)
            return self._spoil(self._dated(reply, delay_s), fault, kind)

    def _dated(self, reply: SimReply, delay_s: float) -> SimReply:
        date = format_datetime(self._clock.now(), usegmt=True)
        return replace(reply, headers={**reply.headers, "Date": date}, delay_s=delay_s)

    def _serve(self, kind: str, headers: Mapping[str, str], body: bytes, at_s: float) -> SimReply:
        if kind == "oauth":
            return self._give_oauth_token(body, at_s)
        if kind == "part_token":
            return self._give_part_token(headers, at_s)
        if kind == "price":
            return self._give_prices(headers, body, at_s)
        return json_reply({"error": "not found"}, status=404)

    def _give_oauth_token(self, body: bytes, at_s: float) -> SimReply:
        form = {key: values[0] for key, values in parse_qs(body.decode("latin-1")).items()}
        known = {
            "client_id": self._sign_in.client_id,
            "client_secret": self._sign_in.client_secret,
            "grant_type": "client_credentials",
        }
        if any(form.get(key) != value for key, value in known.items()):
            return json_reply({"error": "invalid_client"}, status=401)
        token = self._new_token("oauth", at_s)
        life_s = int(self._token_life_s)
        return json_reply({"token_type": "Bearer", "expires_in": life_s, "access_token": token})

    def _give_part_token(self, headers: Mapping[str, str], at_s: float) -> SimReply:
        signed = (headers.get("x-username"), headers.get("x-password"))
        is_known = signed == (self._sign_in.username, self._sign_in.password)
        if not is_known or not self._is_alive("oauth", _bearer(headers), at_s):
            return json_reply({"message": "Unauthorized"}, status=401)
        token = self._new_token("part", at_s)
        return json_reply({"message": "ok"}, headers={"x-part-access-token": token})

    def _give_prices(self, headers: Mapping[str, str], body: bytes, at_s: float) -> SimReply:
        part_token = headers.get("x-boeing-parts-authorization", "")
        if not self._is_alive("oauth", _bearer(headers), at_s) or not self._is_alive(
            "part", part_token, at_s
        ):
            return json_reply({"message": "Unauthorized"}, status=401)
        codes = _product_codes(body)
        if not codes or len(codes) > SEATS_MAX:
            return json_reply({"message": "1 to 10 productCodes, please"}, status=400)
        poison = self.faults.poison_in(codes)
        if poison is not None:
            self.faults.injected["poison"] += 1
            return _poisoned(poison)
        parts = [part for code in dict.fromkeys(codes) if (part := self._find(code, at_s))]
        bad = {part.sku: self.faults.bad_price(part.sku, at_s) for part in parts}
        self.faults.injected.update("badprice" for form in bad.values() if form)
        currency = parts[0].currency if parts else "USD"
        if BadPrice.CURRENCY in bad.values():
            currency = "EUR" if currency != "EUR" else "GBP"
        lines = [self._line(part, bad[part.sku], at_s) for part in parts]
        named = {} if self.faults.hides_currency(at_s) else {"currency": currency}
        return json_reply({**named, "lineItems": lines})

    def _find(self, code: str, at_s: float) -> SupplierPart | None:
        part = self._catalog.lookup(code) or self._catalog.lookup(code.upper())
        if part is not None and self.faults.is_vanished(part.sku, at_s):
            self.faults.injected["vanish"] += 1
            return None
        return part

    def _line(self, part: SupplierPart, bad: BadPrice | None, at_s: float) -> dict[str, Any]:
        list_price, net_price = self.shown_prices(part)
        places = self._places(part, at_s)
        spell = str if self._trait(part.sku, "text") % 2 else float
        line: dict[str, Any] = {
            "aviallPartNumber": part.sku,
            "productCode": part.sku.partition("=")[0],
            "name": part.name or part.sku,
            "listPrice": spell(list_price or Decimal(0)),
            "netPrice": None if net_price is None else spell(net_price),
            "quantity": sum(quantity for _, quantity in places),
            "inStock": any(quantity > 0 for _, quantity in places),
            "locationAvailabilities": [
                {"location": place, "availQuantity": quantity} for place, quantity in places
            ],
            "baseUOM": "EA",
        }
        line |= self._details(part)
        if part.family:
            line["supplierName"] = part.family
        form = self.faults.contradiction(part.sku, at_s)
        if form is not None:
            self.faults.injected["contradict"] += 1
            line |= _contradicting(form, line)
        return {**line, **_spoiled_prices(bad)}

    def _details(self, part: SupplierPart) -> dict[str, Any]:
        """Return what else a line has; one in eight has a value that makes no sense."""
        trait = self._trait(part.sku, "details")
        weight = (1 + trait % 4000) / 1000
        details: dict[str, Any] = {
            "weight": weight if trait % 3 else str(weight),
            "weightUOM": ("LB", "KG", "OZ", "lbs")[trait % 4],
            "countryOfOrigin": ("US", "US", "GB", "FR", "DE")[trait % 5],
            "scheduleBCode": ("8803300010", "7318.15.2000", "4016930000")[trait % 3],
            "condition": ("NE", "NE", "OH", "SV")[trait % 7 % 4],
            "productImage": f"https://images.parts.example/{trait:08x}.jpg",
        }
        odd = ODD_DETAILS[trait // 8 % len(ODD_DETAILS)] if trait % 8 == 0 else {}
        return {**details, **odd}

    def _places(self, part: SupplierPart, at_s: float) -> list[tuple[str, int]]:
        """Return stock by place: shuffled, empty ones often left out, a few with a foreign one."""
        generator = self._generator
        places = [
            (place, quantity)
            for place, quantity in part.stock.items()
            if quantity or generator.random() < 0.5  # noqa: PLR2004 - half of them
        ]
        trait = self._trait(part.sku, "foreign")
        if trait % 6 == 0 and FOREIGN_PLACE not in part.stock:
            places.append((FOREIGN_PLACE, trait % 50))
        generator.shuffle(places)
        return [(self.faults.place_name(place, at_s), quantity) for place, quantity in places]

    def _spoil(self, reply: SimReply, fault: SimulatedFault | None, kind: str) -> SimReply:
        """Apply the fault to a reply that was counted and earned."""
        spoiled = reply
        if fault is SimulatedFault.ERROR or fault is SimulatedFault.UNAVAILABLE:
            status = 500 if fault is SimulatedFault.ERROR else 503
            spoiled = replace(reply, status=status, body=b'{"message":"try again later"}')
        elif fault is SimulatedFault.TIMEOUT:
            spoiled = replace(reply, outcome="hang")
        elif fault is SimulatedFault.DROP:
            spoiled = replace(reply, outcome="drop")
        elif fault is SimulatedFault.SLOW:
            spoiled = replace(reply, delay_s=reply.delay_s + self.faults.slowness_s())
        elif fault is SimulatedFault.HTML:
            headers = {**reply.headers, "Content-Type": "text/html"}
            spoiled = replace(reply, status=200, headers=headers, body=HTML_PAGE)
        elif fault is SimulatedFault.TRUNCATE:
            spoiled = replace(reply, body=reply.body[: self.faults.cut(len(reply.body))])
        elif fault is SimulatedFault.DUPLICATE and kind == "price":
            spoiled = self._doubled(reply)
        if fault is not None and spoiled is not reply:
            self.faults.injected[fault] += 1
        return spoiled

    def _doubled(self, reply: SimReply) -> SimReply:
        """Repeat a row, unchanged or with another price."""
        document = json.loads(reply.body)
        lines = document.get("lineItems")
        if not lines:
            return reply
        other = {} if self.faults.chance() else {"netPrice": "1.23", "listPrice": "4.56"}
        document["lineItems"] = [*lines, {**lines[0], **other}]
        return replace(reply, body=json.dumps(document).encode())

    def _new_token(self, kind: str, at_s: float) -> str:
        self._tokens = {text: end_s for text, end_s in self._tokens.items() if end_s > at_s}
        token = f"{kind}-{self._generator.getrandbits(128):032x}"
        self._tokens[token] = at_s + self._token_life_s
        return token

    def _is_alive(self, kind: str, token: str, at_s: float) -> bool:
        return token.startswith(f"{kind}-") and self._tokens.get(token, -math.inf) > at_s

    def _trait(self, sku: str, name: str) -> int:
        """Return a number that is always the same for this seed, SKU and trait."""
        return zlib.crc32(f"{self._seed} {name} {sku}".encode())


def _poisoned(poison: Poison) -> SimReply:
    if poison in {Poison.EMPTY, Poison.NAMELESS}:
        lines = [{"errorMessage": "Invalid part"}] if poison is Poison.NAMELESS else []
        return json_reply({"currency": "USD", "lineItems": lines})
    if poison is Poison.TIMEOUT:
        return replace(json_reply({}), outcome="hang")
    return json_reply({"message": "Internal Server Error"}, status=int(poison))


def _throttled(wait_s: float) -> SimReply:
    seconds = str(max(1, math.ceil(wait_s)))
    return json_reply({"message": "slow down"}, status=429, headers={"Retry-After": seconds})


def _bearer(headers: Mapping[str, str]) -> str:
    return headers.get("authorization", "").removeprefix("Bearer ")


def _product_codes(body: bytes) -> Sequence[str]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return ()
    codes = document.get("productCodes") if isinstance(document, dict) else None
    if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
        return ()
    return codes


def _spoiled_prices(bad: BadPrice | None) -> dict[str, Any]:
    if bad is None or bad is BadPrice.CURRENCY:
        return {}
    forms = {
        BadPrice.ZERO: 0,
        BadPrice.NEGATIVE: -12.5,
        BadPrice.TEXT: "n/a",
        BadPrice.EXTREME: 1e12,
    }
    return {"listPrice": forms[bad], "netPrice": forms[bad]}


def _contradicting(form: Contradiction, line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that make a line contradict itself."""
    stocked = line["locationAvailabilities"] if line["inStock"] else []
    other = f"N{line['aviallPartNumber']}"
    fields: Mapping[Contradiction, dict[str, Any]] = {
        Contradiction.STOCK: {
            "inStock": False,
            "quantity": 0,
            "locationAvailabilities": stocked
            or [{"location": "Dallas Central", "availQuantity": 5}],
        },
        Contradiction.CURRENCY: {"currency": "EUR"},
        Contradiction.ERROR: {"errorMessage": "Pricing service unavailable"},
        Contradiction.STATUS: {"status": "ERROR"},
        Contradiction.SUPERSEDED: {"supersededBy": other},
        Contradiction.REPLACED: {
            "aviallPartNumber": other,
            "productCode": line["aviallPartNumber"],
        },
        Contradiction.UNIT: {"baseUOM": "PK"},
        Contradiction.MINIMUM: {"minimumOrderQuantity": 10},
    }
    return fields[form]
