"""A recorded world: read completely, or refused with the file, the line and the field."""

from decimal import Decimal
from pathlib import Path

import pytest

from headway.errors import InvalidError
from headway_lab.simulation.changes import read_changes

HEADER = "t_min,sku,price,quantity,family\n"
START = "0,A=K3,10.50,4,f1\n0,B=E9,3,0,\n"


def write(folder: Path, text: str) -> Path:
    path = folder / "world.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_at_zero_are_the_start_and_later_rows_are_changes_in_order(tmp_path: Path) -> None:
    world = read_changes(write(tmp_path, HEADER + START + "90.5,B=E9,4,7,\n30,A=K3,11,4,f1\n"))
    assert [(part.sku, part.list_price) for part in world.start.values()] == [
        ("A=K3", Decimal("10.50")),
        ("B=E9", Decimal(3)),
    ]
    assert [(change.at_s, change.part.sku) for change in world.changes] == [
        (1800.0, "A=K3"),
        (5430.0, "B=E9"),
    ]
    assert world.changes[1].part.stock == {"Dallas Central": 7}
    assert world.name == "world.csv"


def test_the_family_may_be_left_out_and_a_byte_order_mark_is_no_field(tmp_path: Path) -> None:
    path = tmp_path / "world.csv"
    path.write_bytes(b"\xef\xbb\xbft_min,sku,price,quantity\r\n0,A,1,1\r\n")
    assert list(read_changes(path).start) == ["A"]


def test_a_part_belongs_to_the_family_of_its_row_and_without_one_to_that_of_its_start(
    tmp_path: Path,
) -> None:
    rows = "0,A=K3,1,1, f1 \n0,B=E9,1,1,\n5,A=K3,2,1,\n6,A=K3,3,1,f2\n7,B=E9,2,1,\n"
    world = read_changes(write(tmp_path, HEADER + rows))
    assert [part.family for part in world.start.values()] == ["f1", ""]
    assert [change.part.family for change in world.changes] == ["f1", "f2", ""]
    assert world.rates_per_day is None


def test_a_row_may_end_before_its_family(tmp_path: Path) -> None:
    world = read_changes(write(tmp_path, HEADER + "0,A=K3,1,1\n"))
    assert [part.family for part in world.start.values()] == [""]


@pytest.mark.parametrize(
    ("rows", "line", "field"),
    (
        (START + "x,A=K3,1,1,\n", 4, "t_min"),
        (START + "-1,A=K3,1,1,\n", 4, "t_min"),
        (START + "5,,1,1,\n", 4, "sku"),
        (START + "5,C=9B,1,1,\n", 4, "sku"),
        (START + "0,A=K3,1,1,\n", 4, "sku"),
        (START + "5,A=K3,abc,1,\n", 4, "price"),
        (START + "5,A=K3,nan,1,\n", 4, "price"),
        (START + "5,A=K3,-2,1,\n", 4, "price"),
        (START + "5,A=K3,1,1.5,\n", 4, "quantity"),
        (START + "5,A=K3,1,\n", 4, "quantity"),
        (START + "5,A=K3,1,1,f,more\n", 4, "family"),
        ("5,A=K3,1,1,\n", 2, "no rows at t_min 0"),
    ),
)
def test_a_bad_row_is_named_by_file_line_and_field(
    tmp_path: Path, rows: str, line: int, field: str
) -> None:
    path = write(tmp_path, HEADER + rows)
    with pytest.raises(InvalidError) as caught:
        read_changes(path)
    message = str(caught.value)
    assert str(path) in message
    assert field in message
    assert f"line {line}" in message or "no rows" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("row", "message"),
    (
        ("5,A=K3,1\n", "field quantity: the row ends before it"),
        ("5,A=K3,1e999,1,\n", "field price: '1e999' is too large"),
        ("1e400,A=K3,1,1,\n", "field t_min: '1e400' is too large"),
        ("5,A=K3,-inf,1,\n", "field price: '-inf' must be 0 or more"),
    ),
)
def test_the_message_says_what_is_wrong_with_a_row(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(InvalidError, match=f"line 4, {message}$"):
        read_changes(write(tmp_path, HEADER + START + row))


@pytest.mark.parametrize(
    ("content", "message"),
    (
        (b"t_min,sku,price\n", "line 1, field quantity"),
        (b"", "line 1, field t_min"),
        (b"t_min,sku,price,quantity\n0,\xff\xfe,1,1\n", "not a CSV file in UTF-8"),
        (b't_min,sku,price,quantity\n0,"A,1,1\n', "not a CSV file"),
    ),
)
def test_a_file_that_is_no_such_table_is_refused(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "world.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidError, match=message):
        read_changes(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"cannot read --changes .*nowhere\.csv: No such file"):
        read_changes(tmp_path / "nowhere.csv")
