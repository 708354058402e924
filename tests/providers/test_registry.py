"""Every provider is one record; plug-ins join them, and a broken one stops nobody."""

from importlib.metadata import EntryPoint

import pytest

from headway.config import Settings
from headway.errors import ConfigError
from headway.providers import registry
from headway.providers.provider import Provider, ProviderRole
from headway.providers.registry import BUILT_IN, GROUP, load
from headway_lab.platforms import PLATFORMS

SPARE = Provider(name="spare", title="Spare", supplier=BUILT_IN["boeing"].supplier)
IDLE = Provider(name="idle", title="Idle")
TAKEN = Provider(name="etsy", title="Another Etsy", platform=BUILT_IN["etsy"].platform)
NO_RECORD = "a text"


def plugin(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=f"{__name__}:{value}", group=GROUP)


def reason(name: str, value: str) -> str:
    (broken,) = load([plugin(name, value)]).broken
    assert broken.name == name
    return broken.reason


def test_every_platform_and_the_main_roles_have_a_record() -> None:
    for platform in PLATFORMS:
        assert registry.platform_role(platform).kinds
    provider, _ = registry.main_supplier()
    assert provider.roles == (ProviderRole.SUPPLIER,)
    storefront, _ = registry.main_storefront()
    assert storefront.roles == (ProviderRole.STOREFRONT, ProviderRole.PLATFORM)


def test_display_names_of_shared_limits_begin_with_the_provider() -> None:
    settings = Settings()
    for name, provider in BUILT_IN.items():
        assert provider.name == name
        assert all(limit.split(":")[0] == name for limit in provider.limits(settings))


def test_a_plugin_joins_the_built_in_providers() -> None:
    registry = load([plugin("spare", "SPARE")])
    assert registry.broken == ()
    assert list(registry.providers) == [*BUILT_IN, "spare"]
    assert registry.providers["spare"].provider is SPARE
    assert registry.providers["boeing"].source == "built in"


def test_a_broken_plugin_is_listed_with_its_reason_and_the_others_work() -> None:
    missing = EntryPoint(name="gone", value="no_such_module:X", group=GROUP)
    registry = load([missing, plugin("spare", "SPARE")])
    assert "spare" in registry.providers
    (broken,) = registry.broken
    assert broken.name == "gone"
    assert "No module named 'no_such_module'" in broken.reason


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    (
        ("etsy", "TAKEN", "another provider is called etsy (built in)"),
        ("idle", "IDLE", "plays no role"),
        ("other", "SPARE", "its record is called spare"),
        ("text", "NO_RECORD", "is not a headway.providers.provider.Provider"),
        ("nothing", "NOTHING", "AttributeError"),
    ),
)
def test_a_record_that_does_not_fit_is_refused(name: str, value: str, expected: str) -> None:
    assert expected in reason(name, value)


def test_two_plugins_of_one_name_are_refused_with_the_reason() -> None:
    registry = load([plugin("spare", "SPARE"), plugin("spare", "SPARE")])
    assert "another provider is called spare" in registry.broken[0].reason


def test_an_unknown_provider_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="there is no provider nobody; see: headway providers"):
        registry.find("nobody")
    with pytest.raises(ConfigError, match="etsy is not a supplier"):
        registry.supplier_role("etsy")
    with pytest.raises(ConfigError, match="boeing is not a platform"):
        registry.platform_role("boeing")
