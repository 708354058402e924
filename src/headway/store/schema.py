"""The tables as they are described in the database itself, by its comments."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg.rows import class_row

from headway.store.pool import Pool

# Partitions are left out: their parent stands for them. `choices` are those of a CHECK on the
# column alone.
COLUMNS = """
SELECT c.relname AS table_name, coalesce(obj_description(c.oid, 'pg_class'), '') AS table_comment,
       a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS is_required,
       coalesce(col_description(c.oid, a.attnum), '') AS comment,
       coalesce((
           SELECT array_agg(word[1])
             FROM pg_constraint AS rule,
                  regexp_matches(pg_get_constraintdef(rule.oid), $$'([^']+)'::text$$, 'g') AS word
            WHERE rule.conrelid = c.oid AND rule.contype = 'c' AND rule.conkey = ARRAY[a.attnum]
              AND pg_get_constraintdef(rule.oid) LIKE '%= ANY (ARRAY[%'
       ), '{}') AS choices
  FROM pg_class AS c
  JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
   AND NOT c.relispartition AND c.relname <> 'headway_migration'
 ORDER BY c.relname, a.attnum
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnDescription:
    """A column: its table, type, comment, and the values that it may have."""

    table_name: str
    table_comment: str
    name: str
    type: str
    is_required: bool
    comment: str
    choices: Sequence[str]


def described_columns(pool: Pool) -> list[ColumnDescription]:
    """Return the columns of all tables, by table and in their order."""
    with pool.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(ColumnDescription))
        return cursor.execute(COLUMNS).fetchall()
