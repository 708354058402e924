"""The test suite that every provider must pass, for each role it plays.

Give it a world: the provider's record, and a simulator of the other side. `SupplierWorld`,
`StorefrontWorld` and `PlatformWorld` name what a world provides. Run each check with a new one:

    @pytest.mark.parametrize("check", checks_of("platform"), ids=lambda check: check.__name__)
    def test_acme_conforms(check: Check) -> None:
        check(AcmeWorld())

A check that fails names what the provider lacks. `examples/headway-example-platform` is complete.
"""

from collections.abc import Callable
from inspect import isfunction
from typing import Any

from headway_lab.conformance import any_role, platform, storefront, supplier
from headway_lab.conformance.transport import FaultyTransport
from headway_lab.conformance.world import (
    START,
    PlatformWorld,
    ProviderWorld,
    Rows,
    StorefrontWorld,
    SupplierWorld,
)

__all__ = [
    "START",
    "Check",
    "FaultyTransport",
    "PlatformWorld",
    "ProviderWorld",
    "Rows",
    "StorefrontWorld",
    "SupplierWorld",
    "checks_of",
]

Check = Callable[[Any], None]
BY_ROLE = {"supplier": supplier, "storefront": storefront, "platform": platform}


def checks_of(role: str) -> tuple[Check, ...]:
    """Return the checks that a provider must pass in this role: the module's public functions."""
    return tuple(
        function
        for module in (any_role, BY_ROLE[role])
        for name, function in vars(module).items()
        if isfunction(function) and function.__module__ == module.__name__ and name[0] != "_"
    )
