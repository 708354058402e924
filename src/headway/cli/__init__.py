"""The command line: commands that are imported only when used, and one place for errors.

Expected trouble is one line on stderr and an exit code: 2 for what the caller can fix (a setting,
an argument), 3 for the database, 130 for Ctrl-C, 1 for a broken law or anything else. With `--json`
a failing command also prints `{"error": ..., "exit_code": ...}` on stdout, so that a script always
finds an object there.
"""

import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

import typer
from typer._completion_classes import completion_init
from typer.main import get_group

from headway import __version__
from headway.cli.commands import ALIASES, COMMANDS, PANELS
from headway.errors import ConfigError, HeadwayError, RequestError, StoreError

FAILED, MISUSED, NO_DATABASE, INTERRUPTED = 1, 2, 3, 130
# Commands of the lab need the extra of that name.
LAB = "headway_lab."
# A shell that wants a line completed asks by this variable.
COMPLETION = "_HEADWAY_COMPLETE"
# Imports make about 120,000 objects and no garbage. By default Python searches for garbage after
# every 700 new objects, which takes a sixth of a short command's time.
OBJECTS_UNSEARCHED = 150_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code, having explained any expected trouble in one line."""
    gc.set_threshold(OBJECTS_UNSEARCHED)
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if COMPLETION in os.environ:
        completion_init()
    try:
        code = get_group(build(_words_to_complete() or arguments)).main(
            arguments, prog_name="headway", standalone_mode=False
        )
        sys.stdout.flush()
    except (HeadwayError, ValueError, ModuleNotFoundError) as error:
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
        help="Keep a shop up to date with a supplier that allows only a few calls a minute.",
        epilog="Example: headway demo",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",  # else the line breaks of our source are kept in the help
    )
    app.callback()(_options)
    called = _called(arguments)
    modules = {module for name, (module, _) in COMMANDS.items() if whole or name == called}
    for panel, commands in PANELS.items():
        for name, (module, summary) in commands.items():
            if module not in modules:
                app.command(name, help=summary, rich_help_panel=panel)(_not_called)
            elif name == next(first for first, (home, _) in COMMANDS.items() if home == module):
                register: Callable[[typer.Typer], None] = import_module(module).register
                register(app)
    return app


def _words_to_complete() -> list[str]:
    """Return the words of the line that a shell wants completed, without the program."""
    if COMPLETION not in os.environ:
        return []
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    return line.split()[1:]


def _called(arguments: Sequence[str]) -> str | None:
    """Return the name of the called command."""
    called = next((word for word in arguments if not word.startswith("-")), "")
    return ALIASES.get(called, called) or None


def _missing(error: ModuleNotFoundError, arguments: Sequence[str]) -> ConfigError:
    """Return the advice if a command of the lab lacks its extra; raises any other error again."""
    module, _ = COMMANDS.get(_called(arguments) or "", ("", ""))
    if error.name is None or not module.startswith(LAB):
        raise error
    return ConfigError(
        f"this command needs the package {error.name}; install it with: pip install 'headway[lab]'"
    )


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


def _refused(
    error: HeadwayError | ValueError | ModuleNotFoundError, arguments: Sequence[str]
) -> int:
    """Print why a command was refused: by an operation, for its request, or for a missing extra."""
    if isinstance(error, ModuleNotFoundError):
        error = _missing(error, arguments)
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
    # It names the option; `error.message` does not.
    message = error.format_message().rstrip(".").replace(": Value error, ", ": ")
    if "unable to parse string" in message:
        message = f"{message.partition(': Input')[0]}: it must be {_kind(message)}"
    called = next((word for word in arguments if word in COMMANDS), None)
    if getattr(error, "option_name", "") == "--server":
        message = (
            "this command works on the installation itself; run it where headway runs, without"
        )
        message += " --server"
    path = context.command_path if context else " ".join(filter(None, ("headway", called)))
    joint = " See" if message.endswith("?") else "; see"
    return _fail(f"{message}{joint}: {path} --help", MISUSED, arguments)


def _kind(message: str) -> str:
    """Return what a value had to be, from pydantic's message."""
    return "a whole number" if "integer" in message else "a number"


def _fail(text: str, code: int, arguments: Sequence[str]) -> int:
    line = " ".join(text.split())
    if "--json" in arguments:
        print(json.dumps({"error": line, "exit_code": code}), flush=True)
    print(f"headway: {line}", file=sys.stderr)
    return code
