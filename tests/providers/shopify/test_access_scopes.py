"""There is one list of access scopes; documentation and messages follow it."""

import re
from pathlib import Path

import pytest

from headway.providers.shopify.access_scopes import (
    ALL_ORDERS,
    SCOPES,
    denied_scopes,
    missing_scopes,
    scope_names,
)

ROOT = Path(__file__).parents[3]
NAMES = [scope.name for scope in SCOPES]
SCOPE_NAME = re.compile(r"`((?:read|write)_[a-z_]+)`")


def test_the_guide_has_every_scope_with_its_purpose() -> None:
    page = (ROOT / "docs/how-to/connect-a-shop.md").read_text(encoding="utf-8")
    for scope in SCOPES:
        assert f"| `{scope.name}` | {scope.purpose} |" in page
    assert set(SCOPE_NAME.findall(page)) == {*NAMES, ALL_ORDERS.name}


@pytest.mark.parametrize(
    ("setting", "granted", "missing"),
    (
        ("", NAMES, []),
        ("", [name for name in NAMES if name != "read_orders"], ["read_orders"]),
        ("", [name for name in NAMES if name != "read_products"], []),
        ("read_products, read_all_orders", ["read_products"], ["read_all_orders"]),
        ("", [], NAMES),
    ),
)
def test_missing_scopes_are_those_asked_for_and_not_granted(
    setting: str, granted: list[str], missing: list[str]
) -> None:
    assert [scope.name for scope in missing_scopes(setting, granted)] == missing


def test_without_a_setting_all_scopes_are_asked_for() -> None:
    assert scope_names("") == tuple(NAMES)
    assert scope_names("read_products, read_orders,") == ("read_products", "read_orders")


def test_a_denial_names_its_scope_and_what_it_is_for() -> None:
    message = "Access denied for orders field. Required access: `read_orders` access scope."
    [scope] = denied_scopes(message)
    assert (scope.name, scope.purpose) == (SCOPES[7].name, SCOPES[7].purpose)
