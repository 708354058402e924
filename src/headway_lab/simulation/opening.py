"""How a run begins: its settings, and shops that show every listing as they should."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import SecretStr

from headway.app import App
from headway.app.rules import seller_defaults
from headway.clock import Clock, Rng, fresh_id
from headway.config import Settings
from headway.core.catalog.change_detection import Desired, desire, observe
from headway.core.catalog.listings import Quote, SellerId, Sku
from headway.providers.shopify.storefront import shop_limit_key, store_tokens
from headway.providers.vault import open_vault
from headway.store.accounts.credentials import Credentials
from headway_lab.simulation.evidence import ListingRow, PublishedListing, ScheduleEvidence, ShopRow
from headway_lab.simulation.shops import Shops
from headway_lab.simulation.truth import ReferenceReader
from headway_lab.simulators.boeing import SignIn, SupplierPart
from headway_lab.simulators.shopify.faults import ShopFaultPlan


def simulated(policy: str, data_dir: Path, *, drift_checks: bool) -> Settings:
    """Return the default settings, for a supplier and shops that are not there."""
    access = SignIn()
    return Settings.model_validate(
        {
            "policy": policy,
            "data_dir": data_dir,
            "boeing_url": "http://boeing.invalid",
            "boeing_client_id": access.client_id,
            "boeing_client_secret": SecretStr(access.client_secret),
            "boeing_username": access.username,
            "boeing_password": SecretStr(access.password),
            "shopify_url": "http://shop.invalid/{shop}",
            "drift": "repair" if drift_checks else "off",
        }
    )


def new_shops(
    clock: Clock,
    settings: Settings,
    sellers: Sequence[SellerId],
    *,
    faults: ShopFaultPlan,
    seed: int,
) -> Shops:
    """Make an empty shop for each seller."""
    return Shops(
        clock,
        sellers=sellers,
        places=list(dict.fromkeys(settings.locations.values())),
        currency=settings.currency,
        faults=faults,
        seed=seed,
    )


def open_shops(
    app: App,
    shops: Shops,
    evidence: ScheduleEvidence,
    *,
    reference: ReferenceReader,
    parts: Mapping[Sku, SupplierPart],
    ids: Rng,
) -> None:
    """Connect the shops, and put every listing that has a price on sale.

    The shop shows the reference reader's state, the tables hold the engine's: if they differed, the
    law checks would find out.
    """
    rows = sorted(evidence.all_rows(), key=lambda row: (row.user_id, row.sku))
    published = [_put_on_sale(app, shops, reference, row, parts[row.sku]) for row in rows]
    accounts = [
        ShopRow(id=fresh_id(ids), user_id=seller, shop=setup.domain)
        for seller, setup in shops.setups.items()
    ]
    evidence.open_shops(accounts, filter(None, published), now=app.clock.now())
    vault = open_vault(None, app.settings.data_dir)
    for setup in shops.setups.values():
        limit_key = shop_limit_key(app.settings.shopify_client_id, setup.domain)
        token = setup.access_token
        store_tokens(Credentials(app.pool), vault, limit_key, clock=app.clock, access=token)


def _put_on_sale(
    app: App, shops: Shops, reference: ReferenceReader, row: ListingRow, part: SupplierPart
) -> PublishedListing | None:
    terms = seller_defaults(app.settings).terms
    list_price, net_price = reference.shown_prices(part)
    quote = Quote(
        sku=row.sku,
        list_price=list_price,
        net_price=net_price,
        currency=reference.currency,
        quantities=part.stock,
    )
    desired = desire(observe(quote, terms), terms)
    if not isinstance(desired, Desired):
        return None  # without a price it was never for sale
    ids = shops.stock(row, reference.see(part))
    return PublishedListing(
        user_id=row.user_id,
        sku=row.sku,
        state=desired.as_json(),
        product=ids.product,
        variant=ids.variant,
        item=ids.item,
    )
