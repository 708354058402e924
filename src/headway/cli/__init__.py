"""The command line: a table of commands, imported only when used, and one place for errors.

Expected trouble is one line on stderr and an exit code: 2 for what the caller can fix (a setting,
an argument), 3 for the database, 130 for Ctrl-C, 1 for a broken law or anything else. With `--json`
a failing command also prints `{"error": ..., "exit_code": ...}` on stdout, so that a script always
finds an object there.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from types import ModuleType

import typer
from typer.main import get_group

from headway import __version__
from headway.errors import ConfigError, HeadwayError, RequestError, StoreError

FAILED, MISUSED, NO_DATABASE, INTERRUPTED = 1, 2, 3, 130
# Commands of the lab need the extra of that name.
LAB = "headway_lab."

# Name → where it lives, and its first line of help, so that `--help` need not import it.
COMMANDS = {
    "demo": ("headway_lab.demo.command", "Run everything in one process, faster than real time."),
    "run": ("headway.cli.run", "Keep catalogue and accounts in step, until Ctrl-C."),
    "worker": (
        "headway.cli.worker",
        "Do the work of many machines: one of any number of workers, until Ctrl-C or SIGTERM.",
    ),
    "api": ("headway.cli.api", "Serve the API and the page alone, until Ctrl-C."),
    "status": (
        "headway.cli.status",
        "Show the next call, the budget, how fresh the shop is, and what is wrong.",
    ),
    "parts": ("headway.cli.parts", "List parts, or find them by a piece of their text."),
    "history": (
        "headway.cli.parts",
        "Tell what happened to a part, its price, stock and calls over time.",
    ),
    "alerts": ("headway.cli.monitoring", "Show what is wrong now and needs a person."),
    "notify": (
        "headway.cli.notify",
        "Send a test message to everybody who is notified of alerts.",
    ),
    "limits": ("headway.cli.monitoring", "Show what is used of each limit, or the calls of one."),
    "permit": (
        "headway.cli.permit",
        "Run a command of your own under a permit, so that it keeps the limit.",
    ),
    "audit": ("headway.cli.monitoring", "Write out every event, as CSV or as lines of JSON."),
    "explain": ("headway.cli.status", "Say why a part or a job waits, until when, and its place."),
    "jobs": ("headway.cli.jobs", "Show who pulls next, in order, with what blocks each."),
    "quota": (
        "headway.cli.jobs",
        "Show what is used of the platforms' days, by hour, and what the next day will bring.",
    ),
    "pull": ("headway.cli.jobs", "Make a seller's jobs due now."),
    "hold": ("headway.cli.held_changes", "List the changes that are held for a person."),
    "approve": ("headway.cli.held_changes", "Let held changes reach the shop."),
    "reject": (
        "headway.cli.held_changes",
        "Keep the shop's price; the same quote is not held again.",
    ),
    "rollback": ("headway.cli.held_changes", "Give parts the price they had at another time."),
    "revive": ("headway.cli.held_changes", "Restart parked parts, on sale again, or dead jobs."),
    "pause": (
        "headway.cli.pauses",
        "Stop parts, a seller, suppliers or everything; or show what is paused.",
    ),
    "resume": ("headway.cli.pauses", "Let go on what was paused."),
    "trigger": ("headway.cli.pauses", "Put parts into the next call, before all others."),
    "move": ("headway.cli.slots", "Give parts another slot of the day, or a priority in theirs."),
    "connect": ("headway.cli.shops", "Connect a seller to a shop, or give the shop a new token."),
    "disconnect": (
        "headway.cli.shops",
        "Stop reading and writing a seller's shop, and forget its tokens.",
    ),
    "shops": ("headway.cli.shops", "Show every seller's shop, and what waits to get there."),
    "rehearse": (
        "headway.cli.rehearsals",
        "Show what Headway would write to a shop, and start the shop.",
    ),
    "removals": (
        "headway.cli.removals",
        "Show removals of listings that are held, and decide about one.",
    ),
    "supplier": (
        "headway.cli.suppliers",
        "Add, list or remove suppliers, or let a seller buy from one.",
    ),
    "probe": (
        "headway.cli.probe",
        "Ask a supplier for a few parts: raw fields beside what was understood.",
    ),
    "record": (
        "headway.cli.recordings",
        "Record the replies of a shop or a supplier, without secrets and buyers.",
    ),
    "verify": (
        "headway.cli.recordings",
        "Read recorded replies as Headway reads real ones, without network and database.",
    ),
    "providers": (
        "headway.cli.providers",
        "List the suppliers, storefronts and platforms that Headway can talk to.",
    ),
    "terms": ("headway.cli.terms", "Show or set a seller's price rule, guard and sales channels."),
    "tier": ("headway.cli.tiers", "Show or set what a seller pays for."),
    "publish": (
        "headway.cli.publish",
        "Put parts into the shop, and publish them on its sales channels.",
    ),
    "import": ("headway.cli.imports", "Bring in parts that the shop already sells, from a file."),
    "backfill": ("headway.cli.imports", "Give every product that lacks one its slot."),
    "check": ("headway.cli.check", "Check the laws against the live database."),
    "simulate": (
        "headway_lab.simulation.command",
        "Run the real engine through days of virtual time.",
    ),
    "plan": (
        "headway.cli.plan",
        "Say whether a catalogue fits the supplier's limit, and how well.",
    ),
    "doctor": ("headway.cli.doctor", "Check this installation and show what to fix."),
    "key": (
        "headway.cli.keys",
        "Make, list or revoke keys, or make a link that logs a browser in once.",
    ),
    "sessions": (
        "headway.cli.sessions",
        "Show who is logged in at the page, or end their sessions.",
    ),
    "vault": (
        "headway.cli.vault",
        "Encrypt stored secrets with the newest key, or show which keys they need.",
    ),
    "adopt": (
        "headway.cli.adopt",
        "Take over a database that was made by one of the design documents.",
    ),
    "db": ("headway.cli.database", "Upgrade, downgrade or show the schema of the database."),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code, having explained any expected trouble in one line."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        code = get_group(build(arguments)).main(
            arguments, prog_name="headway", standalone_mode=False
        )
        sys.stdout.flush()
    except (HeadwayError, ValueError) as error:
        return _refused(error, arguments)
    except typer.Abort:
        return _fail("stopped; nothing was done", FAILED, arguments)
    except typer.TyperException as error:
        return _misused(error, arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe. Python would complain once more when it closes stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code if isinstance(code, int) else 0


def build(arguments: Sequence[str] = (), *, whole: bool = False) -> typer.Typer:
    """Return the application; only the modules of the called command are imported, or `whole`."""
    app = typer.Typer(
        name="headway",
        help="Keep a storefront true to a supplier that may be asked only twice a minute.",
        epilog="Example: headway demo",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",  # else the line breaks of our source are kept in the help
    )
    app.callback()(_options)
    called = next((word for word in arguments if not word.startswith("-")), None)
    modules = {module for name, (module, _) in COMMANDS.items() if whole or name == called}
    for name, (module, summary) in COMMANDS.items():
        if module not in modules:
            app.command(name, help=summary)(_not_called)
        elif name == next(first for first, (home, _) in COMMANDS.items() if home == module):
            register: Callable[[typer.Typer], None] = _load(module).register
            register(app)
    return app


def _load(module: str) -> ModuleType:
    """Import a command's module; raises ConfigError if the extra it needs is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(LAB):
            raise
        raise ConfigError(
            f"this command needs the package {error.name}; install it with:"
            " pip install 'headway[lab]'"
        ) from None


def _print_version(is_requested: bool) -> None:
    if is_requested:
        print(f"headway {__version__}")
        raise typer.Exit


def _options(
    *,
    version: bool = typer.Option(
        False,
        "--version",
        help="Print the version and stop.",
        callback=_print_version,
        is_eager=True,
    ),
) -> None:
    del version


def _not_called() -> None:
    """Stand in for a command in the list of commands."""


def _exit_code(error: HeadwayError) -> int:
    if isinstance(error, ConfigError | RequestError):
        return MISUSED
    return NO_DATABASE if isinstance(error, StoreError) else FAILED


def _refused(error: HeadwayError | ValueError, arguments: Sequence[str]) -> int:
    """Print why a command was refused: by an operation, or for what its request may not hold."""
    if isinstance(error, HeadwayError):
        return _fail(str(error), _exit_code(error), arguments)
    from pydantic import ValidationError

    from headway.operations.inputs import field_errors

    if not isinstance(error, ValidationError):
        raise error
    return _fail(field_errors(error.errors()), MISUSED, arguments)


def _misused(error: typer.TyperException, arguments: Sequence[str]) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        return MISUSED  # the help has just been printed
    context = getattr(error, "ctx", None)
    message = error.format_message().rstrip(".")  # names the option; `error.message` does not
    called = next((word for word in arguments if word in COMMANDS), None)
    if getattr(error, "option_name", "") == "--server":
        message = (
            "this command works on the installation itself; run it where headway runs, without"
        )
        message += " --server"
    path = context.command_path if context else " ".join(filter(None, ("headway", called)))
    joint = " See" if message.endswith("?") else "; see"
    return _fail(f"{message}{joint}: {path} --help", MISUSED, arguments)


def _fail(text: str, code: int, arguments: Sequence[str]) -> int:
    line = " ".join(text.split())
    if "--json" in arguments:
        print(json.dumps({"error": line, "exit_code": code}), flush=True)
    print(f"headway: {line}", file=sys.stderr)
    return code
