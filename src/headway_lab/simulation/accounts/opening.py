"""The start of a run: its settings, and Etsy's daily quota compared with its sellers' demand."""

from collections.abc import Iterable
from math import ceil
from pathlib import Path

from pydantic import SecretStr

from headway.config import Settings
from headway.core.accounts.jobs import DataKind, PlatformName
from headway_lab.platforms import ETSY, PRINTIFY, SHOPIFY
from headway_lab.simulation.accounts.world import DAY_S, HOUR_S, ShopPlan, interval_s
from headway_lab.simulators.etsy.simulator import EtsyApp
from headway_lab.simulators.shopify.apps import AppSecret

# The assumed daily quota of Etsy until its first reply says otherwise.
BELIEVED = 1.5
ROWS_PER_CALL = 100
# Five states, and the first of them twice.
LISTING_CALLS = 6
REWALK_DAYS = 45
HOOK_SECRETS = {
    ETSY: "whsec_c2ltLWhvb2stc2VjcmV0",
    PRINTIFY: "sim-hook-secret",
}


def etsy_demand(shops: Iterable[ShopPlan]) -> float:
    """Return how many calls a day the sellers of Etsy would take, were there no limit."""
    return sum(calls_per_day(shop) for shop in shops if shop.platform == ETSY)


def calls_per_day(shop: ShopPlan) -> float:
    """Return how many calls a day the jobs of a shop on Etsy need at their intervals."""
    orders = shop.orders_per_day * min(REWALK_DAYS, shop.history_days)
    listing_calls = LISTING_CALLS + shop.listings // ROWS_PER_CALL
    return (
        DAY_S / interval_s(shop.tier, DataKind.ORDERS)
        + ceil(orders / ROWS_PER_CALL)
        + listing_calls * DAY_S / interval_s(shop.tier, DataKind.LISTINGS)
        + DAY_S / interval_s(shop.tier, DataKind.PAYMENTS)
        # An access token lasts an hour.
        + DAY_S / HOUR_S
    )


def host(platform: PlatformName) -> str:
    """Return where a platform is not."""
    return f"{platform}.invalid"


def account_settings(data_dir: Path, *, etsy_limit: int) -> Settings:
    """Return the default settings, for platforms that are not there and a limit that is wrong."""
    app, shopify = EtsyApp(), AppSecret()
    return Settings.model_validate(
        {
            "data_dir": data_dir,
            "boeing_client_id": "none",
            "shopify_url": f"http://{host(SHOPIFY)}/{{shop}}",
            "shopify_client_id": shopify.client_id,
            "shopify_client_secret": SecretStr(shopify.client_secret),
            "etsy_url": f"http://{host(ETSY)}",
            "etsy_keystring": app.keystring,
            "etsy_shared_secret": SecretStr(app.shared_secret),
            "etsy_webhook_secret": SecretStr(HOOK_SECRETS[ETSY]),
            "etsy_day_limit": round(etsy_limit * BELIEVED),
            "printify_url": f"http://{host(PRINTIFY)}",
            "printify_webhook_secret": SecretStr(HOOK_SECRETS[PRINTIFY]),
        }
    )
