"""Rows become dataclasses by the names of their columns."""

from dataclasses import dataclass
from enum import StrEnum

import pytest
from psycopg_pool import ConnectionPool

from headway.errors import StoreError
from headway.store.queries import Queries, read_as
from headway.store.sql_files import read_sql


class Color(StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    name: str
    color: Color
    other: Color | None
    tags: tuple[str, ...]


class Samples(Queries):
    def first(self) -> Sample | None:
        return self._find(Sample, STATEMENT)

    def fail(self) -> None:
        self._write("SELECT no_such_column")


STATEMENT = "SELECT 'a' AS name, 'red' AS color, NULL AS other, ARRAY['x', 'y'] AS tags"


def test_enums_and_tuples_are_made_of_their_columns(pool: ConnectionPool) -> None:
    sample = Samples(pool).first()
    assert sample == Sample(name="a", color=Color.RED, other=None, tags=("x", "y"))
    assert sample is not None
    assert isinstance(sample.color, Color)


def test_a_function_of_the_columns_reads_a_row_too(pool: ConnectionPool) -> None:
    def join(*, name: str, tags: list[str], **others: object) -> str:
        return f"{name} {tags} {sorted(others)}"

    with pool.connection() as connection:
        assert read_as(connection, join, STATEMENT) == ["a ['x', 'y'] ['color', 'other']"]


def test_an_error_of_the_database_is_one_of_the_store(pool: ConnectionPool) -> None:
    with pytest.raises(StoreError, match="no_such_column"):
        Samples(pool).fail()


def test_a_statement_begins_with_the_expressions_of_the_one_it_extends() -> None:
    base, extended = read_sql("timetable", "settle_unchanged"), read_sql("timetable", "settle")
    expressions = base.rpartition("\n)\nSELECT ")[0]
    assert extended.startswith(expressions + "\n), states AS (\n")
