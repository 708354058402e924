"""What customers see of the simulated shops: a page per shop, on which visible products are bought.

Only a product that is active and published on the online store is on it.
"""

import re
from collections.abc import Mapping
from html import escape
from urllib.parse import parse_qs

from headway_lab.simulators.reply import SimReply
from headway_lab.simulators.shopify.shop import ONLINE_STORE, ShopScreen, SimulatedShop
from headway_lab.simulators.shopify.simulator import ShopifySimulator

PATH = re.compile(r"/(?P<shop>[^/]+\.[^/]+)/(?P<action>products|buy|unpublish)")
PAGE = """<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{shop}</title>
<style>body{{font:16px sans-serif;margin:2rem}}td,th{{padding:.2rem .8rem;text-align:left}}</style>
<h1>{shop}</h1><p>A simulated shop. {note}</p>
<table><tr><th>Part</th><th>Price</th><th>In stock</th><th>Customer</th><th>Merchant</th></tr>
{rows}</table></html>"""
ROW = """<tr><td>{sku}</td><td>{price} {currency}</td><td>{stock}</td>
<td>{buy}</td><td>{unpublish}</td></tr>"""
BUTTON = """<form method="post" action="{action}"><input type="hidden" name="sku" value="{sku}">
<button>{text}</button></form>"""


class NotOnSaleError(Exception):
    """A customer cannot buy this: it is not visible, or sold out."""


class ShopWindow:
    """The public side of the simulated shops."""

    def __init__(self, simulator: ShopifySimulator) -> None:
        self._simulator = simulator

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        """Answer a customer's request, or pass a request to the API on."""
        match = PATH.fullmatch(path)
        if match is None:
            return self._simulator.handle(method, path, headers, body)
        sku, note = "".join(parse_qs(body.decode()).get("sku", ())), ""
        if method == "POST":
            note = self._act(match["action"], match["shop"], sku)
        page = self._page(match["shop"], note).encode()
        return SimReply(headers={"Content-Type": "text/html; charset=utf-8"}, body=page)

    def on_sale(self, domain: str) -> list[ShopScreen]:
        """Return the products that customers see, by SKU."""
        shop = self._simulator.shop(domain)
        screens = [shop.shown(variant.sku) for variant in list(shop.variants.values())]
        visible = [screen for screen in screens if screen and ONLINE_STORE in screen.channels]
        return sorted(visible, key=lambda screen: screen.sku)

    def buy(self, domain: str, sku: str) -> str:
        """Buy one piece and return the order's number; raises NotOnSaleError."""
        shop = self._simulator.shop(domain)
        screen = shop.shown(sku)
        if screen is None or ONLINE_STORE not in screen.channels:
            raise NotOnSaleError(f"{sku} is not on sale in {domain}")
        place = self._place(shop, screen)
        if screen.tracked:
            self._simulator.sell(domain, sku, place)
        return self._simulator.place_order(domain, [(sku, 1)])

    def _place(self, shop: SimulatedShop, screen: ShopScreen) -> str:
        """Return where the piece is taken from."""
        stocked = [name for name, quantity in screen.quantities.items() if quantity > 0]
        if not stocked and not shop.by_sku(screen.sku)[0].sells_at_zero:
            raise NotOnSaleError(f"{screen.sku} is sold out in {shop.setup.domain}")
        return next(iter([*stocked, *screen.quantities]), shop.setup.locations[0])

    def _act(self, action: str, domain: str, sku: str) -> str:
        if action == "unpublish":
            self._simulator.shop(domain).edit_channels(sku, ())
            return f"The merchant took {sku} off all channels."
        try:
            return f"Bought one {sku}: order {self.buy(domain, sku)}."
        except NotOnSaleError as error:
            return f"{error}."

    def _page(self, domain: str, note: str) -> str:
        currency = self._simulator.shop(domain).setup.currency
        rows = [
            ROW.format(
                sku=escape(screen.sku),
                price=screen.price,
                currency=currency,
                stock=sum(screen.quantities.values()),
                buy=_button("buy", screen.sku, "Buy"),
                unpublish=_button("unpublish", screen.sku, "Unpublish"),
            )
            for screen in self.on_sale(domain)
        ]
        return PAGE.format(shop=escape(domain), note=escape(note), rows="\n".join(rows))


def _button(action: str, sku: str, text: str) -> str:
    return BUTTON.format(action=action, sku=escape(sku), text=text)
