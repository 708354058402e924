"""Read the rows of a reply one by one: a bad row is set aside with its id and the reason.

A reply that is malformed as a whole raises UnreadableError.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, NoReturn, TypeVar

from pydantic import TypeAdapter, ValidationError

from headway.core.accounts.warehouse import Unreadable
from headway.errors import UnreadableError
from headway.providers.excerpt import excerpt
from headway.providers.reply_fields import UNSTORABLE, ReplyModel

DIGITS_MAX = 4000
# A bad row is kept as it came, but only so deep, and without characters that no table takes.
DEPTH_MAX = 20
VALUE_CHARS_MAX = 60
T = TypeVar("T")
Model = TypeVar("Model", bound=ReplyModel)


def unreadable(provider: str, reason: str) -> NoReturn:
    """Raise UnreadableError in one line."""
    raise UnreadableError(f"{provider}'s reply has {reason}"[:250], provider=provider)


def load(body: bytes, provider: str) -> Any:  # noqa: ANN401 - JSON, of whatever shape
    """Return the JSON of a body; numbers that Python cannot hold come as text."""
    for parse_int in (None, _whole):
        try:
            return json.loads(body, parse_int=parse_int, parse_float=_float, parse_constant=str)
        except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
            break
        except ValueError:  # a number of too many digits; reading all this way would be slow
            continue
    unreadable(provider, f"no JSON: {excerpt(body) or 'an empty body'}")


def read_model(provider: str, model: type[Model], value: object) -> Model:
    """Return a part of a reply without which the rest is unusable; raises UnreadableError."""
    try:
        return model.model_validate(value)
    except ValueError as error:
        unreadable(provider, f"an unusable field: {reason_of(error)}")


def read_rows(
    kind: str, rows: Sequence[Any], name_of: Callable[[Any], str], read: Callable[[Any], T]
) -> tuple[dict[str, T], tuple[Unreadable, ...]]:
    """Read every row by its id, the last of two with the same id; set bad rows aside."""
    good: dict[str, T] = {}
    bad: dict[str, Unreadable] = {}
    for row in rows:
        name = name_of(row)
        good.pop(name, None)
        bad.pop(name, None)
        try:
            good[name] = read(row)
        except ValueError as error:
            bad[name] = set_aside(kind, name, row, error)
    return good, tuple(bad.values())


def set_aside(kind: str, name: str, row: object, error: ValueError) -> Unreadable:
    """Return a bad row as it is kept."""
    raw = storable(row if isinstance(row, dict) else {"row": row})
    return Unreadable(kind=kind, external_id=name, reason=reason_of(error), raw=raw)


def find_field(row: Any, name: str, field_type: TypeAdapter[T]) -> T | None:  # noqa: ANN401 - JSON
    """Return a field of a row; None if it has none that is valid."""
    try:
        return field_type.validate_python(row.get(name)) if isinstance(row, dict) else None
    except ValidationError:
        return None


def digest(row: object) -> str:
    """Return a name for a row that has no valid id."""
    text = json.dumps(storable(row), sort_keys=True)
    return f"?{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def reason_of(error: ValueError) -> str:
    """Return why a row was refused: the first field that is bad, and its value."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_context=False)[0]
    path = ".".join(map(str, first["loc"])) or "the row"
    if first["type"] == "missing":
        return f"{path} is missing"
    value = json.dumps(storable(first["input"]), default=str)
    return f"{path} is {excerpt(value.encode())[:VALUE_CHARS_MAX]}"


def storable(value: Any, depth: int = DEPTH_MAX) -> Any:  # noqa: ANN401 - JSON
    """Return a value as a table can hold it: bounded in depth, no NUL, valid UTF-8."""
    if isinstance(value, str):
        return UNSTORABLE.sub("?", value)
    if isinstance(value, list | dict) and not depth:
        return "…"
    if isinstance(value, list):
        return [storable(item, depth - 1) for item in value]
    if isinstance(value, dict):
        return {storable(key): storable(item, depth - 1) for key, item in value.items()}
    return value


def _float(text: str) -> float | str:
    return number if isfinite(number := float(text)) else text


def _whole(text: str) -> int | str:
    return int(text) if len(text) <= DIGITS_MAX else text
