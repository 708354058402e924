"""What a caller may write into an address or a body, declared once."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
)

from headway.core.accounts.jobs import PLATFORM_PATTERN, PlatformName
from headway.core.catalog.intake import seller_of, sku_of
from headway.core.catalog.listings import SellerId, Sku, SupplierName
from headway.errors import InvalidError
from headway.providers.registry import BUILT_IN_PLATFORMS
from headway.store.cursors import CHARS_MAX

SKUS_MAX = 1000
NAME_CHARS_MAX = 255
REASON_CHARS_MAX = 500
# Longer than any valid API key, and short enough to refuse other text.
SECRET_CHARS_MAX = 4000
ERRORS_SHOWN = 5
ISO_BEGINS = re.compile(r"\d{4}-\d\d-\d\d")
# No text in the database can hold this one character.
PLAIN = r"^[^\x00]*$"


class RequestBody(BaseModel):
    """The body of a request; an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def example(*values: Mapping[str, Any]) -> ConfigDict:
    """Return the configuration of a body with these examples."""
    return ConfigDict(
        extra="forbid",
        frozen=True,
        json_schema_extra={"examples": [dict(value) for value in values]},
    )


def checked(check: Callable[[str], str]) -> AfterValidator:
    """Make a validator of a rule of the core."""

    def validate(text: str) -> str:
        try:
            return check(text)
        except InvalidError as error:
            raise ValueError(str(error)) from None

    return AfterValidator(validate)


def _in_utc(at: datetime) -> datetime:
    """Return the instant in UTC; a zone may put it into a year that cannot be written."""
    try:
        return at.astimezone(UTC)
    except OverflowError:
        raise ValueError("the year must be within 1 and 9999, in UTC") from None


def _iso_text(value: object) -> object:
    """Refuse numbers, which would be taken for seconds since 1970."""
    if isinstance(value, int | float) or (isinstance(value, str) and not ISO_BEGINS.match(value)):
        raise ValueError("write a time in ISO 8601 with a zone, such as 2026-03-04T12:00:00Z")
    return value


def field_errors(errors: Sequence[Mapping[str, Any]], *, skip: int = 0) -> str:
    """Name each field at fault and the reason; `skip` leaves out so much of each place."""
    reasons = []
    for error in errors[:ERRORS_SHOWN]:
        place = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"][skip:]
        )
        reason = str(error["msg"]).removeprefix("Value error, ")
        reasons.append(f"{place.lstrip('.') or 'body'}: {reason}")
    return "; ".join(reasons)


Instant = Annotated[AwareDatetime, BeforeValidator(_iso_text), AfterValidator(_in_utc)]
SkuText = Annotated[Sku, checked(sku_of), Field(examples=["WF338109=K3"])]
Skus = Annotated[list[SkuText], Field(min_length=1, max_length=SKUS_MAX)]
SellerText = Annotated[SellerId, checked(seller_of), Field(examples=["acme"])]
SupplierText = Annotated[
    SupplierName, Field(min_length=1, max_length=NAME_CHARS_MAX, pattern=PLAIN, examples=["east"])
]
PlatformText = Annotated[
    PlatformName,
    Field(
        pattern=PLATFORM_PATTERN,
        description=f"The platform: {', '.join(BUILT_IN_PLATFORMS)}, or one of an installed"
        " plug-in; `headway providers` lists them.",
    ),
]
ReasonText = Annotated[
    str, Field(max_length=REASON_CHARS_MAX, pattern=PLAIN, examples=["yearly price list"])
]
# Printed as stars everywhere; only the request of our own client contains it.
Secret = Annotated[
    SecretStr,
    Field(min_length=1, max_length=SECRET_CHARS_MAX),
    PlainSerializer(lambda secret: secret.get_secret_value(), return_type=str, when_used="json"),
]
SkuPath = Annotated[
    Sku,
    Field(
        min_length=1,
        max_length=NAME_CHARS_MAX,
        pattern=PLAIN,
        description="The supplier's part number, percent-encoded; it may hold `/`, `=` and spaces.",
        examples=["WF338109=K3"],
    ),
]
SellerPath = Annotated[
    SellerId, checked(seller_of), Field(description="The seller's name.", examples=["acme"])
]
NamePath = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX, pattern=PLAIN)]
SellerQuery = Annotated[SellerId | None, Field(description="One seller's alone; else all.")]
SkuQuery = Annotated[
    Sku | None, Field(max_length=NAME_CHARS_MAX, pattern=PLAIN, description="One part's alone.")
]
Cursor = Annotated[
    str | None,
    Field(max_length=CHARS_MAX, description="Where to go on: `next_cursor` of the page before."),
]
Limit = Annotated[int, Field(ge=1, le=200, description="How many at most.")]
Since = Annotated[Instant | None, Field(description="From this instant on.")]
Until = Annotated[Instant | None, Field(description="Before this instant.")]
Days = Annotated[float, Field(gt=0, le=366, description="How far back.")]
