"""`headway providers`: the outside APIs that an installation knows, plug-ins included."""

from __future__ import annotations

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, open_client, server_of

EXAMPLES = """Examples:

headway providers

headway providers --json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("providers", epilog=EXAMPLES)(providers)


def providers(*, server: Server = None, as_json: AsJson = False) -> None:
    """List the suppliers, storefronts and platforms that Headway can talk to.

    Each has its version, roles, limits and where it comes from. A plug-in is a package with an
    entry point in the group headway.providers. One that cannot be loaded is listed as broken, with
    the reason.
    """
    from headway import config
    from headway.operations.providers import installed_providers
    from headway.operations.providers import providers as providers_of_server

    settings = config.load()
    if server_of(server, settings):
        with open_client(server) as client:
            listed = client.call(providers_of_server)
    else:
        listed = installed_providers(settings)
    if as_json:
        emit(listed)
        return
    rows = [
        (view.name, view.version, ", ".join(view.roles), "; ".join(view.limits), view.source)
        for view in listed.providers
    ]
    table(("name", "version", "roles", "limits", "from"), rows)
    for plugin in listed.broken:
        package = f"{plugin.source} {plugin.version}".strip()
        say(f"broken: {plugin.name} ({package}): {plugin.reason}", style="red")
