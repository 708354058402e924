"""The built-in providers pass the suite that every provider must pass."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.lab.conformance import worlds

from headway.providers.registry import BUILT_IN
from headway_lab.conformance import Check, ProviderWorld, checks_of

WORLDS: dict[tuple[str, str], Callable[[Path], ProviderWorld]] = {
    ("boeing", "supplier"): worlds.BoeingWorld,
    ("feed", "supplier"): worlds.FeedWorld,
    ("shopify", "storefront"): worlds.ShopifyStorefrontWorld,
    ("shopify", "platform"): worlds.ShopifyWorld,
    ("etsy", "platform"): worlds.EtsyWorld,
    ("printify", "platform"): worlds.PrintifyWorld,
}
CASES = [
    pytest.param(name, role, check, id=f"{name}-{role}-{check.__name__}")
    for name, role in WORLDS
    for check in checks_of(role)
]


def test_every_role_of_every_built_in_provider_has_a_world() -> None:
    roles = {(name, role.value) for name, provider in BUILT_IN.items() for role in provider.roles}
    assert roles == set(WORLDS)


@pytest.mark.parametrize(("name", "role", "check"), CASES)
def test_a_built_in_provider_conforms(name: str, role: str, check: Check, tmp_path: Path) -> None:
    check(WORLDS[name, role](tmp_path))
