"""Types of fields in the replies of providers: texts, ids, numbers, money and instants.

Reply models are made of these types, and no other module decides which values are valid. Nothing is
converted silently: a number is no text, a text is no number and True is no number, unless the type
says so. Every text can be stored: it has no NUL and no half of a character. Instants are in UTC,
from 1970 to 2100.
"""

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StringConstraints,
)
from pydantic.alias_generators import to_camel

TEXT_CHARS_MAX = 5000
COUNT_MAX = 10**9
CENTS_MAX = 10**12
AMOUNT_MAX = 10**9
PRICE_STEP = Decimal("0.0001")
FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
# Platforms that count seconds sold nothing before 2000: a smaller number is not a time.
FIRST_S, LAST_S = 946_684_800, int(LAST.timestamp())
DIGITS = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")
NUMBER = re.compile(r"\s*([+-]?[0-9]{1,20}(?:\.[0-9]{0,20})?)\s*")
UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")


class ReplyModel(BaseModel):
    """A part of a reply; fields that it does not name are ignored."""

    model_config = ConfigDict(defer_build=True)


class CamelModel(ReplyModel):
    """A part of a reply whose names are written in camel case."""

    model_config = ConfigDict(alias_generator=to_camel)


def number_as_text(value: object) -> object:
    """Return a whole number as text, and any other value unchanged."""
    return str(value) if type(value) is int else value


def read_instant(value: object, *, zone: Any = None) -> datetime:  # noqa: ANN401 - a tzinfo
    """Return the instant of an ISO text, in UTC; `zone` is that of a text without one."""
    if isinstance(value, str):
        parsed = datetime.fromisoformat(value)
        # Near the ends of the calendar a change of zone would overflow.
        if FIRST.year - 1 <= parsed.year <= LAST.year and (parsed.tzinfo or zone):
            parsed = (parsed if parsed.tzinfo else parsed.replace(tzinfo=zone)).astimezone(UTC)
            if FIRST <= parsed <= LAST:
                return parsed
    raise ValueError("not an instant from 1970 to 2100")


def read_number(value: object) -> Decimal:
    """Return a finite decimal number, written as a number or as digits."""
    if isinstance(value, Decimal) and value.is_finite():
        return value
    if isinstance(value, str) and (match := NUMBER.fullmatch(value)):
        return Decimal(match.group(1))
    raise ValueError("not a number")


def read_price(value: object) -> Decimal | None:
    """Return a supplier's price; None if there is none, which suppliers also write as zero."""
    if value is None or value == "" or not (price := read_number(value)):
        return None
    if not PRICE_STEP <= price <= AMOUNT_MAX:
        raise ValueError("negative or too large")
    # One price, one spelling: 1E+3, 1000.00 and the dust of a float all become plain digits.
    return Decimal(format(price.quantize(PRICE_STEP).normalize(), "f"))


def read_quantity(value: object) -> int:
    """Return a supplier's quantity."""
    quantity = read_number(value)
    if not 0 <= quantity <= AMOUNT_MAX or quantity != int(quantity):
        raise ValueError(f"not a whole number from 0 to {AMOUNT_MAX:,}")
    return int(quantity)


def plain_line(value: object, chars_max: int) -> str:
    """Return the printable characters of a text, as one line; empty if the value is no text."""
    if not isinstance(value, str):
        return ""
    text = value[: 2 * chars_max]
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(text.split())[:chars_max].strip()


def _cents(value: object) -> Decimal | None:
    if value is None or (isinstance(value, float) and value % 1):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or not 0 <= value <= CENTS_MAX:
        raise ValueError("not whole cents")
    return Decimal(value).scaleb(-2)


def read_amount(value: object) -> Decimal:
    """Return an amount of money that is a text of digits."""
    if not isinstance(value, str) or not DIGITS.fullmatch(value):
        raise ValueError("not an amount in digits")
    return Decimal(value)


def read_second(value: object) -> datetime:
    """Return the instant of so many seconds since 1970; raises ValueError."""
    if type(value) is not int or not FIRST_S <= value <= LAST_S:
        raise ValueError("not a second from 2000 to 2100")
    return datetime.fromtimestamp(value, tz=UTC)


def _utc_instant(value: object) -> datetime:
    return read_instant(value, zone=UTC)


def _instant_or_none(value: object) -> datetime | None:
    try:
        return _utc_instant(value)
    except ValueError:
        return None


def _lenient(value: object) -> str:
    is_text = isinstance(value, str) and not UNSTORABLE.search(value)
    return value[:TEXT_CHARS_MAX] if is_text and isinstance(value, str) else ""


def _empty_if_none(value: object) -> object:
    return "" if value is None else value


def _none_if_zero(value: object) -> object:
    return None if value in (None, 0, "", "0") else value


def _cut(text: str) -> str:
    return text[:TEXT_CHARS_MAX]


_STORABLE = r"^[^\x00]*$"  # pydantic itself refuses halves of characters

# A text as it came, of any length.
ExactText = Annotated[str, StringConstraints(strict=True, pattern=_STORABLE)]
# A text that must be there.
Text = Annotated[
    str,
    StringConstraints(strict=True, strip_whitespace=True, min_length=1, pattern=_STORABLE),
    AfterValidator(_cut),
]
# A text that may be missing or null: then it is empty.
OptionalText = Annotated[
    str,
    StringConstraints(strict=True, strip_whitespace=True, pattern=_STORABLE),
    AfterValidator(_cut),
    BeforeValidator(_empty_if_none),
]
# The same, which may also be a whole number.
Label = Annotated[OptionalText, BeforeValidator(number_as_text)]
# A text that no record depends on: empty if it is unusable.
LenientText = Annotated[str, PlainValidator(_lenient)]
# An id, as text; it may come as a whole number.
Identifier = Annotated[Text, BeforeValidator(number_as_text)]
# An id that is a positive number; an optional one may come as 0.
NumberId = Annotated[
    str,
    StringConstraints(strict=True, pattern=r"^[1-9][0-9]{0,19}$"),
    BeforeValidator(number_as_text),
]
OptionalNumberId = Annotated[NumberId | None, BeforeValidator(_none_if_zero)]
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=COUNT_MAX)]
# A quantity that may be negative, as stock that was oversold.
SignedCount = Annotated[int, Field(strict=True, ge=-COUNT_MAX, le=COUNT_MAX)]
Currency = Annotated[str, StringConstraints(strict=True, pattern=r"^[A-Z]{3}$")]
# Money in whole cents; None if there is none, or if it has parts of a cent, as in another unit.
OptionalCents = Annotated[Decimal | None, PlainValidator(_cents)]
# Money as a text of digits.
Amount = Annotated[Decimal, PlainValidator(read_amount)]
# An ISO text with a time zone; one without it is read as UTC by `UtcInstant`.
Instant = Annotated[datetime, PlainValidator(read_instant)]
UtcInstant = Annotated[datetime, PlainValidator(_utc_instant)]
LenientInstant = Annotated[datetime | None, PlainValidator(_instant_or_none)]
# A whole number of seconds since 1970.
Second = Annotated[datetime, PlainValidator(read_second)]
