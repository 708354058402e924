"""`headway check`: the laws of the design against the live database, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, open_target

if TYPE_CHECKING:
    from headway.operations.laws import LawResult

EXAMPLES = """Examples:

headway check

headway check --json | jq '.laws[] | select(.verdict == "broken")'
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check", epilog=EXAMPLES)(check)


def check(*, server: Server = None, as_json: AsJson = False) -> None:
    """Check the laws against the live database.

    Replays every call of the ledger against the supplier's limit, and looks for rows that violate
    a law. Exit code 1 if a law is broken.
    """
    from headway.operations.laws import laws

    with open_target(server) as target:
        report = target.client.call(laws)
        if as_json:
            summary = {"is_lawful": report.is_lawful, "laws": report.laws}
            emit({"database": target.place, **summary})
        else:
            _print(report.laws)
    if not report.is_lawful:
        raise typer.Exit(1)


def _print(results: Sequence[LawResult]) -> None:
    rows = [(result.law, result.name, result.verdict, _note(result)) for result in results]
    table(("law", "name", "verdict", "note"), rows)
    for result in results:
        for example in result.examples:
            say(f"{result.law}: {example}", style="red")
        if result.violations > len(result.examples):
            more = result.violations - len(result.examples)
            say(f"{result.law}: and {more:,} more", style="red")


def _note(result: LawResult) -> str:
    from headway.operations.laws import BROKEN

    if result.verdict != BROKEN:
        return result.note
    plural = "s" if result.violations != 1 else ""
    count = f"{result.violations:,} violation{plural}"
    return count + (f"; {result.note}" if result.note else "")
