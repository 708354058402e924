"""The outside APIs that an installation knows, plug-ins included."""

from collections.abc import Iterator
from dataclasses import dataclass

from headway.config import Settings
from headway.core.access import Need
from headway.core.limits.rules import Bucket, Quota, Resource, Rule, Window
from headway.operations.callers import OperatorCaller
from headway.operations.operation import operation
from headway.providers.provider import Provider, ProviderRole
from headway.providers.registry import BrokenPlugin, installed


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderView:
    """A provider with its limits and settings."""

    name: str
    """The provider's name. Example: `etsy`"""
    title: str
    """The provider's name, as people know it. Example: `Etsy`"""
    version: str
    """The version of the package. Example: `0.1.0`"""
    source: str
    """The package it comes from. Example: `headway`"""
    roles: tuple[ProviderRole, ...]
    """What it can be to Headway."""
    limits: tuple[str, ...]
    """Its limits, in words. Example: `["5 calls a second", "5,000 calls a day"]`"""
    settings: tuple[str, ...]
    """Names of its settings. Example: `["HEADWAY_ETSY_KEY"]`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderList:
    """Every provider that is installed, and plug-ins that cannot be loaded."""

    providers: tuple[ProviderView, ...]
    """The providers."""
    broken: tuple[BrokenPlugin, ...]
    """Plug-ins that cannot be loaded."""


@operation("GET", "/api/providers", need=Need.OVERSEE, tag="suppliers", name="list_providers")
def providers(caller: OperatorCaller) -> ProviderList:
    """List the suppliers, storefronts and platforms that this server can talk to."""
    return installed_providers(caller.app.settings)


def installed_providers(settings: Settings) -> ProviderList:
    """Return the providers that are installed here; needs no database."""
    registry = installed()
    return ProviderList(
        providers=tuple(
            ProviderView(
                name=name,
                title=entry.provider.title,
                version=entry.version,
                source=entry.source,
                roles=entry.provider.roles,
                limits=tuple(_limits(entry.provider, settings)),
                settings=entry.provider.settings,
            )
            for name, entry in registry.providers.items()
        ),
        broken=tuple(registry.broken),
    )


def _limits(provider: Provider, settings: Settings) -> Iterator[str]:
    for name, resource in provider.limits(settings).items():
        yield f"{name}: {_described(resource)}"
    if provider.supplier is not None and provider.supplier.main is None:
        yield "one for each supplier, as its options say"
    if provider.keyed_limit is not None:
        yield provider.keyed_limit.summary


def _described(resource: Resource) -> str:
    return ", ".join(_rule(rule) for rule in resource.rules)


def _rule(rule: Rule) -> str:
    match rule:
        case Window(limit=limit, span_s=span_s) | Quota(limit=limit, span_s=span_s):
            return f"{limit:,g} in {_span(span_s)}"
        case Bucket(capacity=capacity, rate_per_s=rate_per_s):
            return f"{rate_per_s:,g} a second, {capacity:,g} at once"


def _span(span_s: float) -> str:
    names = {1: "a second", 60: "a minute", 3600: "an hour", 86_400: "24 hours"}
    return names.get(int(span_s), f"{span_s:,g} s")
