"""`headway notify test`: send one message to everybody who is notified of alerts."""

from __future__ import annotations

import typer

from headway.cli.output import AsJson, emit, table
from headway.cli.target import Server, open_client, server_of

SUMMARY = "Send a test message to everyone who receives alerts."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=f"{SUMMARY}\n\nExample: headway notify test", no_args_is_help=True)
    epilog = "Examples:\n\nheadway notify test\n\nheadway notify test --json"
    group.command("test", epilog=epilog)(send_test)
    app.add_typer(group, name="notify")


def send_test(*, server: Server = None, as_json: AsJson = False) -> None:
    """Send one message to each address in HEADWAY_NOTIFY_URLS, and show the replies.

    It is sent immediately, even in quiet hours. Addresses are not shown, because they may contain
    secrets.
    """
    from headway import config
    from headway.operations import notify

    settings = config.load()
    if server_of(server, settings):
        with open_client(server) as client:
            report = client.call(notify.send_test)
    else:  # no database is needed
        report = notify.send_test_message(settings)
    if as_json:
        emit(report)
    else:
        rows = [(row.to, row.error.removeprefix(f"{row.to}: ") or "sent") for row in report.sent]
        table(("to", "result"), rows, empty="")
    if not all(row.is_sent for row in report.sent):
        raise typer.Exit(1)
