"""`headway providers`: the outside APIs that this installation knows, plug-ins included."""

from collections.abc import Iterable
from dataclasses import dataclass

import typer

from headway import config
from headway.cli.output import AsJson, emit, say, table
from headway.config import Settings
from headway.core.limits.rules import Bucket, Quota, Resource, Rule, Window
from headway.providers.provider import Provider, ProviderRole
from headway.providers.registry import BrokenPlugin, installed

EXAMPLES = """Examples:

headway providers

headway providers --json
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderView:
    """A provider as the command shows it."""

    name: str
    title: str
    version: str
    source: str
    roles: tuple[ProviderRole, ...]
    limits: tuple[str, ...]
    settings: tuple[str, ...]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("providers", epilog=EXAMPLES)(providers)


def providers(*, as_json: AsJson = False) -> None:
    """List the suppliers, storefronts and platforms that Headway can talk to.

    Each has its version, roles, limits and where it comes from. A plug-in is a package with an
    entry point in the group headway.providers. One that cannot be loaded is listed as broken, with
    the reason.
    """
    settings, registry = config.load(), installed()
    views = [
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
    ]
    if as_json:
        emit({"providers": views, "broken": registry.broken})
        return
    _print(views, registry.broken)


def _print(views: Iterable[ProviderView], broken: Iterable[BrokenPlugin]) -> None:
    rows = [
        (view.name, view.version, ", ".join(view.roles), "; ".join(view.limits), view.source)
        for view in views
    ]
    table(("name", "version", "roles", "limits", "from"), rows)
    for plugin in broken:
        package = f"{plugin.source} {plugin.version}".strip()
        say(f"broken: {plugin.name} ({package}): {plugin.reason}", style="red")


def _limits(provider: Provider, settings: Settings) -> Iterable[str]:
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
