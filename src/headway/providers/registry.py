"""All providers: those in this package, and those of installed plug-ins.

A plug-in is a package with an entry point in the group `headway.providers` that names a `Provider`.
A plug-in that cannot be loaded is listed as broken with the reason; the others keep working.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from headway import __version__
from headway.core.accounts.jobs import PLATFORM_PATTERN, PlatformName
from headway.errors import ConfigError, InvalidError
from headway.providers.boeing.provider import BOEING
from headway.providers.etsy.provider import ETSY
from headway.providers.feed.provider import FEED
from headway.providers.printify.provider import PRINTIFY
from headway.providers.provider import PlatformRole, Provider, StorefrontRole, SupplierRole
from headway.providers.shopify.provider import SHOPIFY

GROUP = "headway.providers"
OURS = "built in"
BUILT_IN: Mapping[str, Provider] = {
    provider.name: provider for provider in (BOEING, FEED, SHOPIFY, ETSY, PRINTIFY)
}
BUILT_IN_PLATFORMS = tuple(name for name, provider in BUILT_IN.items() if provider.platform)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredProvider:
    """A provider that works, its version, and where it comes from."""

    provider: Provider
    version: str
    source: str = OURS


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPlugin:
    """A plug-in that cannot be used, and why."""

    name: str
    """The plug-in's name. Example: `acme`"""
    version: str
    """The version of its package. Example: `0.1.0`"""
    source: str
    """The package it comes from. Example: `acme-headway`"""
    reason: str
    """Why it cannot be loaded. Example: `No module named 'acme_client'`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """Every provider by name, and the plug-ins that cannot be used."""

    providers: Mapping[str, RegisteredProvider]
    broken: tuple[BrokenPlugin, ...] = ()


def find(name: str) -> Provider:
    """Return the provider of this name; raises ConfigError."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    registry = installed()
    if name in registry.providers:
        return registry.providers[name].provider
    for plugin in registry.broken:
        if plugin.name == name:
            raise ConfigError(f"the provider {name} of {plugin.source} is broken: {plugin.reason}")
    raise ConfigError(f"there is no provider {name}; see: headway providers")


def supplier_role(name: str) -> SupplierRole:
    """Return how the suppliers of this provider are reached; raises ConfigError."""
    role = find(name).supplier
    if role is None:
        raise ConfigError(f"{name} is not a supplier; see: headway providers")
    return role


def platforms() -> Mapping[PlatformName, PlatformRole]:
    """Return how the accounts of every platform are read: the built-in ones first."""
    return {
        PlatformName(registered.provider.name): registered.provider.platform
        for registered in installed().providers.values()
        if registered.provider.platform is not None
    }


def known_platform(name: str) -> PlatformName:
    """Return the name of a platform; raises InvalidError that lists the known ones."""
    if name not in platforms():
        known = ", ".join(platforms())
        raise InvalidError(f"platform: {name} is not a platform; the platforms are {known}")
    return PlatformName(name)


def platform_title(name: PlatformName) -> str:
    """Return a platform's own spelling of its name, also if its plug-in was removed."""
    registered = installed().providers.get(name)
    return name.capitalize() if registered is None else registered.provider.title


def platform_role(name: str) -> PlatformRole:
    """Return how the accounts of this platform are read; raises ConfigError."""
    role = find(name).platform
    if role is None:
        raise ConfigError(f"{name} is not a platform; see: headway providers")
    return role


def main_supplier() -> tuple[Provider, SupplierRole]:
    """Return the provider of the settings' supplier."""
    return next(
        (provider, provider.supplier)
        for provider in BUILT_IN.values()
        if provider.supplier is not None and provider.supplier.main is not None
    )


def main_storefront() -> tuple[Provider, StorefrontRole]:
    """Return the provider that shops are written through."""
    return next(
        (provider, provider.storefront)
        for provider in BUILT_IN.values()
        if provider.storefront is not None
    )


@functools.cache
def installed() -> Registry:
    """Return every provider; looks for plug-ins once in a process."""
    return load(entry_points(group=GROUP))


def load(plugins: Iterable[EntryPoint]) -> Registry:
    """Return the built-in providers and these plug-ins, sorted by name."""
    providers = {
        name: RegisteredProvider(provider=provider, version=__version__)
        for name, provider in BUILT_IN.items()
    }
    broken: list[BrokenPlugin] = []
    for plugin in sorted(plugins, key=lambda plugin: (plugin.name, plugin.value)):
        package = plugin.dist.name if plugin.dist else plugin.value
        version = plugin.dist.version if plugin.dist else ""
        try:
            provider = _load_one(plugin)
            _check(provider, plugin, providers)
        except ConfigError as error:
            broken.append(
                BrokenPlugin(name=plugin.name, version=version, source=package, reason=str(error))
            )
        else:
            providers[provider.name] = RegisteredProvider(
                provider=provider, version=version, source=package
            )
    return Registry(providers=providers, broken=tuple(broken))


def _load_one(plugin: EntryPoint) -> Provider:
    """Import a plug-in; raises ConfigError whatever goes wrong in it."""
    try:
        provider = plugin.load()
    except Exception as error:  # noqa: BLE001 - a plug-in may fail in any way, and must not stop the others
        reason = " ".join(str(error).split())
        raise ConfigError(f"{plugin.value}: {type(error).__name__}: {reason}") from None
    if not isinstance(provider, Provider):
        raise ConfigError(f"{plugin.value} is not a headway.providers.provider.Provider")
    return provider


def _check(provider: Provider, plugin: EntryPoint, taken: Mapping[str, RegisteredProvider]) -> None:
    """Raise ConfigError if a plug-in's record does not fit the others."""
    if provider.name != plugin.name:
        raise ConfigError(f"its record is called {provider.name}, its entry point {plugin.name}")
    if not re.fullmatch(PLATFORM_PATTERN, provider.name):
        raise ConfigError(f"the name {provider.name!r} does not match {PLATFORM_PATTERN}")
    if not provider.roles:
        raise ConfigError(f"the provider {provider.name} plays no role")
    if provider.name in taken:
        source = taken[provider.name].source
        raise ConfigError(f"another provider is called {provider.name} ({source})")
