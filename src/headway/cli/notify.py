"""`headway notify test`: send one message to everybody who is told of alerts."""

import typer

from headway import config
from headway.app.monitoring import notify_urls
from headway.cli.output import AsJson, emit, table
from headway.clock import SystemClock, fresh_id
from headway.core.monitoring.alerts import Severity
from headway.core.monitoring.messages import message_mark
from headway.errors import ConfigError

SUMMARY = "Send a message to everybody who is told of alerts, to see that it arrives."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=f"{SUMMARY}\n\nExample: headway notify test", no_args_is_help=True)
    epilog = "Examples:\n\nheadway notify test\n\nheadway notify test --json"
    group.command("test", epilog=epilog)(send_test)
    app.add_typer(group, name="notify")


def send_test(*, as_json: AsJson = False) -> None:
    """Send one message to each address of HEADWAY_NOTIFY_URLS, and say what each answered.

    It goes at once, whatever the quiet hours. Addresses are not shown: they may hold secrets.
    """
    settings = config.load()
    urls = notify_urls(settings)
    if not urls:
        raise ConfigError("nobody is told of alerts: set HEADWAY_NOTIFY_URLS")
    from headway.observe.notify import AppriseSender  # noqa: PLC0415 - slow to import

    messenger = AppriseSender(urls)
    now = SystemClock().now()
    base = settings.public_url.rstrip("/")
    lines = [f"Sent by headway notify test at {now:%Y-%m-%d %H:%M:%S} UTC. Alerts come like this."]
    lines += [f"Page: {base}/"] * bool(base)
    body = "\n".join([*lines, f"Message {message_mark(fresh_id())}"])
    answers = [
        (
            messenger.name(target),
            messenger.send(target, title="headway: a test", body=body, severity=Severity.NOTICE),
        )
        for target in messenger.targets
    ]
    if as_json:
        emit({"sent": [{"to": name, "is_sent": not said, "error": said} for name, said in answers]})
    else:
        rows = [(name, said.removeprefix(f"{name}: ") or "took it") for name, said in answers]
        table(("to", "answer"), rows, empty="")
    if any(said for _, said in answers):
        raise typer.Exit(1)
