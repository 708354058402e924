"""The names of the built-in platforms, for simulations and tests."""

from headway.core.accounts.jobs import PlatformName
from headway.providers.registry import platform_role

SHOPIFY, ETSY, PRINTIFY = PlatformName("shopify"), PlatformName("etsy"), PlatformName("printify")
PLATFORMS = (SHOPIFY, ETSY, PRINTIFY)
KINDS = {platform: platform_role(platform).kinds for platform in PLATFORMS}
