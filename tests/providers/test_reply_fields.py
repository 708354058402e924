"""The types of fields in replies: what is valid at every provider, and what is not."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from headway.providers.reply_fields import (
    Amount,
    Count,
    Identifier,
    Instant,
    OptionalCents,
    OptionalNumberId,
    OptionalText,
    Second,
    Text,
    UtcInstant,
)


@pytest.mark.parametrize(
    ("field_type", "value", "expected"),
    (
        (Text, " a ", "a"),
        (Text, "x" * 9000, "x" * 5000),
        (OptionalText, None, ""),
        (Identifier, 7, "7"),
        (OptionalNumberId, 0, None),
        (Count, 10**9, 10**9),
        (OptionalCents, 4400.0, Decimal("44.00")),
        (OptionalCents, 44.5, None),
        (OptionalCents, None, None),
        (Amount, "11.50", Decimal("11.50")),
        (Instant, "1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
        (Instant, "2100-01-01T02:00:00+02:00", datetime(2100, 1, 1, tzinfo=UTC)),
        (UtcInstant, "2026-02-28", datetime(2026, 2, 28, tzinfo=UTC)),
        (Second, 946_684_800, datetime(2000, 1, 1, tzinfo=UTC)),
    ),
)
def test_a_valid_value_is_read(field_type: Any, value: object, expected: object) -> None:
    assert TypeAdapter(field_type).validate_python(value) == expected


@pytest.mark.parametrize(
    ("field_type", "values"),
    (
        (Text, (None, "", "  ", 5, True, "nul\0", "half \ud800", [])),
        (OptionalText, (5, False, "nul\0", "half \ud800", {})),
        (Identifier, (None, "", True, 1.5, [])),
        (Count, (-1, 10**9 + 1, 10**400, True, "5", 1.0, None)),
        (OptionalCents, (-1, True, "44", 10**12 + 1, -1.0)),
        (Amount, ("-1", "1e5", "NaN", "11,00", "1.", 5, None)),
        (Instant, ("2026-01-01T00:00:00", "yesterday", 5, None, "1969-12-31T23:59:59Z",
                   "2100-01-01T00:00:01Z", "9999-12-31T23:59:59-12:00",
                   "0001-01-01T00:00:00+14:00")),
        (Second, (5, 4_102_444_801, 10**30, True, "946684800", 1e9)),
    ),
)  # fmt: skip
def test_no_invalid_value_is_read(field_type: Any, values: tuple[object, ...]) -> None:
    for value in values:
        with pytest.raises(ValidationError):
            TypeAdapter(field_type).validate_python(value)
