"""Event types: the reference lists what the database allows."""

import re
from pathlib import Path

import pytest
from psycopg_pool import ConnectionPool

from headway.errors import InvalidError
from headway.store.catalog.history import HistoryQueries

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "events.md"
ALLOWED = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s"


def test_the_reference_lists_every_allowed_event_type_once_and_no_other(
    pool: ConnectionPool,
) -> None:
    with pool.connection() as connection:
        (definition,) = connection.execute(ALLOWED, ("audit_event_type_check",)).fetchall()[0]
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    documented = [kind for row in rows for kind in re.findall(r"`(\w+)`", row)]
    assert sorted(documented) == sorted(re.findall(r"'(\w+)'::text", definition))


def test_every_event_type_documented_as_written_is_named_in_the_code() -> None:
    written, _, never = PAGE.read_text().partition("## Not written by Headway")
    never = never.partition("## Months")[0]
    source = Path(__file__).parents[2] / "src" / "headway"
    code = "\n".join(
        path.read_text()
        for part in ("core", "store")
        for path in (source / part).rglob("*.*")
        if path.suffix in {".py", ".sql"} and path.parent.name != "migrations"
    )

    def kinds(text: str) -> set[str]:
        rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
        return {kind for row in rows for kind in re.findall(r"`(\w+)`", row)}

    def is_named(kind: str) -> bool:
        return re.search(rf"['\"]{kind}['\"]", code) is not None

    assert [kind for kind in sorted(kinds(never)) if is_named(kind)] == []
    missing = {kind for kind in kinds(written) if not is_named(kind)}
    assert missing == set()


def test_every_kind_of_event_in_a_commands_help_is_one(pool: ConnectionPool) -> None:
    root, history = Path(__file__).parents[2], HistoryQueries(pool)
    texts = [*(root / "src/headway/cli").glob("*.py"), *(root / "docs").rglob("*.md")]
    lines = [line for text in texts for line in text.read_text().splitlines() if "audit" in line]
    kinds = {kind for line in lines for kind in re.findall(r"--kind (\w+)", line)}
    assert "change_approved" in kinds
    history.check_kinds(kinds)


def test_an_unknown_kind_of_event_is_refused_with_one_that_is_close(pool: ConnectionPool) -> None:
    history = HistoryQueries(pool)
    with pytest.raises(InvalidError, match="no events of the kind price_change; did you mean pric"):
        list(history.export(kinds=["price_change"]))
