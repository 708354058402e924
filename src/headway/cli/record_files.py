"""Records as files: CSV, JSON lines or Parquet, written in pieces, however many there are."""

from __future__ import annotations

import csv
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import datetime
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, get_args, get_type_hints

from headway.errors import ConfigError, InvalidError

if TYPE_CHECKING:
    from headway.operations.record_fields import RecordHead

Format = Literal["csv", "jsonl", "parquet"]
Row = Mapping[str, Any]
Write = Callable[[Sequence["RecordHead"]], None]


@contextmanager
def record_file(record: type[RecordHead], form: Format, path: Path | None) -> Iterator[Write]:
    """Open a file of records, or stdout; what is yielded writes some.

    A file appears under its name once it is whole; until then, and if anything fails, what was
    there before stays.
    """
    if form == "parquet" and path is None:
        raise InvalidError("--format parquet needs --output FILE: it is not text")
    if form == "parquet" and find_spec("pyarrow") is None:
        raise ConfigError("Parquet needs pyarrow; install it: pip install 'headway[parquet]'")
    opened = {"csv": _csv, "jsonl": _lines, "parquet": _parquet}[form]
    if path is None:
        import sys

        with opened(record, sys.stdout.buffer) as write:
            yield write
        sys.stdout.buffer.flush()
        return
    handle, name = _beside(path)
    try:
        with os.fdopen(handle, "wb") as file, opened(record, file) as write:
            yield write
        Path(name).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _beside(path: Path) -> tuple[int, str]:
    """Make a file in the folder of another one; raises InvalidError."""
    try:
        return tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InvalidError(f"--output {path}: {error.strerror or error}") from None


def names(record: type[RecordHead]) -> list[str]:
    """Return the fields of a record, in order."""
    return [field.name for field in fields(record)]


@contextmanager
def _csv(record: type[RecordHead], file: IO[bytes]) -> Iterator[Write]:
    import io

    from headway.operations.export import cell_text

    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    writer.writerow(names(record))

    def write(rows: Sequence[RecordHead]) -> None:
        writer.writerows([cell_text(getattr(row, name)) for name in names(record)] for row in rows)

    yield write
    text.detach()


@contextmanager
def _lines(record: type[RecordHead], file: IO[bytes]) -> Iterator[Write]:
    def write(rows: Sequence[RecordHead]) -> None:
        for row in rows:
            values = {name: getattr(row, name) for name in names(record)}
            file.write(json.dumps(values, ensure_ascii=False, default=_json).encode() + b"\n")

    yield write


def _json(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


@contextmanager
def _parquet(record: type[RecordHead], file: IO[bytes]) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {
        bool: pa.bool_(),
        int: pa.int64(),
        datetime: pa.timestamp("us", tz="UTC"),
        # As many digits as money needs anywhere, and four behind the point.
        Decimal: pa.decimal128(38, 4),
    }
    hints = get_type_hints(record)
    columns = [(name, kinds.get(_plain(hints[name]), pa.string())) for name in names(record)]
    schema = pa.schema(columns)
    with pq.ParquetWriter(file, schema) as writer:

        def write(rows: Sequence[RecordHead]) -> None:
            values = {name: [getattr(row, name) for row in rows] for name in names(record)}
            writer.write_table(pa.Table.from_pydict(values, schema=schema))

        yield write


def _plain(hint: object) -> Any:  # noqa: ANN401 - a type
    """Return the type of a field that may be null."""
    kinds = [kind for kind in get_args(hint) if kind is not type(None)] or [hint]
    return kinds[0]
