"""Small random worlds: the real engine, a supplier, a shop, and people who interfere at any moment.

An action has a name and a number from which it draws its details, so that a list of actions can
be repeated and shortened. Some happen while a call to the supplier or to the shop is under way.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
from psycopg_pool import ConnectionPool
from tests.laws.operator_checks import Checks
from tests.statements import Statements

from headway.app import build
from headway.clock import Rng, fresh_id, rng
from headway.config import Settings
from headway.core.catalog.intake import ImportRow
from headway.core.catalog.listings import SellerId, Sku, Wait
from headway.core.catalog.storefront import Gid
from headway.core.pauses import PauseKind
from headway.errors import RequestError
from headway.operations import changes, listings, pauses, publishing, terms
from headway.operations.callers import operator
from headway.providers.shopify.storefront import shop_limit_key, store_tokens
from headway.providers.vault import open_vault
from headway.store.accounts.credentials import Credentials
from headway.store.catalog.products import Products
from headway_lab.simulators.boeing import BoeingSimulator, SignIn, SupplierPart
from headway_lab.simulators.shopify.shop import ShopSetup
from headway_lab.simulators.shopify.simulator import ShopifySimulator
from headway_lab.simulators.transport import SimTransport
from headway_lab.virtual_clock import VirtualClock

START = datetime(2026, 1, 5, tzinfo=UTC)
SELLER = SellerId("acme")
DOMAIN = "acme.myshopify.com"
PLACES = ("Dallas Central", "Chicago IL", "Miami FL", "Goodyear AZ")
EMPTY = """
TRUNCATE product_sync_schedule, listing_state, product, product_staging, connected_accounts,
  push_intent, sync_audit_log, call_ledger, limiter, breaker, credential, credential_refresh,
  pauses, profiles, boeing_raw_data, market, family, timetable, listing_search, notices, outbox,
  housekeeping, freshness_samples, supplier_locations CASCADE
"""
CONNECT = """
INSERT INTO connected_accounts (user_id, platform, shop, push_started_at)
VALUES ('acme', 'shopify', 'acme.myshopify.com', %s)
"""
MAKE_DUE = """
UPDATE product_sync_schedule SET next_sync_at = %s, priority = 'scheduled'
WHERE is_active AND sync_status <> 'syncing'
"""
UNREAD = """
SELECT count(*) FROM product_sync_schedule
WHERE is_active AND NOT is_paused AND coalesce(last_sync_at, '-infinity') < %s
"""
UNPUSHED = "SELECT count(*) FROM listing_state WHERE push_at <= %s"
STEPS_MAX = 80
PATIENCE = timedelta(minutes=20)
FACTORS = ("0.97", "1.02", "1.1", "0.85", "1.3", "1.7", "0.4", "6", "80")
ODD_PRICES: tuple[tuple[str | None, str | None], ...] = (
    (None, None), ("0", "0"), ("-1", None), ("-3", "50"), ("1000000000000", None), (None, "40"),
    ("0.00001", None), ("0.003", None), ("60", "-2"),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What somebody does, drawn from a number, and whether a call is under way meanwhile."""

    name: str
    number: int
    is_during_call: bool = False


class Gate(httpx.BaseTransport):
    """A connection that may be down, and during whose calls something may happen."""

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self._inner = inner
        self.is_down = False
        self.meanwhile: list[Callable[[], None]] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.is_down:
            raise httpx.ConnectError("connection refused", request=request)
        before = self.meanwhile and self.meanwhile.pop()
        if before:
            before()
        return self._inner.handle_request(request)


class Catalog:
    """What the supplier sells; it remembers what it has quoted."""

    def __init__(self) -> None:
        self.parts: dict[str, SupplierPart] = {}
        self.quoted: dict[str, list[SupplierPart]] = {}

    def lookup(self, sku: str) -> SupplierPart | None:
        part = self.parts.get(sku)
        if part is not None:
            self.quoted.setdefault(sku, []).append(part)
        return part


class OperatorWorld(Statements):
    """One seller's shop with a few parts, the engine, and what people do."""

    def __init__(self, pool: ConnectionPool, folder: Path, seed: int) -> None:
        self.pool, self.clock, self.catalog = pool, VirtualClock(START), Catalog()
        draw = rng(f"operator world {seed}")
        self.ask(EMPTY)
        sign_in, ids = SignIn(), rng(f"ids {seed}")
        setup = ShopSetup(domain=DOMAIN, locations=PLACES, search_lag_s=1.0)
        self.supplier = BoeingSimulator(self.catalog, self.clock, seed=seed)
        self.shop = ShopifySimulator(self.clock, shops=[setup], seed=seed)
        self.gates = {
            "supplier": Gate(SimTransport(self.supplier.handle, self.clock, seed=seed)),
            "shop": Gate(SimTransport(self.shop.handle, self.clock, seed=seed)),
        }
        settings = Settings(
            policy="rolling",
            boeing_url="http://supplier.test",
            boeing_client_id=sign_in.client_id,
            boeing_client_secret=sign_in.client_secret,
            boeing_username=sign_in.username,
            boeing_password=sign_in.password,
            shopify_url="http://shop.test/{shop}",
            data_dir=folder,
            drift_check_h=1,
        )
        self.app = build(
            settings,
            self.clock,
            pool,
            transport=self.gates["supplier"],
            shop_transport=self.gates["shop"],
            ids=lambda: fresh_id(ids),
        )
        self.ask(CONNECT, self.clock.now())
        store_tokens(
            Credentials(pool),
            open_vault(None, folder),
            shop_limit_key(settings.shopify_client_id, DOMAIN),
            clock=self.clock,
            access=setup.access_token,
        )
        self.fetch, self.push = self.app.fetch("f"), self.app.push("p")
        self.tick = self.app.tick()
        self.checks, self.is_in_call = Checks(self), False
        self._enter(draw)

    # -- the beginning -----------------------------------------------------------------------

    def _enter(self, draw: Rng) -> None:
        """Enter the parts: most are taken over from the shop, some are new at the supplier."""
        count = draw.choice((3, 5, 8, 12, 26, 40))
        rows = []
        for number in range(count):
            sku, price = f"P-{number:02}", Decimal(draw.randrange(500, 50_000)) / 100
            self.catalog.parts[sku] = SupplierPart(
                sku=sku,
                list_price=price,
                net_price=(price * Decimal("0.8")).quantize(Decimal("0.01")),
                stock={place: draw.randrange(4) for place in draw.sample(PLACES, 2)},
            )
            own = price * Decimal(draw.choice(("1.1", "1.1", "1.3", "0.9", "3")))
            ids = self.shop.seed_product(
                DOMAIN, sku, price=own.quantize(Decimal("0.01")),
                quantities={place: draw.randrange(4) for place in PLACES},
            )  # fmt: skip
            gids = (Gid(ids.product), Gid(ids.variant), Gid(ids.item))
            rows.append(_row(number, sku, gids))
        self.model = self.catalog.parts["P-00"]
        self.take_in(rows)
        for number in range(draw.randrange(3)):  # not imported
            sku = f"N-{number:02}"
            self.catalog.parts[sku] = replace(self.model, sku=sku)

    def take_in(self, rows: Sequence[ImportRow]) -> None:
        """Import parts as a merchant's file names them."""
        products, now = Products(self.app.pool), self.clock.now()
        products.take_in(rows, form=self.app.settings.shop_sku, policy=self.app.policy, now=now)
        self.app.sellers.count_catalogs(now)

    # -- what happens ------------------------------------------------------------------------

    def do(self, action: Action) -> None:
        """Let something happen, now or during the next call, and check the laws."""
        draw = rng(f"{action.name} {action.number}")
        deed = getattr(self, f"_{action.name}")

        def happen() -> None:
            with suppress(RequestError):  # refused: nothing was done
                deed(draw)
            self.checks.check()

        def meanwhile() -> None:
            self.is_in_call = True
            happen()
            self.is_in_call = False

        if action.is_during_call:
            self.gates[draw.choice(("supplier", "shop"))].meanwhile.append(meanwhile)
        else:
            happen()

    def round(self) -> None:
        """Let the engine read everything and write what is to be written; check as it goes."""
        began = self.clock.now()
        self.ask(MAKE_DUE, began)
        self._step(self.fetch.step, lambda: self.ask(UNREAD, began)[0][0] == 0)
        self.tick.step()
        self._step(self.push.step, lambda: self.ask(UNPUSHED, self.clock.now())[0][0] == 0)
        self.checks.check()
        self.checks.check_settled(began)

    def _step(self, step: Callable[[], Any], is_over: Callable[[], bool]) -> None:
        until = self.clock.now() + PATIENCE
        for _ in range(STEPS_MAX):
            if is_over():
                return
            result = step()
            self.checks.check()
            if isinstance(result, Wait):
                if result.until > until:
                    return
                self.clock.sleep((result.until - self.clock.now()).total_seconds())

    # -- the supplier ------------------------------------------------------------------------

    def _requote(self, draw: Rng) -> None:
        self._price(draw, draw.choice(sorted(self.catalog.parts)), draw.choice(FACTORS))

    def _price_list(self, draw: Rng) -> None:
        factor = draw.choice(("1.1", "0.9"))
        for sku in sorted(self.catalog.parts):
            if draw.random() < 0.8:
                self._price(draw, sku, factor)

    def _price(self, _draw: Rng, sku: str, factor: str) -> None:
        part, cent = self.catalog.parts[sku], Decimal("0.01")
        base = part.list_price or part.net_price
        if base is None or not 0 < base < 10**6:
            base = Decimal(20)
        listed = max(cent, (base * Decimal(factor)).quantize(cent))
        net = max(cent, (listed * Decimal("0.8")).quantize(cent))
        self.catalog.parts[sku] = replace(part, list_price=listed, net_price=net)

    def _misquote(self, draw: Rng) -> None:
        sku = draw.choice(sorted(self.catalog.parts))
        listed, net = (None if text is None else Decimal(text) for text in draw.choice(ODD_PRICES))
        part = self.catalog.parts[sku]
        self.catalog.parts[sku] = replace(part, list_price=listed, net_price=net)

    def _restock(self, draw: Rng) -> None:
        sku = draw.choice(sorted(self.catalog.parts))
        stock = {place: draw.choice((0, 0, 1, 5)) for place in draw.sample(PLACES, 3)}
        self.catalog.parts[sku] = replace(self.catalog.parts[sku], stock=stock)

    def _sell_out(self, draw: Rng) -> None:
        share = draw.choice((0.2, 0.9))
        for sku, part in sorted(self.catalog.parts.items()):
            if draw.random() < share:
                self.catalog.parts[sku] = replace(part, stock=dict.fromkeys(part.stock, 0))

    def _discontinue(self, draw: Rng) -> None:
        if len(self.catalog.parts) > 1:
            self.catalog.parts.pop(draw.choice(sorted(self.catalog.parts)))

    def _relist(self, draw: Rng) -> None:
        gone = sorted(set(self.catalog.quoted) - set(self.catalog.parts))
        if gone:
            sku = draw.choice(gone)
            self.catalog.parts[sku] = self.catalog.quoted[sku][-1]

    def _outage(self, draw: Rng) -> None:
        gate = self.gates[draw.choice(sorted(self.gates))]
        gate.is_down = not gate.is_down

    # -- people at the page ------------------------------------------------------------------

    def _approve(self, draw: Rng) -> None:
        self._decide(draw, changes.approve, changes.Approval)

    def _reject(self, draw: Rng) -> None:
        self._decide(draw, changes.reject, changes.Decision)

    def _decide(self, draw: Rng, operation: Any, body: Any) -> None:
        """Decide about a held change that was just shown, or shown a while ago."""
        shown = changes.held(self._caller, limit=100).items
        if shown and draw.random() < 0.3:
            self.checks.remembered = draw.choice(shown)
        chosen = self.checks.remembered if draw.random() < 0.3 else None
        chosen = chosen or (draw.choice(shown) if shown else None)
        if chosen is None:
            return
        if chosen.sku in self.catalog.parts and not self.is_in_call and draw.random() < 0.3:
            # The supplier quotes something else while the person thinks.
            self._price(draw, chosen.sku, draw.choice(FACTORS))
            self.round()
        rulings = operation(
            self._caller, body(skus=[chosen.sku], versions={chosen.sku: chosen.version})
        )
        self.checks.was_shown(chosen, rulings.listings)
        if operation is changes.approve:
            self.checks.let_pass(rulings.listings)

    def _approve_all(self, draw: Rng) -> None:
        shown = changes.approve(self._caller, changes.Approval(all=True, reason="x", dry_run=True))
        if draw.random() < 0.3:
            self.catalog.parts and self._requote(draw)
        body = changes.Approval(all=True, reason="price list", version=shown.version)
        self.checks.let_pass(changes.approve(self._caller, body).listings, lifts_guard=True)

    def _roll_back(self, draw: Rng) -> None:
        to = self.clock.now() - timedelta(hours=draw.choice((0, 1, 5, 30)))
        sku = Sku(draw.choice(self.checks.skus()))
        if draw.random() < 0.7:
            body = changes.Rollback(skus=[sku], to=to)
        else:
            body = changes.Rollback(since=to, to=to, seller=SELLER)
        self.checks.let_pass(changes.rollback(self._caller, body).listings)

    def _pause(self, draw: Rng) -> None:
        kind = draw.choice((PauseKind.ALL, PauseKind.SELLER, PauseKind.LISTING))
        sku = draw.choice(self.checks.skus())
        until = draw.choice((None, self.clock.now() + timedelta(hours=draw.choice((1, 30)))))
        pauses.pause(self._caller, pauses.PauseBody(until=until, **_target(kind, sku)))

    def _resume(self, _draw: Rng) -> None:
        for kind in (PauseKind.ALL, PauseKind.SELLER):
            pauses.resume(self._caller, pauses.ResumeBody(**_target(kind, "")))
        for sku in self.checks.skus():
            pauses.resume(self._caller, pauses.ResumeBody(**_target(PauseKind.LISTING, sku)))

    def _change_terms(self, draw: Rng) -> None:
        body = terms.TermsBody(
            price_basis=draw.choice((None, "list", "net")),
            markup=draw.choice((None, Decimal("0.1"), Decimal("0.15"), Decimal("0.9"))),
            rounding=draw.choice((None, "cent", "99", "whole")),
        )
        terms.set_terms(self._caller, SELLER, body)

    def _trigger(self, draw: Rng) -> None:
        listings.trigger(self._caller, changes.Decision(skus=[draw.choice(self.checks.skus())]))

    def _revive(self, _draw: Rng) -> None:
        changes.revive(self._caller, changes.Revival(all=True))

    def _publish(self, draw: Rng) -> None:
        sku = draw.choice((*sorted(self.catalog.parts), "N-00", "N-09"))
        publishing.publish(self._caller, publishing.PublishBody(part_numbers=[sku]))

    def _import(self, draw: Rng) -> None:
        """Import a part again, or one that the merchant made by hand."""
        sku, gids = draw.choice((*self.checks.skus(), "M-00", "M-01")), None
        if self.shop.shown(DOMAIN, sku) is None:
            self.catalog.parts.setdefault(sku, replace(self.model, sku=sku))
            ids = self.shop.seed_product(DOMAIN, sku, price=Decimal(draw.choice((10, 200))))
            gids = (Gid(ids.product), Gid(ids.variant), Gid(ids.item))
        self.take_in([_row(1, sku, gids)])

    # -- the shop ----------------------------------------------------------------------------

    def _edit(self, draw: Rng) -> None:
        sku = draw.choice(self.checks.skus())
        view = self.shop.shown(DOMAIN, sku)
        if view is not None:
            price = (view.price * Decimal(draw.choice(("0.8", "1.2", "3")))).quantize(
                Decimal("0.01")
            )
            self.shop.edit_price(DOMAIN, sku, price)
            self.checks.edited.setdefault(sku, set()).add(price)

    def _sell(self, draw: Rng) -> None:
        sku = draw.choice(self.checks.skus())
        view = self.shop.shown(DOMAIN, sku)
        places = sorted(p for p, count in (view.quantities if view else {}).items() if count > 0)
        if places:
            self.shop.sell(DOMAIN, sku, draw.choice(places))

    def _wait(self, draw: Rng) -> None:
        self.clock.sleep(3600 * draw.choice((1, 5, 25)))

    def _round(self, _draw: Rng) -> None:
        self.round()

    @property
    def _caller(self) -> Any:
        return operator(self.app, "ann")


def _row(line: int, sku: str, gids: tuple[Gid, Gid, Gid] | None) -> ImportRow:
    names = ("shopify_product_id", "shopify_variant_id", "shopify_inventory_item_id")
    ids = {} if gids is None else dict(zip(names, gids, strict=True))
    return ImportRow(line=line, sku=Sku(sku), seller=SELLER, **ids)  # type: ignore[arg-type]


def _target(kind: PauseKind, sku: str) -> dict[str, Any]:
    if kind is PauseKind.ALL:
        return {"kind": kind}
    if kind is PauseKind.SELLER:
        return {"kind": kind, "seller": SELLER}
    return {"kind": kind, "seller": SELLER, "skus": [sku]}
