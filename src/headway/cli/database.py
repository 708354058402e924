"""`headway db`: upgrade, downgrade or show the schema. A downgrade drops data, so it asks."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import AsJson, emit, facts, say
from headway.errors import ConflictError, InvalidError

if TYPE_CHECKING:
    from headway.store import migrate
    from headway.store.pool import Pool

SUMMARY = "Upgrade, downgrade or show the schema of the database."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=f"{SUMMARY}\n\nExample: headway db status", no_args_is_help=True)
    group.command("upgrade", epilog=_examples("upgrade", "upgrade --pre", "upgrade --to 1"))(
        upgrade
    )
    group.command("downgrade", epilog=_examples("downgrade --to 0"))(downgrade)
    group.command("status", epilog=_examples("status", "status --json"))(status)
    group.command("tables", epilog=_examples("tables", "tables --json"))(tables)
    app.add_typer(group, name="db")


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway db {line}" for line in lines)])


def upgrade(
    *,
    to: Annotated[int | None, typer.Option(help="Stop at this migration.")] = None,
    pre: Annotated[
        bool,
        typer.Option("--pre", help="Only what the old, still running processes can work with."),
    ] = False,
    anyway: Annotated[
        bool,
        typer.Option("--anyway", help="Even if processes are running that cannot work with it."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Apply the migrations that are missing, each in a transaction of its own.

    To upgrade without downtime: run this with --pre, replace the old processes, then run it
    again without --pre. A database that was made by one of the
    design documents is described and taken over, as by headway adopt.
    """
    from headway import config
    from headway.cli.adopt import take_over
    from headway.cli.session import REAL_TIME, open_session
    from headway.store import migrate
    from headway.store.catalog.adoption import find_plan

    with open_session(config.load(), check_schema=False) as session:
        pool = session.app.pool
        plan = find_plan(pool)
        if plan is not None:
            adopted = take_over(session, plan, is_quiet=as_json)
            labels = list(adopted.migrations)
            _report("applied", labels, migrate.current(pool), as_json=as_json)
            return
        if not (pre or anyway):
            _refuse_beside_older(pool, to)
        applied = migrate.upgrade(pool, REAL_TIME, to, only_pre=pre)
        left = migrate.pending(pool) if pre else []
        _report("applied", applied, migrate.current(pool), as_json=as_json, left=left)


def _refuse_beside_older(pool: Pool, to: int | None) -> None:
    """Refuse a migration that a running older process does not know and cannot work with."""
    from headway.store import migrate
    from headway.store.monitoring.processes import Processes

    kinds = [
        migration for migration in migrate.pending(pool) if to is None or migration.version <= to
    ]
    breaking = [
        migration.version for migration in kinds if migration.kind is not migrate.MigrationKind.PRE
    ]
    older = [
        process
        for process in (Processes(pool).alive() if breaking else [])
        if process.migrations_known < max(breaking)
    ]
    if older:
        raise ConflictError(
            f"{older[0].name} runs headway {older[0].version}, which cannot live with the new"
            " schema; stop it (one that died is forgotten after two minutes), or add --anyway"
        )


def _refuse_beside_running(pool: Pool) -> None:
    """Refuse a downgrade while a process works on the tables."""
    from headway.store.monitoring.processes import Processes

    running = [process.name for process in Processes(pool).alive()]
    if running:
        raise ConflictError(
            f"{', '.join(running)} would work on tables that are gone; stop every process (one that"
            " died is forgotten after two minutes), or add --anyway"
        )


def downgrade(
    *,
    to: Annotated[
        int, typer.Option(help="Undo migrations until this one; 0 empties the database.")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Even if processes run on this database.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Undo migrations, newest first; the tables they made are dropped with their rows.

    Stop every process first: it would work on tables that are gone.
    """
    from headway import config
    from headway.cli.session import REAL_TIME, open_session
    from headway.store import migrate

    with open_session(config.load(), check_schema=False, creates=False) as session:
        version = migrate.current(session.app.pool)
        if version > to:
            if not anyway:
                _refuse_beside_running(session.app.pool)
            _confirm(session.place, version, to, is_sure=yes)
        undone = migrate.downgrade(session.app.pool, REAL_TIME, to)
        _report("undone", undone, migrate.current(session.app.pool), as_json=as_json)


def status(*, as_json: AsJson = False) -> None:
    """Show which migration the database is at, and what is missing."""
    from headway import config
    from headway.cli.session import open_session
    from headway.store import migrate

    with open_session(config.load(), check_schema=False, creates=False) as session:
        version, missing = migrate.current(session.app.pool), migrate.pending(session.app.pool)
        newest = version + len(missing)
        if as_json:
            emit(
                {
                    "database": session.place,
                    "version": version,
                    "newest": newest,
                    "pending": [migration.label for migration in missing],
                }
            )
            return
        labels = ", ".join(migration.label for migration in missing)
        advice = f"{labels}; run: headway db upgrade" if missing else "nothing"
        facts(
            [
                ("database", session.place),
                ("migration", f"{version} of {newest}"),
                ("missing", advice),
            ]
        )


def tables(*, as_json: AsJson = False) -> None:
    """Print the page of tables: what each column means, from the comments in the database."""
    from headway import config
    from headway.cli.database_tables import tables_page
    from headway.cli.session import open_session
    from headway.store.schema import described_columns

    with open_session(config.load()) as session:
        columns = described_columns(session.app.pool)
    if as_json:
        emit(columns)
    else:
        print(tables_page(columns), end="")


def _confirm(place: str, version: int, to: int, *, is_sure: bool) -> None:
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise InvalidError(
            "a downgrade drops tables with their rows, and there is nobody to ask;"
            " add --yes to do it all the same"
        )
    question = f"Go from migration {version} to {to} on {place} and drop what they hold?"
    typer.confirm(question, abort=True, err=True)


def _report(
    verb: str,
    names: list[str],
    version: int,
    *,
    as_json: bool,
    left: Sequence[migrate.Migration] = (),
) -> None:
    from headway.store import migrate

    if as_json:
        emit({verb: names, "version": version, "left": [migration.label for migration in left]})
        return
    for name in names:
        say(f"{verb} {name}")
    say(f"the database is at migration {version}")
    if left and left[0].kind is migrate.MigrationKind.POST:
        say(f"left: {left[0].label}; once every process is new, run: headway db upgrade")
    elif left:
        say(f"left: {left[0].label}; stop every process, then run: headway db upgrade")
