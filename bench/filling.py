"""Fills large tables without indexes, keys and triggers, which are restored afterwards."""

from collections.abc import Sequence

from psycopg import Connection, sql

CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), contype = 'f'
FROM pg_constraint
WHERE conrelid = ANY(%s::regclass[]) AND contype IN ('p', 'u', 'f') ORDER BY contype = 'f'
"""
INDEXES = """
SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
WHERE indrelid = ANY(%s::regclass[])
  AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
"""
Statement = sql.Composed | sql.SQL


def strip(connection: Connection, tables: Sequence[str]) -> list[Statement]:
    """Drop every index and key of these tables; return the statements that bring them back."""
    named = list(tables)
    keys = connection.execute(CONSTRAINTS, (named,)).fetchall()
    indexes = connection.execute(INDEXES, (named,)).fetchall()
    # For a partitioned table the catalog lists only the parent's index; every partition needs it.
    rebuild: list[Statement] = [
        sql.SQL(definition.replace(" ON ONLY ", " ON ", 1)) for _, definition in indexes
    ]
    for table, name, definition, is_foreign in keys:
        # Rows that we filled ourselves need no validation; later writes are checked as usual.
        suffix = " NOT VALID" if is_foreign else ""
        add = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} " + definition + suffix)
        rebuild.append(add.format(sql.Identifier(table), sql.Identifier(name)))
    for table, name, _, _ in reversed(keys):
        drop = sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}")
        connection.execute(drop.format(sql.Identifier(table), sql.Identifier(name)))
    for name, _ in indexes:
        connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    for table in tables:
        switch = sql.SQL("ALTER TABLE {} {} TRIGGER USER")
        connection.execute(switch.format(sql.Identifier(table), sql.SQL("DISABLE")))
        rebuild.append(switch.format(sql.Identifier(table), sql.SQL("ENABLE")))
    return rebuild
