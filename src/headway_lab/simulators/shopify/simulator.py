"""A simulated Shopify: many shops, their Admin API 2026-04, its limits, its quirks.

It keeps its own log: what each call wrote, and whether that was there already.
"""

import itertools
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from headway.clock import Clock, rng
from headway_lab.simulators.reply import SimReply, json_reply
from headway_lab.simulators.shopify import reads  # noqa: F401 - what the schema's fields resolve to
from headway_lab.simulators.shopify.apps import AppSecret
from headway_lab.simulators.shopify.bulk import BulkOperation, BulkOperations
from headway_lab.simulators.shopify.call import ShopifyRequest, read_call
from headway_lab.simulators.shopify.customers import Customers
from headway_lab.simulators.shopify.execute import answer
from headway_lab.simulators.shopify.faults import (
    POISON_ERRORS,
    ShopFault,
    ShopFaultPlan,
    ShopPoisonForm,
)
from headway_lab.simulators.shopify.meter import PointBucket
from headway_lab.simulators.shopify.order_replies import Trade
from headway_lab.simulators.shopify.orders import Orders
from headway_lab.simulators.shopify.request import ShopEffect, ShopRequest, Used, WriteLog
from headway_lab.simulators.shopify.schema import Operation
from headway_lab.simulators.shopify.shop import ShopIds, ShopScreen, ShopSetup, SimulatedShop
from headway_lab.simulators.shopify.tokens import ShopTokens
from headway_lab.simulators.shopify.truth import Truth, truth
from headway_lab.simulators.shopify.webhooks import Delivery, deliver, sign_query

QUERY_POINTS_MAX = 1000
HTML_PAGE = b"<!DOCTYPE html><html><title>Something went wrong</title></html>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A shop with all that the platform keeps beside it; buckets are by app."""

    shop: SimulatedShop
    trade: Trade
    tokens: ShopTokens
    bulk: BulkOperations
    keys: dict[str, Used] = field(default_factory=dict)
    points: dict[str, PointBucket] = field(default_factory=dict)


class ShopifySimulator:
    """Answers requests as Shopify does, and keeps a log of what they did."""

    def __init__(
        self,
        clock: Clock,
        *,
        shops: Iterable[ShopSetup],
        app: AppSecret | None = None,
        faults: ShopFaultPlan | None = None,
        seed: int = 0,
        version: str = "2026-04",
        token_life_s: float = 3600.0,
        delay_s: tuple[float, float] = (0.15, 0.6),
        bulk_start_s: float = 2.0,
        bulk_line_s: float = 0.02,
        index_lag_s: float = 5.0,
    ) -> None:
        self._clock = clock
        self._origin_s = clock.monotonic()
        self._generator = rng(f"shopify {seed}")
        self._version = version
        self._delay_s = delay_s
        # Over real HTTP each call has a thread of its own; nothing below ever sleeps.
        self._lock = threading.RLock()
        self._numbers = itertools.count(1001)
        self._app = app or AppSecret()
        self._branches: dict[str, Branch] = {}
        for setup in shops:
            shop = SimulatedShop(setup, self._numbers, clock.now)
            customers = Customers(self._numbers)
            orders = Orders(shop, customers, self._numbers)
            self._branches[setup.domain] = Branch(
                shop=shop,
                trade=Trade(shop=shop, orders=orders, customers=customers, lag_s=index_lag_s),
                tokens=ShopTokens(setup, self._app, token_life_s, self._generator),
                bulk=BulkOperations(start_s=bulk_start_s, line_s=bulk_line_s),
            )
        self.faults = faults or ShopFaultPlan(seed)
        # Shops that answer every request with a status, such as 402, and shops that were renamed.
        self.closed: dict[str, int] = {}
        self.moved: dict[str, str] = {}
        self.log = WriteLog()
        self.calls: Counter[str] = Counter()
        self.requests = 0
        self.points = 0
        self.refusals = 0
        self.throttled = 0

    @property
    def effects(self) -> list[ShopEffect]:
        """Every facet of every accepted write, in order."""
        return self.log.effects

    @property
    def on_effect(self) -> Callable[[ShopEffect], None] | None:
        """The listener for each effect, called when it happens."""
        return self.log.on_effect

    @on_effect.setter
    def on_effect(self, listener: Callable[[ShopEffect], None] | None) -> None:
        self.log.on_effect = listener

    @property
    def max_level(self) -> float:
        """The most points that any bucket ever lacked."""
        buckets = [point for branch in self._branches.values() for point in branch.points.values()]
        return max((bucket.level_max for bucket in buckets), default=0.0)

    def double_writes(self) -> list[ShopEffect]:
        """Return the first facet of every write that changed nothing of its item."""
        return self.log.double_writes()

    def elapsed_s(self) -> float:
        """Return the second it is on the simulator's own clock, as faults are planned on."""
        return self._clock.monotonic() - self._origin_s

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        """Answer one request at its arrival."""
        with self._lock:
            at_s = self.elapsed_s()
            fault = self.faults.call_fault(at_s)
            if fault is ShopFault.REFUSED:
                return SimReply(outcome="refuse")
            self._catch_up(at_s)
            call = read_call(method, path, headers, body)
            self.requests += 1
            self.calls.update(call.names)
            delay_s = self._generator.uniform(*self._delay_s) + call.work_s
            if fault is ShopFault.SLOW:
                delay_s += self.faults.slowness_s()
            reply = self._suffer(call, fault, at_s, at_s + delay_s)
            return replace(reply, delay_s=delay_s)

    def _suffer(
        self, call: ShopifyRequest, fault: ShopFault | None, at_s: float, ends_s: float
    ) -> SimReply:
        """Serve the call, unless a fault comes first, and apply a fault that comes after it."""
        is_drained = fault is ShopFault.THROTTLE
        if fault in {None, ShopFault.SLOW, ShopFault.THROTTLE}:
            return self._serve(call, at_s, ends_s, is_drained=is_drained)
        is_applied = fault is ShopFault.LOST_REPLY or (
            fault is ShopFault.HTML and self.faults.chance()
        )
        # A pair of tokens that is lost on its way needs a person, and no run could go on.
        if is_applied and call.endpoint != "oauth":
            self._serve(call, at_s, ends_s, is_drained=False)
        if fault is ShopFault.SILENT:
            return SimReply(outcome="hang")
        if fault in {ShopFault.LOST_REPLY, ShopFault.LOST_REQUEST}:
            return SimReply(outcome="hang" if self.faults.chance() else "drop")
        status = 200 if fault is ShopFault.HTML else 502
        return SimReply(status=status, headers={"Content-Type": "text/html"}, body=HTML_PAGE)

    def _serve(
        self, call: ShopifyRequest, at_s: float, ends_s: float, *, is_drained: bool
    ) -> SimReply:
        branch = self._branches.get(call.shop)
        if (elsewhere := self._elsewhere(call.shop)) is not None:
            return elsewhere
        if branch is None or not call.endpoint:
            return json_reply({"errors": "Not Found"}, status=404)
        if call.endpoint == "staged":
            content_type = call.headers.get("content-type", "")
            return branch.bulk.upload(call.number, content_type, call.body)
        if call.endpoint == "bulk":
            return branch.bulk.result(call.number)
        if call.endpoint == "oauth":
            return branch.tokens.answer(call.headers, call.body, at_s)
        return self._versioned(self._api(branch, call, at_s, ends_s, is_drained=is_drained))

    def _elsewhere(self, shop: str) -> SimReply | None:
        """Return the reply of a shop that is closed or was renamed; None if it is neither."""
        if shop in self.moved:
            where = f"https://{self.moved[shop]}/admin/api/{self._version}/graphql.json"
            return SimReply(status=301, headers={"Location": where})
        if shop in self.closed:
            return json_reply({"errors": "Unavailable Shop"}, status=self.closed[shop])
        return None

    def _api(
        self, branch: Branch, call: ShopifyRequest, at_s: float, ends_s: float, *, is_drained: bool
    ) -> SimReply:
        app = branch.tokens.app_of(call.headers.get("x-shopify-access-token", ""), at_s)
        if app is None:
            text = "[API] Invalid API key or access token (unrecognized login or wrong password)"
            return json_reply({"errors": text}, status=401)
        if call.operation is None:
            text = "Required parameter missing or invalid"
            return json_reply({"errors": {"query": text}}, status=400)
        if not isinstance(call.operation, Operation):
            self.log.codes["invalid document"] += 1
            errors = [error.formatted for error in call.operation]
            return json_reply({"errors": errors})
        poison = self._poison_in(branch.shop, call.operation, call.variables, at_s)
        if poison is ShopPoisonForm.BAD_GATEWAY:
            return SimReply(status=502, headers={"Content-Type": "text/html"}, body=HTML_PAGE)
        if poison is not None:
            return json_reply(self._spoiled(poison))
        shop_request = self._shop_request(branch, call.headers.get("host", ""), at_s, ends_s)
        bucket = branch.points.setdefault(
            app, PointBucket(branch.shop.setup.capacity, branch.shop.setup.restore_per_s)
        )
        if is_drained:
            bucket.drain(at_s)
        payload = self._graphql(
            call.operation, call.variables, shop_request, bucket, is_drained=is_drained
        )
        return json_reply(payload)

    def _graphql(
        self,
        operation: Operation,
        variables: Mapping[str, Any],
        shop_request: ShopRequest,
        bucket: PointBucket,
        *,
        is_drained: bool,
    ) -> dict[str, Any]:
        requested = operation.cost(variables)
        actual: int | None = None
        payload: dict[str, Any]
        if requested > QUERY_POINTS_MAX:
            text = f"Query cost is {requested}, over the single query max cost limit (1000)."
            payload = self._error(text, "MAX_COST_EXCEEDED", cost=requested, maxCost=1000)
        elif not bucket.take(requested, shop_request.at_s):
            self.throttled += 1
            self.refusals += not is_drained
            payload = self._error("Throttled", "THROTTLED")
        else:
            payload = answer(operation, variables, shop_request)
            actual = requested if operation.is_mutation else min(shop_request.points, requested)
            self.points += actual
            bucket.refund(requested - actual)
            for error in payload.get("errors", ()):
                self.log.codes[error.get("extensions", {}).get("code", "error")] += 1
        status = {
            "maximumAvailable": bucket.capacity,
            "currentlyAvailable": math.floor(bucket.available(shop_request.at_s)),
            "restoreRate": bucket.restore_per_s,
        }
        cost = {"requestedQueryCost": requested, "actualQueryCost": actual}
        extensions: dict[str, Any] = {"cost": {**cost, "throttleStatus": status}}
        if shop_request.warnings:
            extensions["search"] = shop_request.warnings
        return {**payload, "extensions": extensions}

    def _error(self, message: str, code: str, **extensions: Any) -> dict[str, Any]:  # noqa: ANN401
        self.log.codes[code] += 1
        return {"errors": [{"message": message, "extensions": {"code": code, **extensions}}]}

    def _poison_in(
        self, shop: SimulatedShop, operation: Operation, variables: Mapping[str, Any], at_s: float
    ) -> ShopPoisonForm | None:
        def ids_of(sku: str) -> set[str]:
            variants = shop.by_sku(sku)
            return {
                id_ for variant in variants for id_ in (variant.id, variant.item, variant.product)
            }

        if not self.faults.poison:
            return None
        return self.faults.poison_in(operation.fields, variables, ids_of, at_s)

    def _spoiled(self, poison: ShopPoisonForm) -> dict[str, Any]:
        code, text = POISON_ERRORS.get(poison, POISON_ERRORS[ShopPoisonForm.INTERNAL])
        return {"data": None, **self._error(text, code)}

    def _versioned(self, reply: SimReply) -> SimReply:
        headers = {**reply.headers, "X-Shopify-API-Version": self._version}
        return replace(reply, headers=headers)

    def _shop_request(
        self,
        branch: Branch,
        host: str,
        at_s: float,
        ends_s: float,
        request: int | None = None,
    ) -> ShopRequest:
        return ShopRequest(
            shop=branch.shop,
            trade=branch.trade,
            log=self.log,
            keys=branch.keys,
            bulk=branch.bulk,
            url=f"http://{host}/{branch.shop.setup.domain}",
            now=self._clock.now(),
            at_s=at_s,
            ends_s=ends_s,
            request=self.requests if request is None else request,
        )

    def _catch_up(self, at_s: float) -> None:
        """Run what bulk operations have done meanwhile."""
        for branch in self._branches.values():
            if branch.bulk.running:
                run_line = partial(self._run_line, branch)
                branch.bulk.advance(at_s, self._clock.now(), run_line)

    def _run_line(
        self, branch: Branch, bulk: BulkOperation, variables: Mapping[str, Any], at_s: float
    ) -> dict[str, Any]:
        poison = self._poison_in(branch.shop, bulk.operation, variables, at_s)
        if poison is not None:
            return self._spoiled(poison)
        shop_request = self._shop_request(branch, "", at_s, at_s, bulk.request)
        return answer(bulk.operation, variables, shop_request)

    # For tests and worlds: what is in a shop, and what people change in it directly.

    def shop(self, domain: str) -> SimulatedShop:
        """Return a shop in its current state."""
        with self._lock:
            self._catch_up(self.elapsed_s())
            return self._branches[domain].shop

    def rename(self, domain: str, name: str) -> None:
        """Give a shop another address; the old one leads there."""
        with self._lock:
            self._branches[name] = self._branches.pop(domain)
            shop = self._branches[name].shop
            shop.setup = replace(shop.setup, domain=name)
            self.moved[domain] = name

    def tokens(self, domain: str) -> ShopTokens:
        """Return the tokens of a shop."""
        return self._branches[domain].tokens

    def seed_product(self, shop: str, sku: str, **details: Any) -> ShopIds:  # noqa: ANN401
        """Add a product; see SimulatedShop.seed_product."""
        with self._lock:
            return self.shop(shop).seed_product(sku, **details)

    def shown(self, shop: str, sku: str) -> ShopScreen | None:
        """Return what the shop shows of a SKU."""
        with self._lock:
            return self.shop(shop).shown(sku)

    def renumber(self, shop: str, sku: str) -> ShopIds:
        """Give a product new ids; the old ones are not found any more."""
        with self._lock:
            return self.shop(shop).renumber(sku)

    def delete(self, shop: str, sku: str) -> None:
        """Delete the product of a SKU."""
        with self._lock:
            self.shop(shop).delete(sku)

    def edit_price(self, shop: str, sku: str, price: Decimal) -> None:
        """Change a price as the merchant does."""
        with self._lock:
            self.shop(shop).edit_price(sku, price)

    def sell(self, shop: str, sku: str, location: str, quantity: int = 1) -> int:
        """Let a customer buy; return what is left there."""
        with self._lock:
            return self.shop(shop).sell(sku, location, quantity)

    # Orders. Ids are the numbers at the end of the platform's long ones.

    def place_order(
        self,
        shop: str,
        lines: Sequence[tuple[str, int]],
        *,
        at: datetime | None = None,
        **details: Any,  # noqa: ANN401
    ) -> str:
        """Sell SKUs, now or in the past; see Orders.place."""
        with self._lock:
            now = at or self._second()
            return str(self._branches[shop].trade.orders.place(lines, now=now, **details).number)

    def edit_order(
        self,
        shop: str,
        order: str,
        adds: Sequence[tuple[str, int]] = (),
        removes: Sequence[tuple[str, int]] = (),
    ) -> None:
        """Add positions to an order, remove pieces by SKU, or only touch it."""
        with self._lock:
            orders = self._branches[shop].trade.orders
            orders.edit(order, adds, removes=removes, now=self._second())

    def pay(self, shop: str, order: str) -> None:
        """Take the money that is still missing."""
        with self._lock:
            self._branches[shop].trade.orders.pay(order, now=self._second())

    def fulfil(self, shop: str, order: str, **details: Any) -> None:  # noqa: ANN401
        """Ship a package; see Orders.fulfil."""
        with self._lock:
            self._branches[shop].trade.orders.fulfil(order, now=self._second(), **details)

    def deliver(self, shop: str, order: str) -> None:
        """Deliver the packages of an order."""
        with self._lock:
            self._branches[shop].trade.orders.deliver(order, now=self._second())

    def refund(self, shop: str, order: str, amount: Decimal | None = None, note: str = "") -> None:
        """Refund that much, or all that is left."""
        with self._lock:
            orders = self._branches[shop].trade.orders
            orders.refund(order, amount, now=self._second(), note=note)

    def cancel(self, shop: str, order: str) -> None:
        """Cancel an order."""
        with self._lock:
            self._branches[shop].trade.orders.cancel(order, now=self._second())

    def add_customer(self, shop: str, name: str, **details: str) -> str:
        """Add a customer; see Customers.add."""
        with self._lock:
            customers = self._branches[shop].trade.customers
            return str(customers.add(name, now=self._second(), **details).number)

    def edit_customer(self, shop: str, customer: str, **changes: str) -> None:
        """Change a customer's data."""
        with self._lock:
            customers = self._branches[shop].trade.customers
            customers.edit(customer, now=self._second(), **changes)

    def merge_customers(self, shop: str, kept: str, deleted: str) -> Delivery:
        """Merge a customer into another; return the webhook, which names no plain `id`."""
        with self._lock:
            trade, now = self._branches[shop].trade, self._second()
            trade.orders.reassign(int(deleted), int(kept), now=now)
            trade.customers.touch(int(kept), now)
            trade.customers.delete(int(deleted))
            ids = {"kept": kept, "deleted": deleted}
            names = {
                f"admin_graphql_api_customer_{which}_id": f"gid://shopify/Customer/{own}"
                for which, own in ids.items()
            }
            return self._deliver("customers/merge", {**names, "status": "completed"}, shop)

    def edit_product(self, shop: str, sku: str, **changes: Any) -> None:  # noqa: ANN401
        """Change the own fields of a SKU's product: title, status."""
        with self._lock:
            shop_listings = self.shop(shop)
            product = shop_listings.products[shop_listings.by_sku(sku)[0].product]
            shop_listings.put_product(replace(product, **changes))

    def remove_product(self, shop: str, sku: str) -> None:
        """Delete the product of a SKU."""
        self.delete(shop, sku)

    def truth(self, shop: str, *, since: datetime | None = None) -> Truth:
        """Return what the shop holds in our tables' columns; see `truth`."""
        with self._lock:
            return truth(self._branches[shop].trade, since=since)

    def hook(self, topic: str, order: str, *, shop: str) -> Delivery:
        """Write the webhook of an order, product or customer, by its number, and sign it."""
        with self._lock:
            name = "order_id" if topic.startswith(("refunds/", "fulfillments/")) else "id"
            return self._deliver(topic, {name: int(order)}, shop)

    def _deliver(self, topic: str, body: Mapping[str, Any], shop: str) -> Delivery:
        return deliver(
            topic,
            body,
            shop=shop,
            webhook_id=f"{self._generator.getrandbits(128):032x}",
            secret=self._app.client_secret,
        )

    def consent(self, shop: str, state: str) -> dict[str, str]:
        """Let the merchant agree to our scopes; return the signed query of the redirect."""
        with self._lock:
            code = self._branches[shop].tokens.consent(self.elapsed_s())
            stamp = str(int(self._clock.now().timestamp()))
            params = {"code": code, "shop": shop, "state": state, "timestamp": stamp}
            return sign_query(params, self._app.client_secret)

    def _second(self) -> datetime:
        """Return the time as the platform stamps it: in whole seconds."""
        return self._clock.now().replace(microsecond=0)
