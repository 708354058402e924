"""The kinds of events: what the database takes is what the reference tells of."""

import re
from pathlib import Path

from psycopg_pool import ConnectionPool

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "events.md"
TAKEN = """
SELECT pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid = 'sync_audit_log'::regclass AND conname = 'sync_audit_log_event_type_check'
"""


def test_every_kind_of_event_is_told_of_once_and_no_other(pool: ConnectionPool) -> None:
    with pool.connection() as connection:
        (definition,) = connection.execute(TAKEN).fetchall()[0]
    rows = [line.split("|")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    told = [kind for row in rows for kind in re.findall(r"`(\w+)`", row)]
    assert sorted(told) == sorted(re.findall(r"'(\w+)'::text", definition))


def test_every_kind_that_is_said_to_be_written_is_named_in_the_code() -> None:
    written, _, never = PAGE.read_text().partition("## Allowed, and not written")
    never = never.partition("## Months")[0]
    source = Path(__file__).parents[2] / "src" / "headway"
    code = "\n".join(
        path.read_text() for part in ("core", "store") for path in (source / part).rglob("*.py")
    )

    def kinds(text: str) -> set[str]:
        rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
        return {kind for row in rows for kind in re.findall(r"`(\w+)`", row)}

    def is_named(kind: str) -> bool:
        return re.search(rf"['\"]{kind}['\"]", code) is not None

    assert [kind for kind in sorted(kinds(never)) if is_named(kind)] == []
    missing = {kind for kind in kinds(written) if not is_named(kind)}
    assert missing == set()
