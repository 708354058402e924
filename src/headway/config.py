"""Settings, read once from the environment and `headway.toml`, then frozen.

Names are the documents' (`SYNC_*`, `DATABASE_URL`) where they have one, else `HEADWAY_*`.
An unknown setting is an error: a misspelt limit must not pass silently.
"""

import os
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    model_validator,
)

from headway.errors import ConfigError

PREFIXES = ("HEADWAY_", "SYNC_")
Place = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Currency = Annotated[
    str, StringConstraints(strip_whitespace=True, to_upper=True, pattern=r"^[A-Za-z]{3}$")
]


def _setting(name: str, default: Any, help_: str, **bounds: Any) -> Any:  # noqa: ANN401 - as pydantic's own Field
    return Field(default, validation_alias=AliasChoices(name), description=help_, **bounds)


class Settings(BaseModel):
    """Everything a deployment may choose; `headway doctor` prints what is in force."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    database_url: SecretStr | None = _setting(
        "DATABASE_URL", None, "PostgreSQL to use; none starts the embedded one"
    )
    data_dir: Path = _setting(
        "HEADWAY_DATA_DIR", Path("~/.local/share/headway"), "where the embedded database lives"
    )
    secret_key: SecretStr | None = _setting(
        "HEADWAY_SECRET_KEY",
        None,
        "Fernet keys, newest first, comma-separated; none makes a key file",
    )
    web_host: str = _setting("HEADWAY_WEB_HOST", "127.0.0.1", "address of the page")
    web_port: int = _setting("HEADWAY_WEB_PORT", 8650, "port of the page", ge=0, le=65535)

    policy: Literal["packed", "split", "anchored", "rolling", "adaptive"] = _setting(
        "HEADWAY_POLICY", "adaptive", "which policy decides when a listing is due"
    )
    budget_share: float = _setting(
        "HEADWAY_BUDGET_SHARE", 1.0, "share of the permitted calls that adaptive spends", gt=0, le=1
    )
    batch_size: int = _setting("SYNC_BATCH_SIZE", 10, "seats in one supplier call", ge=1, le=10)
    rate_limit: int = _setting(
        "SYNC_BOEING_RATE_LIMIT_TOKENS", 2, "supplier calls allowed in any minute", ge=1, le=1000
    )
    rate_gap_s: float = _setting(
        "SYNC_BOEING_RATE_LIMIT_REFILL", 30, "seconds between two supplier calls, at least", ge=0
    )
    failures_max: int = _setting(
        "SYNC_MAX_CONSECUTIVE_FAILURES", 5, "failures of one SKU until it is parked", ge=1
    )
    backoff_base_h: float = _setting(
        "SYNC_BACKOFF_BASE_HOURS", 2, "hours until the first retry, doubled each time", gt=0
    )
    backoff_max_h: float = _setting("SYNC_BACKOFF_MAX_HOURS", 24, "longest backoff in hours", gt=0)
    missing_confirmations: int = _setting(
        "HEADWAY_MISSING_CONFIRMATIONS", 3, "misses of a SKU until its stock is set to zero", ge=1
    )
    ledger_retention_days: int = _setting(
        "HEADWAY_LEDGER_RETENTION_DAYS", 30, "days the call ledger is kept", ge=2
    )
    raw_retention_days: int = _setting(
        "HEADWAY_RAW_RETENTION_DAYS", 30, "days the supplier's raw replies are kept", ge=1
    )

    price_basis: Literal["list", "net"] = _setting(
        "HEADWAY_PRICE_BASIS", "list", "which quoted price a shop's price is made from"
    )
    markup: Decimal = _setting(
        "HEADWAY_MARKUP", Decimal("0.10"), "added to it, as a share of it", gt=-1, le=100
    )
    rounding: Literal["cent", "whole", "99"] = _setting(
        "HEADWAY_ROUNDING", "cent", "to the nearest cent or unit, or up to the next .99"
    )
    margin_min: Decimal = _setting(
        "HEADWAY_MARGIN_MIN", Decimal(0), "least markup on what a part costs us", gt=-1, le=100
    )
    compare_at: Literal["none", "list"] = _setting(
        "HEADWAY_COMPARE_AT", "none", "show the list price crossed out where ours is lower"
    )
    guard_move: Decimal = _setting(
        "HEADWAY_GUARD_MOVE", Decimal("0.50"), "price moves beyond this share are held", ge=0
    )
    guard_share: Decimal = _setting(
        "HEADWAY_GUARD_SHARE",
        Decimal("0.25"),
        "changes are held once this share of a catalogue moved within a day; 1 holds none",
        ge=0,
        le=1,
    )
    draft_parked: bool = _setting(
        "HEADWAY_DRAFT_PARKED",
        default=True,
        help_="take a parked part off sale until it is revived",
    )
    shop_sku: Literal["same", "base"] = _setting(
        "HEADWAY_SHOP_SKU", "same", "the shop's SKU: the supplier's, or without its =suffix"
    )

    boeing_url: str = _setting(
        "HEADWAY_BOEING_URL", "https://api.developer.boeingservices.com", "supplier's base address"
    )
    boeing_client_id: str = _setting("HEADWAY_BOEING_CLIENT_ID", "", "OAuth client id")
    boeing_client_secret: SecretStr = _setting(
        "HEADWAY_BOEING_CLIENT_SECRET", SecretStr(""), "OAuth client secret"
    )
    boeing_username: str = _setting("HEADWAY_BOEING_USERNAME", "", "user of the part token")
    boeing_password: SecretStr = _setting(
        "HEADWAY_BOEING_PASSWORD", SecretStr(""), "password of the part token"
    )
    boeing_timeout_s: float = _setting(
        "HEADWAY_BOEING_TIMEOUT_S",
        30,
        "silence after which a supplier call is given up",
        gt=0,
        le=120,
    )
    shopify_url: str = _setting(
        "HEADWAY_SHOPIFY_URL", "https://{shop}", "address of a shop, by its domain"
    )
    shopify_client_id: str = _setting(
        "HEADWAY_SHOPIFY_CLIENT_ID", "", "the app's client id; needed where tokens expire"
    )
    shopify_client_secret: SecretStr = _setting(
        "HEADWAY_SHOPIFY_CLIENT_SECRET", SecretStr(""), "the app's client secret"
    )
    shopify_timeout_s: float = _setting(
        "HEADWAY_SHOPIFY_TIMEOUT_S", 30, "silence after which a shop call is given up", gt=0, le=120
    )
    bulk_from: int = _setting(
        "HEADWAY_BULK_FROM", 1000, "prices waiting in one shop from which they go in bulk", ge=2
    )
    drift: Literal["repair", "report", "off"] = _setting(
        "HEADWAY_DRIFT", "repair", "what becomes of a shop that was changed behind our back"
    )
    patrol_h: float = _setting(
        "HEADWAY_PATROL_HOURS", 24, "hours in which every product of a shop is read back", ge=1
    )
    locations: Annotated[dict[Place, Place], Field(min_length=1)] = _setting(
        "HEADWAY_LOCATIONS",
        {
            "Dallas Central": "Dallas Central",
            "Chicago IL": "Chicago IL",
            "Miami FL": "Miami FL",
            "Goodyear AZ": "Goodyear AZ",
        },
        "supplier location → shop location; stock elsewhere is not sold",
    )
    currency: Currency = _setting("HEADWAY_CURRENCY", "USD", "currency the shop sells in")

    @model_validator(mode="after")
    def _confirm_before_parking(self) -> "Settings":
        """Refuse to park a part that the shop would still show in stock."""
        if self.missing_confirmations > self.failures_max:
            raise ValueError(
                "HEADWAY_MISSING_CONFIRMATIONS must not exceed SYNC_MAX_CONSECUTIVE_FAILURES, or a"
                " part that is gone would be parked while the shop still sells it"
            )
        return self


def load(environ: Mapping[str, str] | None = None, *, file: Path | None = None) -> Settings:
    """Read settings: environment over `headway.toml` over defaults; raises ConfigError."""
    environ = os.environ if environ is None else environ
    named = environ.get("HEADWAY_CONFIG")
    if named and not Path(named).is_file():
        raise ConfigError(f"HEADWAY_CONFIG names {named}, which is not a file")
    values = _from_file(file or Path(named or "headway.toml"))
    known = {_alias(name): name for name in Settings.model_fields}
    for name, value in environ.items():
        if name in known:
            values[name] = _parse(name, value)
        elif name.startswith(PREFIXES) and name != "HEADWAY_CONFIG":
            raise ConfigError(f"unknown setting {name}{_suggest(name, known)}")
    # An empty line in an environment file means "not set", never "the current folder".
    given = {name: value for name, value in values.items() if value != ""}
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"setting {where}: {said}" if where else said) from None


def _alias(field: str) -> str:
    choices = Settings.model_fields[field].validation_alias
    assert isinstance(choices, AliasChoices)
    return str(choices.choices[0])


def _from_file(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path}: {error}") from None
    known = {_alias(name): name for name in Settings.model_fields}
    for name in values:
        if name not in known:
            raise ConfigError(f"{path}: unknown setting {name}{_suggest(name, known)}")
    return values


def _parse(name: str, value: str) -> str | dict[str, str]:
    """Read a table setting from its `a=b,c=d` form; leave the rest to the model."""
    if name != "HEADWAY_LOCATIONS":
        return value
    pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
    if any(not sign or not left.strip() for left, sign, _ in pairs):
        raise ConfigError(f"setting {name}: write it as 'Supplier place=Shop place,...'")
    places = {left.strip(): right.strip() for left, _, right in pairs}
    if len(places) < len(pairs):
        raise ConfigError(f"setting {name}: name each supplier place once")
    return places


def _suggest(name: str, known: Mapping[str, str]) -> str:
    import difflib  # noqa: PLC0415 - only on the way to an error

    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else "; see `headway doctor` for the known ones"
