"""What a caller may write into an address or a body, declared once."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Path, Query
from pydantic import AfterValidator, AwareDatetime, Field

from headway.core.catalog.intake import seller_of, sku_of
from headway.errors import InvalidError
from headway.store.cursors import CHARS_MAX

SKUS_MAX = 1000
NAME_CHARS_MAX = 255
REASON_CHARS_MAX = 500
# No text in the database can hold this one character.
PLAIN = r"^[^\x00]*$"


def checked(check: Callable[[str], str]) -> AfterValidator:
    """Make a validator of a rule of the core."""

    def validate(text: str) -> str:
        try:
            return check(text)
        except InvalidError as error:
            raise ValueError(str(error)) from None

    return AfterValidator(validate)


def _in_utc(at: datetime) -> datetime:
    """Return the instant in UTC; a zone may put it into a year that nobody can read back."""
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("the year must be within 1 and 9999, in UTC") from None


Instant = Annotated[AwareDatetime, AfterValidator(_in_utc)]
SkuText = Annotated[str, checked(sku_of), Field(examples=["WF338109=K3"])]
SellerText = Annotated[str, checked(seller_of), Field(examples=["acme"])]
SupplierText = Annotated[
    str, Field(min_length=1, max_length=NAME_CHARS_MAX, pattern=PLAIN, examples=["east"])
]
ReasonText = Annotated[
    str, Field(max_length=REASON_CHARS_MAX, pattern=PLAIN, examples=["yearly price list"])
]
SkuPath = Annotated[
    str,
    Path(
        min_length=1,
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="The supplier's part number, percent-encoded; it may hold `/`, `=` and spaces.",
        examples=["WF338109=K3"],
    ),
]
NamePath = Annotated[str, Path(min_length=1, max_length=NAME_CHARS_MAX, pattern=PLAIN)]
Cursor = Annotated[
    str | None,
    Query(max_length=CHARS_MAX, description="Where to go on: `next_cursor` of the page before."),
]
Limit = Annotated[int, Query(ge=1, le=200, description="How many at most.")]
Since = Annotated[Instant | None, Query(description="From this instant on.")]
Until = Annotated[Instant | None, Query(description="Before this instant.")]
