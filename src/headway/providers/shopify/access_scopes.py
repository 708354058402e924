"""The access scopes that Headway needs in a Shopify shop; the only list of them."""

import re
from collections.abc import Collection, Iterable, Sequence

from headway.providers.access_scopes import AccessScope

SCOPES = (
    AccessScope(name="read_products", purpose="find parts by SKU and read listings"),
    AccessScope(name="write_products", purpose="write prices, costs and status; create products"),
    AccessScope(name="read_inventory", purpose="read stock at each location"),
    AccessScope(name="write_inventory", purpose="write stock at each location"),
    AccessScope(name="read_locations", purpose="read the names of the locations"),
    AccessScope(name="read_publications", purpose="see on which sales channels a product is"),
    AccessScope(name="write_publications", purpose="put products on sales channels"),
    AccessScope(
        name="read_orders", purpose="read orders with their lines, shipments, refunds and payments"
    ),
    AccessScope(name="read_customers", purpose="read customers, and who placed an order"),
)
# Without it orders are visible for 60 days. Shopify grants it on request only.
ALL_ORDERS = AccessScope(name="read_all_orders", purpose="read orders older than 60 days")
PURPOSES = {scope.name: scope.purpose for scope in (*SCOPES, ALL_ORDERS)}
NAME = re.compile(r"\b(?:read|write)_[a-z_]+")
DASHBOARD = "https://dev.shopify.com/dashboard"
# The steps that fix a missing scope, in a shop that the reader knows.
GRANT = (
    f"add them to the app's scopes in the Dev Dashboard ({DASHBOARD}; a new version, which the"
    " shop's owner approves) or, for an app made in the shop's admin, in its Settings > Apps; then"
    " connect the shop again. For a public app, send the owner the link of"
    " `headway connect SHOP --link`"
)


def scope_names(setting: str) -> tuple[str, ...]:
    """Return the scopes to ask for: those of HEADWAY_SHOPIFY_SCOPES, else all we need."""
    names = tuple(name for part in setting.split(",") if (name := part.strip()))
    return names or tuple(scope.name for scope in SCOPES)


def missing_scopes(setting: str, granted: Collection[str]) -> Sequence[AccessScope]:
    """Return the scopes that we ask for and did not get; writing includes reading."""
    has = {*granted, *(name.replace("write_", "read_", 1) for name in granted)}
    return named_scopes(name for name in scope_names(setting) if name not in has)


def grant_advice(shop: str, seller: str, *, has_public_app: bool) -> str:
    """Return the steps that fix missing scopes in this shop, with their links and commands."""
    connect = f"headway connect {shop} --seller {seller}"
    own = (
        f"add them to the app's scopes in the Dev Dashboard ({DASHBOARD}; a new version, which the"
        f" shop's owner approves) or, for an app made in the shop's admin, at"
        f" https://{shop}/admin/settings/apps/development; then run: {connect}"
    )
    if not has_public_app:
        return own
    return f"for a public app, send the shop's owner the link of: {connect} --link. Else {own}"


def named_scopes(names: Iterable[str]) -> tuple[AccessScope, ...]:
    """Return the scopes of these names, each once."""
    return tuple(
        AccessScope(name=name, purpose=PURPOSES.get(name, "asked for by HEADWAY_SHOPIFY_SCOPES"))
        for name in dict.fromkeys(names)
    )


def denied_scopes(message: str) -> tuple[AccessScope, ...]:
    """Return the scopes that a shop's error message names."""
    return named_scopes(NAME.findall(message))
