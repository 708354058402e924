"""How a setting is declared, and the types that several of them have."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasChoices,
    Field,
    SecretStr,
    StringConstraints,
    WithJsonSchema,
)

from headway.core.accounts.outcome_links import read_return_urls
from headway.core.catalog.channels import read_names
from headway.core.catalog.description_template import check_template
from headway.core.catalog.term_tables import read_markups
from headway.core.timetable.policies import POLICIES
from headway.errors import InvalidError

SECRET_CHARS_MIN = 32
Place = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Currency = Annotated[
    str, StringConstraints(strip_whitespace=True, to_upper=True, pattern=r"^[A-Za-z]{3}$")
]
UnitName = Annotated[
    str, StringConstraints(strip_whitespace=True, to_upper=True, pattern=r"^\S{1,20}$")
]
ApiVersion = Annotated[str, StringConstraints(pattern=r"^20\d\d-(01|04|07|10)$")]
TierNumbers = dict[Literal["free", "starter", "growth", "pro"], Annotated[int, Field(ge=1)]]


def _known_policy(name: str) -> str:
    if name not in POLICIES:
        raise ValueError(f"must be one of {', '.join(POLICIES)}")
    return name


PolicyName = Annotated[
    str, AfterValidator(_known_policy), WithJsonSchema({"type": "string", "enum": list(POLICIES)})
]


def _checked(check: Callable[[str], object], text: str) -> str:
    try:
        check(text)
    except InvalidError as error:
        raise ValueError(str(error)) from None
    return text


def _long_enough(secret: SecretStr) -> SecretStr:
    if 0 < len(secret.get_secret_value()) < SECRET_CHARS_MIN:
        raise ValueError(f"must have at least {SECRET_CHARS_MIN} characters")
    return secret


ChannelNames = Annotated[str, AfterValidator(partial(_checked, read_names))]
Markups = Annotated[str, AfterValidator(partial(_checked, read_markups))]
DescriptionTemplate = Annotated[str, AfterValidator(partial(_checked, check_template))]
ReturnUrls = Annotated[str, AfterValidator(partial(_checked, read_return_urls))]
ReturnSecret = Annotated[SecretStr, AfterValidator(_long_enough)]
Minutes = Annotated[float, Field(ge=0, le=44_640)]


def setting(name: str, default: Any, help_: str, **more: Any) -> Any:  # noqa: ANN401 - as pydantic's own Field
    """Declare a setting with bounds, as `Field` has them, and marks.

    All processes on one database must agree on a `shared` setting, or they would schedule, price or
    limit the same rows differently. `table` is an example of a table setting in the environment; if
    `is_partial`, keys that are left out keep their defaults.
    """
    marks = {mark: more.pop(mark, "") for mark in ("shared", "table", "is_partial")}
    alias = AliasChoices(name)
    return Field(
        default, validation_alias=alias, description=help_, json_schema_extra=marks, **more
    )


shared = partial(setting, shared=True)


def parse_hours(value: object) -> object:
    """Parse hours of the day written as 22:00-07:00."""
    return tuple(value.split("-")) if isinstance(value, str) else value
