"""Reading `--changes`: a recorded world, replayed instead of a seeded one; a bad row stops all."""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from headway.core.catalog.listings import Sku
from headway.errors import InvalidError
from headway_lab.simulation.world import MAPPED, World, WorldChange
from headway_lab.simulators.boeing import SupplierPart

REQUIRED = ("t_min", "sku", "price", "quantity")
QUANTITY_MAX = 1_000_000_000


def read_changes(path: Path) -> World:
    """Read a CSV `t_min,sku,price,quantity,family`; rows at 0 are the start.

    The family is optional: without the column, or with nothing in it, there is none.
    """
    rows = list(_rows(path))
    start: dict[Sku, SupplierPart] = {}
    for line, change in rows:
        if change.at_s == 0:
            if change.part.sku in start:
                raise _wrong(path, line, "sku", f"{change.part.sku} starts twice at 0")
            start[Sku(change.part.sku)] = change.part
    if not start:
        raise InvalidError(f"{path}: there are no rows at t_min 0; these are the start")
    for line, change in rows:
        if change.part.sku not in start:
            raise _wrong(path, line, "sku", f"{change.part.sku} has no row at t_min 0, the start")
    changes = sorted(_later(rows, start), key=lambda change: change.at_s)
    return World(name=path.name, start=start, changes=tuple(changes), source=path)


def _later(
    rows: Iterable[tuple[int, WorldChange]], start: Mapping[Sku, SupplierPart]
) -> Iterator[WorldChange]:
    """Yield what happens after the start; a row without a family leaves the part in its own."""
    for _, change in rows:
        if change.at_s > 0:
            family = change.part.family or start[Sku(change.part.sku)].family
            yield replace(change, part=replace(change.part, family=family))


def _rows(path: Path) -> Iterator[tuple[int, WorldChange]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [name for name in REQUIRED if name not in (reader.fieldnames or ())]
            if missing:
                raise _wrong(
                    path,
                    1,
                    missing[0],
                    "the header lacks it; write t_min,sku,price,quantity,family",
                )
            for row in reader:
                yield reader.line_num, _change(path, reader.line_num, row)
    except OSError as error:
        raise InvalidError(f"cannot read --changes {path}: {error.strerror or error}") from None
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidError(f"{path}: not a CSV file in UTF-8; save it as one ({error})") from None


def _change(path: Path, line: int, row: dict[str | Any, str | Any]) -> WorldChange:
    if None in row:
        raise _wrong(path, line, "family", "the row has more fields than the header")
    short = next((name for name in REQUIRED if row[name] is None), None)
    if short is not None:
        raise _wrong(path, line, short, "the row ends before it")
    sku = row["sku"].strip()
    if not sku:
        raise _wrong(path, line, "sku", "it is empty")
    price = _number(path, line, "price", row["price"])
    quantity = _number(path, line, "quantity", row["quantity"])
    if quantity != quantity.to_integral_value() or quantity > QUANTITY_MAX:
        raise _wrong(path, line, "quantity", f"{row['quantity']!r} is not a whole number of parts")
    at_s = float(_number(path, line, "t_min", row["t_min"])) * 60
    part = SupplierPart(
        sku=sku,
        list_price=price,
        net_price=price,
        stock={MAPPED[0]: int(quantity)},
        family=(row.get("family") or "").strip(),
    )
    return WorldChange(at_s=at_s, part=part)


def _number(path: Path, line: int, field: str, text: str) -> Decimal:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise _wrong(path, line, field, f"{text!r} is not a number") from None
    if number.is_nan() or number < 0:
        raise _wrong(path, line, field, f"{text!r} must be 0 or more")
    if not math.isfinite(number):
        raise _wrong(path, line, field, f"{text!r} is too large")
    return number


def _wrong(path: Path, line: int, field: str, reason: str) -> InvalidError:
    return InvalidError(f"{path}, line {line}, field {field}: {reason}")
