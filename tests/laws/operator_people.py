"""What people do in small random worlds: at the supplier, at the page, in the shops."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tests.laws.operator_world import ELSEWHERE, PLACES, OperatorWorld, import_row

from headway.clock import Rng
from headway.core.catalog.listings import SellerId, Sku
from headway.core.pauses import PauseKind
from headway.operations import (
    changes,
    listings,
    part_removal,
    pauses,
    publishing,
    rehearsals,
    terms,
)
from headway.operations.callers import operator

FACTORS = ("0.97", "1.02", "1.1", "0.85", "1.3", "1.7", "0.4", "6", "80")
ODD_PRICES: tuple[tuple[str | None, str | None], ...] = (
    (None, None), ("0", "0"), ("-1", None), ("-3", "50"), ("1000000000000", None), (None, "40"),
    ("0.00001", None), ("0.003", None), ("60", "-2"),
)  # fmt: skip


class PeopledWorld(OperatorWorld):
    """A world in which people act."""

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
        places = [*draw.sample(PLACES, 3), *([ELSEWHERE] if draw.random() < 0.2 else ())]
        stock = {place: draw.choice((0, 0, 1, 5)) for place in places}
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
            self._caller,
            body(skus=[chosen.sku], seller=chosen.seller, versions={chosen.sku: chosen.version}),
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
        seller, sku = self._pick(draw)
        about: dict[str, Any] = {"skus": [Sku(sku)]} if draw.random() < 0.7 else {"since": to}
        shown = changes.rollback(
            self._caller, changes.Rollback(to=to, seller=SellerId(seller), dry_run=True, **about)
        )
        if "skus" in about:
            about["versions"] = {one.sku: one.version for one in shown.listings if one.version}
        else:
            about["version"] = shown.version
        body = changes.Rollback(to=to, seller=SellerId(seller), **about)
        self.checks.let_pass(changes.rollback(self._caller, body).listings)

    def _pause(self, draw: Rng) -> None:
        kind = draw.choice((PauseKind.ALL, PauseKind.SELLER, PauseKind.LISTING))
        key = self._pick(draw)
        until = draw.choice((None, self.clock.now() + timedelta(hours=draw.choice((1, 30)))))
        pauses.pause(self._caller, pauses.PauseBody(until=until, **_target(kind, *key)))

    def _resume(self, _draw: Rng) -> None:
        pauses.resume(self._caller, pauses.ResumeBody(**_target(PauseKind.ALL)))
        for seller in self.domains:
            pauses.resume(self._caller, pauses.ResumeBody(**_target(PauseKind.SELLER, seller)))
        for key in self.checks.listed():
            pauses.resume(self._caller, pauses.ResumeBody(**_target(PauseKind.LISTING, *key)))

    def _change_terms(self, draw: Rng) -> None:
        body = terms.TermsBody(
            price_basis=draw.choice((None, "list", "net")),
            markup=draw.choice((None, Decimal("0.1"), Decimal("0.15"), Decimal("0.9"))),
            rounding=draw.choice((None, "cent", "99", "whole")),
        )
        terms.set_terms(self._caller, SellerId(draw.choice(sorted(self.domains))), body)

    def _trigger(self, draw: Rng) -> None:
        seller, sku = self._pick(draw)
        body = listings.TriggerBody(skus=[Sku(sku)], seller=SellerId(seller))
        listings.trigger(self._caller, body)

    def _remove(self, draw: Rng) -> None:
        seller, sku = self._pick(draw)
        body = part_removal.RemovalOfParts(
            skus=[Sku(sku)], seller=SellerId(seller), in_shop=draw.choice(("draft", "keep"))
        )
        done = part_removal.remove(self._caller, body).done
        if done:
            self.checks.was_removed((seller, sku), in_call=self.is_in_call)

    def _revive(self, _draw: Rng) -> None:
        changes.revive(self._caller, changes.Revival(all=True))

    def _revive_one(self, draw: Rng) -> None:
        """Bring one back that was removed, or try to."""
        gone = sorted(self.checks.removed)
        seller, sku = draw.choice(gone) if gone else self._pick(draw)
        body = changes.Revival(skus=[Sku(sku)], seller=SellerId(seller))
        if changes.revive(self._caller, body).done:
            self.checks.removed.pop((seller, sku), None)

    def _publish(self, draw: Rng) -> None:
        sku = draw.choice((*sorted(self.catalog.parts), "N-00", "N-09"))
        seller = SellerId(draw.choice(sorted(self.domains)))
        publishing.publish(
            self._caller, publishing.PublishBody(part_numbers=[Sku(sku)], seller=seller)
        )

    def _publish_many(self, draw: Rng) -> None:
        """Ask for many parts at once, some of which the shop has already."""
        seller, skus = draw.choice(sorted(self.domains)), [f"B-{n:02}" for n in range(24)]
        for sku in skus:
            self.catalog.parts.setdefault(sku, replace(self.model, sku=sku))
            if draw.random() < 0.9 and self.shop.shown(self.domains[seller], sku) is None:
                factor = Decimal(draw.choice(("1.3", "0.9")))
                self.put_in_shop(draw, seller, sku, (self.model.list_price or 20) * factor)
        numbers = [Sku(sku) for sku in skus]
        body = publishing.PublishBody(part_numbers=numbers, seller=SellerId(seller))
        publishing.publish(self._caller, body)

    def _import(self, draw: Rng) -> None:
        """Import a part again, or one that the merchant made by hand."""
        seller = draw.choice(sorted(self.domains))
        own = [sku for name, sku in self.checks.listed() if name == seller]
        sku, gids = draw.choice((*own, "M-00", "M-01")), None
        if self.shop.shown(self.domains[seller], sku) is None:
            self.catalog.parts.setdefault(sku, replace(self.model, sku=sku))
            gids = self.put_in_shop(draw, seller, sku, Decimal(draw.choice((10, 200))))
        self.take_in([import_row(1, seller, sku, gids)])

    def _start(self, draw: Rng) -> None:
        """Read the report of a shop in rehearsal and start it, if nothing is in the way."""
        if not self.in_rehearsal:
            return
        seller = draw.choice(sorted(self.in_rehearsal))
        report = rehearsals.rehearsal(self._caller, seller, limit=100_000)
        if draw.random() < 0.3 and not self.is_in_call:
            self._requote(draw)
            self.round()
        rehearsals.start(self._caller, seller, rehearsals.StartBody(version=report.version))
        self.checks.started(seller, report.items)

    # -- the shop ----------------------------------------------------------------------------

    def _edit(self, draw: Rng) -> None:
        seller, sku = self._pick(draw)
        view = self.shop.shown(self.domains[seller], sku)
        if view is not None:
            price = (view.price * Decimal(draw.choice(("0.8", "1.2", "3")))).quantize(
                Decimal("0.01")
            )
            self.shop.edit_price(self.domains[seller], sku, price)
            if (seller, sku) not in self.checks.removed:
                self.checks.edited.setdefault((seller, sku), set()).add(price)

    def _sell(self, draw: Rng) -> None:
        seller, sku = self._pick(draw)
        view = self.shop.shown(self.domains[seller], sku)
        places = sorted(p for p, count in (view.quantities if view else {}).items() if count > 0)
        if places:
            self.shop.sell(self.domains[seller], sku, draw.choice(places))

    def _wait(self, draw: Rng) -> None:
        self.clock.sleep(3600 * draw.choice((1, 5, 25)))

    def _round(self, _draw: Rng) -> None:
        self.round()

    @property
    def _caller(self) -> Any:
        return operator(self.app, "ann")

    def _pick(self, draw: Rng) -> tuple[str, str]:
        """Draw a listed part of a seller."""
        return draw.choice(self.checks.listed())


def _target(kind: PauseKind, seller: str = "", sku: str = "") -> dict[str, Any]:
    if kind is PauseKind.ALL:
        return {"kind": kind}
    if kind is PauseKind.SELLER:
        return {"kind": kind, "seller": SellerId(seller)}
    return {"kind": kind, "seller": SellerId(seller), "skus": [Sku(sku)]}
