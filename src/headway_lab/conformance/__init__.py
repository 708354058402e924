"""The test suite that every provider must pass, for each role it plays.

A test module gives the suite a world: the provider's record, a simulator, and how rows stand in a
reply. `checks_of` returns the checks of a role; run each by pytest with a fresh world:

    from headway_lab.conformance import Check, checks_of

    @pytest.mark.parametrize("check", checks_of("platform"))
    def test_my_platform_conforms(check: Check) -> None:
        check(make_world())

`PlatformWorld`, `SupplierWorld` and `StorefrontWorld` say what a world must provide.
"""

from collections.abc import Callable
from typing import Any

from headway_lab.conformance import any_role, platform, supplier
from headway_lab.conformance.world import (
    FaultyTransport,
    MemoryTokenStore,
    PlatformWorld,
    ProviderWorld,
    StorefrontWorld,
    SupplierWorld,
    open_context,
)

__all__ = [
    "Check",
    "FaultyTransport",
    "MemoryTokenStore",
    "PlatformWorld",
    "ProviderWorld",
    "StorefrontWorld",
    "SupplierWorld",
    "checks_of",
    "open_context",
]

Check = Callable[[Any], None]
BY_ROLE: dict[str, tuple[Check, ...]] = {
    "supplier": (*any_role.CHECKS, *supplier.CHECKS),
    "storefront": any_role.CHECKS,
    "platform": (*any_role.CHECKS, *platform.CHECKS),
}


def checks_of(role: str) -> tuple[Check, ...]:
    """Return the checks that a provider must pass in this role."""
    return BY_ROLE[role]
