"""What customers see of the simulated shops: a page per shop, on which visible products are bought.

Only a product that is active and published on the online store is for sale. The merchant's button
beside each takes it off all sales channels, as a person would in the admin.
"""

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from html import escape
from http import HTTPStatus
from urllib.parse import parse_qs

from headway_lab.simulators.reply import SimReply
from headway_lab.simulators.shopify.shop import ONLINE_STORE, ShopScreen, SimulatedShop
from headway_lab.simulators.shopify.simulator import ShopifySimulator

PATH = re.compile(r"/(?P<shop>[^/]+\.[^/]+?)(?:/(?P<action>products|buy|unpublish)?)?")
NOTES_KEPT = 4
STYLE = """
:root{color-scheme:light dark;--line:#8883;--quiet:#8c8c8c;--accent:#1a52e5}
@media (prefers-color-scheme:dark){:root{--accent:#8aa4ff}}
body{font:16px/1.4 system-ui,sans-serif;max-width:60rem;margin:1.5rem auto;padding:0 1rem}
h1{font-size:1.4rem;margin:0 0 .3rem}h2{font-size:1rem;margin:1.5rem 0 .3rem}
nav{display:flex;flex-wrap:wrap;gap:0 1rem;margin-bottom:1rem}a{color:var(--accent)}
.quiet{opacity:.75;font-size:.9rem}
ul{list-style:none;margin:0;padding:0}
li{display:flex;flex-wrap:wrap;gap:.3rem 1rem;align-items:center;padding:.5rem 0;
border-top:1px solid var(--line)}
li b{flex:1 1 12rem;overflow-wrap:anywhere}li span{flex:0 1 9rem;text-align:right}
form{margin:0}button{font:inherit;padding:.2rem .8rem;border:1px solid var(--line);
border-radius:.4rem;cursor:pointer}button[disabled]{cursor:default;opacity:.5}
.buy{background:var(--accent);color:Canvas}
@media (max-width:32rem){li b{flex-basis:100%}li span{flex:1 1 40%;text-align:left}}
.note{padding:.6rem .8rem;border:1px solid var(--accent);border-radius:.4rem}
"""
# The page follows the shop, unless somebody is at a button with the keyboard.
SCRIPT = """
setInterval(async () => {
  if (document.activeElement.form) return;
  const text = await (await fetch("products")).text();
  const main = new DOMParser().parseFromString(text, "text/html").querySelector("main");
  document.querySelector("main").replaceWith(main);
}, 2000);
"""
PAGE = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<title>{title}</title><style>{style}</style></head>
<body><nav class="quiet" aria-label="Shops">{shops}</nav><main>{main}</main>
<script>{script}</script></body></html>"""
SHOP = """<h1>{shop}</h1>
<p class="quiet">A simulated shop, as its customers see it. Buy a part, and its stock falls.
Unpublish one, and Headway's next drift check publishes it again, if it writes to this shop.</p>
{notes}
{hidden}<h2>For sale: {count:,}</h2><ul>{rows}</ul>"""
HIDDEN = """<h2>Not for sale: {count:,}</h2><ul>{rows}</ul>"""
ROW = "<li><b>{sku}</b><span>{price} {currency}</span><span>{stock}</span>{acts}</li>"
HIDDEN_ROW = "<li><b>{sku}</b><span>{why}</span></li>"
BUTTON = """<form method="post" action="{action}"><input type="hidden" name="sku" value="{sku}">
<button class="{action}" aria-label="{text} {sku}"{off}>{text}</button></form>"""


class NotOnSaleError(Exception):
    """A customer cannot buy this: it is not visible, or sold out."""


class ShopWindow:
    """The public side of the simulated shops; `domains` are those that its pages link."""

    def __init__(self, simulator: ShopifySimulator, domains: Iterable[str] = ()) -> None:
        self._simulator = simulator
        self._domains = tuple(domains)
        self._notes: defaultdict[str, deque[str]] = defaultdict(lambda: deque(maxlen=NOTES_KEPT))

    def handle(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> SimReply:
        """Answer a customer's request, or pass a request to the API on."""
        match = PATH.fullmatch(path)
        if match is None:
            return self._simulator.handle(method, path, headers, body)
        shop, action = match["shop"], match["action"]
        try:
            self._simulator.shop(shop)
        except KeyError:
            return SimReply(status=HTTPStatus.NOT_FOUND, body=b"There is no such shop here.\n")
        if method == "POST" and action in {"buy", "unpublish"}:
            sku = "".join(parse_qs(body.decode()).get("sku", ()))
            self._notes[shop].appendleft(self._act(action, shop, sku))
        if action != "products":
            # After a button too: reloading the page then buys nothing.
            address = {"Location": f"/{shop}/products"}
            return SimReply(status=HTTPStatus.SEE_OTHER, headers=address)
        html = {"Content-Type": "text/html; charset=utf-8"}
        return SimReply(headers=html, body=self._page(shop).encode())

    def on_sale(self, domain: str) -> list[ShopScreen]:
        """Return the products that customers see, by SKU."""
        return [screen for screen in self._screens(domain) if ONLINE_STORE in screen.channels]

    def buy(self, domain: str, sku: str) -> str:
        """Buy one piece and return the order's number; raises NotOnSaleError."""
        shop = self._simulator.shop(domain)
        screen = shop.shown(sku)
        if screen is None or ONLINE_STORE not in screen.channels:
            raise NotOnSaleError(f"{sku} is not on sale in {domain}")
        if not _can_sell(shop, screen):
            raise NotOnSaleError(f"{sku} is sold out in {domain}")
        if screen.tracked:
            self._simulator.sell(domain, sku, _place(shop, screen))
        return self._simulator.place_order(domain, [(sku, 1)])

    def _screens(self, domain: str) -> list[ShopScreen]:
        shop = self._simulator.shop(domain)
        skus = sorted({variant.sku for variant in list(shop.variants.values())})
        return [screen for sku in skus if (screen := shop.shown(sku))]

    def _act(self, action: str, domain: str, sku: str) -> str:
        if self._simulator.shown(domain, sku) is None:
            return f"{domain} has no product with the SKU {sku!r}."
        if action == "unpublish":
            self._simulator.shop(domain).edit_channels(sku, ())
            return f"You unpublished {sku}: customers no longer see it."
        try:
            return f"You bought one {sku}: order {self.buy(domain, sku)}."
        except NotOnSaleError as error:
            return f"{error}."

    def _page(self, domain: str) -> str:
        shop = self._simulator.shop(domain)
        rows = [_row(shop, screen) for screen in self.on_sale(domain)]
        hidden = [
            HIDDEN_ROW.format(sku=escape(screen.sku), why=_why_hidden(screen))
            for screen in self._screens(domain)
            if ONLINE_STORE not in screen.channels
        ]
        notes = "<br>".join(map(escape, self._notes[domain]))
        main = SHOP.format(
            shop=escape(domain),
            notes=f'<p class="note" role="status">{notes}</p>' if notes else "",
            count=len(rows),
            rows="\n".join(rows),
            hidden=HIDDEN.format(count=len(hidden), rows="\n".join(hidden)) if hidden else "",
        )
        shops = "".join(f'<a href="/{escape(own)}/products">{own}</a>' for own in self._domains)
        title = escape(domain)
        return PAGE.format(title=title, style=STYLE, shops=shops, main=main, script=SCRIPT)


def _can_sell(shop: SimulatedShop, screen: ShopScreen) -> bool:
    has_stock = any(quantity > 0 for quantity in screen.quantities.values())
    return has_stock or shop.by_sku(screen.sku)[0].sells_at_zero


def _place(shop: SimulatedShop, screen: ShopScreen) -> str:
    """Return where a piece is taken from."""
    stocked = [name for name, quantity in screen.quantities.items() if quantity > 0]
    return next(iter([*stocked, *screen.quantities]), shop.setup.locations[0])


def _row(shop: SimulatedShop, screen: ShopScreen) -> str:
    stock, can_sell = sum(screen.quantities.values()), _can_sell(shop, screen)
    return ROW.format(
        sku=escape(screen.sku),
        price=f"{screen.price:,}",
        currency=shop.setup.currency,
        stock=f"{stock:,} in stock" if stock or can_sell else "sold out",
        acts=_button("buy", screen.sku, "Buy", is_on=can_sell)
        + _button("unpublish", screen.sku, "Unpublish"),
    )


def _why_hidden(screen: ShopScreen) -> str:
    return "unpublished" if screen.status == "ACTIVE" else screen.status.lower()


def _button(action: str, sku: str, text: str, *, is_on: bool = True) -> str:
    off = "" if is_on else " disabled"
    return BUTTON.format(action=action, sku=escape(sku), text=text, off=off)
