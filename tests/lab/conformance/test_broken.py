"""Each check of the suite notices the fault that it is for, and no other check complains."""

from pathlib import Path

import pytest
from tests.lab.conformance.broken_providers import VARIANTS, Variant

from headway_lab.conformance import (
    Check,
    PlatformWorld,
    StorefrontWorld,
    checks_of,
)


def checks_for(variant: Variant) -> tuple[Check, ...]:
    """Return the checks of the role that the variant plays."""
    if issubclass(variant.world, PlatformWorld):
        return checks_of("platform")
    return checks_of("storefront" if issubclass(variant.world, StorefrontWorld) else "supplier")


def failures(variant: Variant, folder: Path) -> dict[str, Exception]:
    """Run all checks of a role; return those that fail."""
    errors = {}
    for number, check in enumerate(checks_for(variant)):
        try:
            check(variant.make_world(folder / str(number)))
        except Exception as error:  # noqa: BLE001 - whichever way a check fails
            errors[check.__name__] = error
    return errors


@pytest.mark.parametrize("name", VARIANTS)
def test_a_broken_provider_fails_exactly_the_check_for_its_fault(name: str, tmp_path: Path) -> None:
    variant = VARIANTS[name]
    errors = failures(variant, tmp_path)
    assert set(errors) == {variant.fails, *variant.fails_too}, errors
    assert all(str(error) for error in errors.values())


def test_every_check_has_a_provider_that_fails_it() -> None:
    checks = {
        check.__name__
        for role in ("platform", "supplier", "storefront")
        for check in checks_of(role)
    }
    assert {variant.fails for variant in VARIANTS.values()} == checks
