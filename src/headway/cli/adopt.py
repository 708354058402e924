"""`headway adopt`: take over a database that was made by one of the design documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import AsJson, emit, facts, say, table
from headway.errors import ConflictError

if TYPE_CHECKING:
    from headway.cli.session import Session
    from headway.core.catalog.adoption import AdoptionPlan, TableAdoption
    from headway.store.catalog.adoption import Adopted

EXAMPLES = """Examples:

headway adopt --dry-run

headway adopt

headway adopt --dry-run --json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("adopt", epilog=EXAMPLES)(adopt_command)


def adopt_command(
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done; change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Take over a database that was made by one of the design documents.

    Its tables move into the schema before_headway, where they stay as they are; Headway's tables
    take their place with all rows, and the documents' column names remain readable. All of it is
    one transaction: if anything fails, nothing has happened. `headway db upgrade` does the same.
    """
    from headway import config
    from headway.cli.session import open_session
    from headway.store.catalog.adoption import find_plan

    with open_session(config.load(), check_schema=False) as session:
        plan = find_plan(session.app.pool)
        if plan is None:
            raise ConflictError(
                f"{session.place} has no tables of the design documents to take over;"
                " for a new database run: headway db upgrade"
            )
        if dry_run:
            _show_dry_run(plan, as_json=as_json)
            return
        adopted = take_over(session, plan, is_quiet=as_json)
        if as_json:
            emit(adopted)


def take_over(session: Session, plan: AdoptionPlan, *, is_quiet: bool = False) -> Adopted:
    """Describe a takeover, unless `is_quiet`, and do it; raises ConflictError if impossible."""
    from headway.cli.session import REAL_TIME
    from headway.store.catalog.adoption import adopt

    if not is_quiet:
        describe(plan)
    if plan.impossible:
        raise ConflictError(f"nothing was done: {'; '.join(plan.impossible)}")
    adopted = adopt(session.app.pool, REAL_TIME)
    if not is_quiet:
        _show_result(adopted)
    return adopted


def describe(plan: AdoptionPlan) -> None:
    """Print what a takeover would do."""
    say(f"This database was made by: {plan.document.value}")
    say()
    for entry in plan.tables:
        say(f"{entry.table}: {entry.rows:,} rows", style="bold")
        facts(_fates(entry))
    say(f"{len(plan.new_tables)} tables of Headway's own are added.")
    for note in plan.notes:
        say(f"note: {note}")
    for what in plan.not_carried:
        say(f"not carried over: {what}")
    for reason in plan.impossible:
        say(f"impossible: {reason}", style="bold red")


def _fates(entry: TableAdoption) -> list[tuple[str, str]]:
    carried = ", ".join(
        theirs if theirs == ours else f"{theirs} as {ours}" for theirs, ours in entry.carried
    )
    fates = [
        ("  kept", ", ".join(entry.kept)),
        ("  renamed", ", ".join(f"{theirs} → {ours}" for theirs, ours in entry.renamed)),
        ("  carried along", carried),
        ("  added", ", ".join(entry.added)),
    ]
    return [(name, columns) for name, columns in fates if columns]


def _show_dry_run(plan: AdoptionPlan, *, as_json: bool) -> None:
    if as_json:
        emit(plan)
    else:
        describe(plan)
        say("This was a dry run: nothing was changed.")
    if plan.impossible:
        raise typer.Exit(1)


def _show_result(adopted: Adopted) -> None:
    from headway.store.catalog.adoption_sql import ASIDE

    rows = [(name, f"{count:,}", adopted.left[name]) for name, count in adopted.rows.items()]
    say()
    table(("table", "taken over", "left"), rows, right={1, 2})
    if any(adopted.left.values()):
        say(f"Left are older rows of the same part, rows without a seller or a part number, and"
            f" events of unknown types; they are in the schema {ASIDE}.")  # fmt: skip
    say(f"The former tables are in the schema {ASIDE}. When you no longer need them:")
    say(f"  DROP SCHEMA {ASIDE} CASCADE")
