"""Settings, read once from the environment and `headway.toml`, then frozen.

Names are the documents' (`SYNC_*`, `DATABASE_URL`) where they have one, else `HEADWAY_*`. Headway
refuses to start if it finds an unknown setting. A setting is declared in this package and nowhere
else: `docs/reference/settings.md` and `headway.example.toml` are generated from it.
"""

import os
from collections.abc import Mapping
from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from headway.config.declarations import (
    ApiVersion,
    ChannelNames,
    Currency,
    DescriptionTemplate,
    Markups,
    Minutes,
    Place,
    PolicyName,
    ReturnSecret,
    ReturnUrls,
    TierNumbers,
    UnitName,
    parse_hours,
)
from headway.config.declarations import setting as _setting
from headway.config.declarations import shared as _shared
from headway.config.document_settings import own_names, read_env_file
from headway.config.input import parse_table, read_file, suggest
from headway.config.retention import RetentionSettings
from headway.config.supplier_fields import (
    FIELDS,
    HEADERS,
    PATHS,
    FieldName,
    HeaderName,
    HttpHeader,
    JsonName,
    JsonNames,
    PathName,
    UrlPath,
)
from headway.core.catalog.change_detection import UNITS, fold
from headway.core.catalog.description_template import DEFAULT
from headway.core.monitoring.rules import THRESHOLDS
from headway.errors import ConfigError

PREFIXES = ("HEADWAY_", "SYNC_")


class Settings(RetentionSettings):
    """Everything a deployment may choose; `headway doctor` prints the values in force."""

    policy: PolicyName = _shared(
        "HEADWAY_POLICY", "adaptive", "which policy decides when a listing is due"
    )
    budget_share: float = _shared(
        "HEADWAY_BUDGET_SHARE", 1.0, "share of the permitted calls that adaptive spends", gt=0, le=1
    )
    seat_value_s: float = _shared(
        "HEADWAY_SEAT_VALUE",
        0.1,
        "seconds of staleness that reading a part must save, or adaptive leaves the call to others;"
        " 0 spends every call",
        ge=0,
    )
    batch_size: int = _shared("SYNC_BATCH_SIZE", 10, "seats in one supplier call", ge=1, le=10)
    rate_limit: int = _shared(
        "SYNC_BOEING_RATE_LIMIT_TOKENS", 2, "supplier calls allowed in any minute", ge=1, le=1000
    )
    rate_gap_s: float = _shared(
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
    read_events: Literal["auto", "on", "off"] = _shared(
        "HEADWAY_READ_EVENTS",
        "auto",
        "events sync_started, sync_completed and dispatch_started of every read: two rows for each"
        " part that is read; auto: in a database that was taken over (headway adopt)",
    )

    price_basis: Literal["list", "net"] = _shared(
        "HEADWAY_PRICE_BASIS", "list", "which quoted price a shop's price is made from"
    )
    markup: Decimal = _shared(
        "HEADWAY_MARKUP", Decimal("0.10"), "added to it, as a share of it", gt=-1, le=100
    )
    markups: Markups = _shared(
        "HEADWAY_MARKUPS",
        "",
        "markups of groups of parts instead of it, by part number or family; the first that matches"
        " holds: WF*=12%, family:Hardware=8%",
    )
    rounding: Literal["cent", "whole", "99"] = _shared(
        "HEADWAY_ROUNDING", "cent", "to the nearest cent or unit, or up to the next .99"
    )
    margin_min: Decimal = _setting(
        "HEADWAY_MARGIN_MIN", Decimal(0), "least markup on what a part costs us", gt=-1, le=100
    )
    compare_at: Literal["keep", "clear", "list"] = _shared(
        "HEADWAY_COMPARE_AT",
        "keep",
        "crossed-out price: leave the merchant's own, remove it, or show the list price where"
        " ours is lower",
    )
    channels: ChannelNames = _shared(
        "HEADWAY_CHANNELS",
        "Online Store",
        "sales channels on which published parts are visible, separated by commas; none: nowhere",
    )
    oversell: Literal["keep", "deny"] = _shared(
        "HEADWAY_OVERSELL",
        "keep",
        "variants that sell at zero stock: leave and report them, or stop it",
    )
    description_template: DescriptionTemplate = _shared(
        "HEADWAY_DESCRIPTION_TEMPLATE",
        DEFAULT,
        "HTML that new products are described with; values stand for {name}, {description}, {sku},"
        " {vendor}, {condition}, {unit}, {pack} and {origin}",
    )
    images: bool = _shared(
        "HEADWAY_IMAGES",
        default=False,
        help_="give new products the supplier's images; they are its property, so ask it first",
    )
    guard_move: Decimal = _setting(
        "HEADWAY_GUARD_MOVE", Decimal("0.50"), "price changes beyond this share are held", ge=0
    )
    guard_share: Decimal = _setting(
        "HEADWAY_GUARD_SHARE",
        Decimal("0.25"),
        "changes are held once this share of a catalog changed within a day; 1 holds none",
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

    boeing_url: str = _shared(
        "HEADWAY_BOEING_URL", "https://api.developer.boeingservices.com", "supplier's base address"
    )
    boeing_client_id: str = _shared("HEADWAY_BOEING_CLIENT_ID", "", "OAuth client id")
    boeing_client_secret: SecretStr = _setting(
        "HEADWAY_BOEING_CLIENT_SECRET", SecretStr(""), "OAuth client secret"
    )
    boeing_username: str = _setting("HEADWAY_BOEING_USERNAME", "", "user of the part token")
    boeing_password: SecretStr = _setting(
        "HEADWAY_BOEING_PASSWORD", SecretStr(""), "password of the part token"
    )
    boeing_day_limit: int | None = _shared(
        "HEADWAY_BOEING_DAY_LIMIT",
        None,
        "supplier calls allowed in any 24 hours, token requests included; none sets no ceiling",
        ge=1,
    )
    boeing_currency: Currency = _shared(
        "HEADWAY_BOEING_CURRENCY", "USD", "currency of a supplier's reply that names none"
    )
    boeing_paths: dict[PathName, UrlPath] = _setting(
        "HEADWAY_BOEING_PATHS",
        dict(PATHS),
        "paths of the supplier's three requests",
        table="price=/v2/price",
        is_partial=True,
    )
    boeing_scope: Place = _setting(
        "HEADWAY_BOEING_SCOPE", "api://helixapis.com/.default", "OAuth scope that is asked for"
    )
    boeing_headers: dict[HeaderName, HttpHeader] = _setting(
        "HEADWAY_BOEING_HEADERS",
        dict(HEADERS),
        "names of the supplier's headers: those of the part token's request, its reply, its use",
        table="part_token=x-boeing-parts-authorization",
        is_partial=True,
    )
    boeing_flags: dict[JsonName, bool] = _setting(
        "HEADWAY_BOEING_FLAGS",
        {"showNoStock": True, "showLocation": True},
        "flags of a price request",
        table="showNoStock=true,showLocation=true",
    )
    boeing_fields: dict[FieldName, JsonNames] = _shared(
        "HEADWAY_BOEING_FIELDS",
        dict(FIELDS),
        "names of the fields in the supplier's replies; several of one field are separated by |",
        table="list_price=listPrice,error=error|errorMessage",
        is_partial=True,
    )
    units: dict[UnitName, Annotated[int, Field(ge=1, le=1_000_000)]] = _shared(
        "HEADWAY_UNITS",
        dict(UNITS),
        "pieces in a unit of measure; a price by any other unit is held",
        table="EA=1,HD=100",
        is_partial=True,
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
    shopify_client_id: str = _shared(
        "HEADWAY_SHOPIFY_CLIENT_ID", "", "the app's client id; needed where tokens expire"
    )
    shopify_client_secret: SecretStr = _setting(
        "HEADWAY_SHOPIFY_CLIENT_SECRET", SecretStr(""), "the app's client secret"
    )
    shopify_timeout_s: float = _setting(
        "HEADWAY_SHOPIFY_TIMEOUT_S", 30, "silence after which a shop call is given up", gt=0, le=120
    )
    rehearsal: bool = _setting(
        "HEADWAY_REHEARSAL",
        default=True,
        help_="a new shop is read, and not written before somebody starts it",
    )
    bulk_from: int = _setting(
        "HEADWAY_BULK_FROM", 1000, "prices waiting in one shop from which they go in bulk", ge=2
    )
    drift: Literal["repair", "report", "off"] = _setting(
        "HEADWAY_DRIFT", "repair", "what to do when a shop was changed outside Headway"
    )
    drift_check_h: float = _setting(
        "HEADWAY_DRIFT_CHECK_HOURS", 24, "hours in which every product of a shop is read back", ge=1
    )
    locations: Annotated[dict[Place, Place], Field(min_length=1)] = _shared(
        "HEADWAY_LOCATIONS",
        {
            "Dallas Central": "Dallas Central",
            "Chicago IL": "Chicago IL",
            "Miami FL": "Miami FL",
            "Goodyear AZ": "Goodyear AZ",
        },
        "supplier location → shop location; stock elsewhere is not sold",
        table="Supplier place=Shop place",
    )
    locations_unsold: str = _shared(
        "HEADWAY_LOCATIONS_UNSOLD",
        "Germany CSC",
        "supplier locations that are left out on purpose, comma-separated; others raise an alert",
    )
    currency: Currency = _shared("HEADWAY_CURRENCY", "USD", "currency the shop sells in")

    intervals_min: TierNumbers = _setting(
        "HEADWAY_INTERVALS",
        {"free": 60, "starter": 30, "growth": 15, "pro": 5},
        "minutes between two pulls of an account's orders, by tier",
        table="free=60,pro=5",
        is_partial=True,
    )
    kind_intervals_min: dict[Literal["orders", "listings", "customers", "payments"], Minutes] = (
        _setting(
            "HEADWAY_KIND_INTERVALS",
            {"orders": 0, "listings": 360, "customers": 360, "payments": 60},
            "minutes between two pulls, at least, by what is pulled",
            table="orders=0,payments=60",
            is_partial=True,
        )
    )
    order_quotas: TierNumbers = _setting(
        "HEADWAY_ORDER_QUOTAS",
        {"free": 50, "starter": 300, "growth": 1500, "pro": 5000},
        "orders a month, by tier",
        table="free=50,pro=5000",
        is_partial=True,
    )
    promises_min: TierNumbers = _setting(
        "HEADWAY_PROMISES",
        {"free": 1440, "starter": 1440, "growth": 1440, "pro": 1440},
        "minutes within which 95 % of a seller's parts were read, by tier; watched, not enforced",
        table="free=1440,pro=60",
        is_partial=True,
    )
    alert_thresholds: dict[str, Annotated[float, Field(ge=0)]] = _setting(
        "HEADWAY_ALERTS",
        dict(THRESHOLDS),
        "thresholds of alerts; see docs/runbook",
        table="overdue=100,error_share=0.05",
        is_partial=True,
    )
    notify_urls: SecretStr = _setting(
        "HEADWAY_NOTIFY_URLS",
        SecretStr(""),
        "where alerts are sent: Apprise addresses, separated by spaces",
    )
    notify_quiet: Annotated[tuple[time, time] | None, BeforeValidator(parse_hours)] = _setting(
        "HEADWAY_NOTIFY_QUIET",
        None,
        "hours (UTC) in which only critical alerts are sent: 22:00-07:00",
    )
    jobs_max: int = _shared("HEADWAY_JOBS_MAX", 10, "jobs that run at once, everywhere", ge=1)
    job_failures_max: int = _setting(
        "HEADWAY_JOB_FAILURES_MAX", 5, "failures in a row until a job is dead", ge=1, le=20
    )
    ageing_min: float = _setting(
        "HEADWAY_AGEING_MINUTES", 5, "minutes of waiting that weigh as much as one point", gt=0
    )
    pull_workers: int = _setting(
        "HEADWAY_PULL_WORKERS", 4, "jobs that one process runs at once", ge=0, le=64
    )
    public_url: str = _setting(
        "HEADWAY_PUBLIC_URL", "", "where browsers and platforms reach this server, for webhooks"
    )
    return_urls: ReturnUrls = _setting(
        "HEADWAY_RETURN_URLS",
        "",
        "addresses of your application that a connect link may return to, comma-separated;"
        " addresses below them are allowed too",
    )
    return_secret: ReturnSecret = _setting(
        "HEADWAY_RETURN_SECRET",
        SecretStr(""),
        "secret that signs what a connect link returns, at least 32 characters",
    )
    etsy_url: str = _setting("HEADWAY_ETSY_URL", "https://api.etsy.com", "Etsy's address")
    etsy_keystring: str = _shared("HEADWAY_ETSY_KEYSTRING", "", "the app's keystring")
    etsy_shared_secret: SecretStr = _setting(
        "HEADWAY_ETSY_SHARED_SECRET", SecretStr(""), "the app's shared secret"
    )
    etsy_webhook_secret: SecretStr = _setting(
        "HEADWAY_ETSY_WEBHOOK_SECRET", SecretStr(""), "signing secret of its webhooks, whsec_..."
    )
    etsy_day_limit: int = _shared(
        "HEADWAY_ETSY_DAY_LIMIT", 10_000, "calls in 24 hours, until Etsy's replies say more", ge=1
    )
    etsy_second_limit: int = _setting(
        "HEADWAY_ETSY_SECOND_LIMIT", 10, "calls in a second, until its replies say more", ge=2
    )
    printify_url: str = _setting(
        "HEADWAY_PRINTIFY_URL", "https://api.printify.com", "Printify's address"
    )
    printify_webhook_secret: SecretStr = _setting(
        "HEADWAY_PRINTIFY_WEBHOOK_SECRET", SecretStr(""), "the secret given with its webhooks"
    )
    shopify_api_version: ApiVersion = _setting(
        "HEADWAY_SHOPIFY_API_VERSION",
        "2026-04",
        "version of Shopify's Admin API; Headway is tested with the default",
    )
    shopify_scopes: str = _setting(
        "HEADWAY_SHOPIFY_SCOPES",
        "",
        "access scopes to ask for, with commas; empty: all that Headway needs",
    )
    platform_timeout_s: float = _setting(
        "HEADWAY_PLATFORM_TIMEOUT_S", 30, "silence after which a pull is given up", gt=0, le=120
    )

    @field_validator("*", mode="before")
    @classmethod
    def _fill_partial_tables(cls, value: object, info: ValidationInfo) -> object:
        """Add the defaults of the keys that a partial table leaves out."""
        assert info.field_name is not None
        if not isinstance(value, dict) or not _marks(info.field_name)["is_partial"]:
            return value
        return {**cls.model_fields[info.field_name].default, **value}

    @field_validator("alert_thresholds")
    @classmethod
    def _check_alert_names(cls, thresholds: dict[str, float]) -> dict[str, float]:
        """Refuse a threshold for an alert that has none: it would have no effect."""
        if unknown := thresholds.keys() - THRESHOLDS.keys():
            raise ValueError(f"no alert with a number is called {', '.join(sorted(unknown))}")
        return thresholds

    @field_validator("locations")
    @classmethod
    def _check_location_names(cls, locations: dict[str, str]) -> dict[str, str]:
        """Refuse names that differ only in case and spaces: they are one location."""
        if len({fold(name) for name in locations}) < len(locations):
            raise ValueError("two names differ only in case or spaces, which do not count")
        return locations

    @model_validator(mode="after")
    def _confirm_before_parking(self) -> "Settings":
        """Refuse to park a part that the shop would still show in stock."""
        if self.missing_confirmations > self.failures_max:
            raise ValueError(
                "HEADWAY_MISSING_CONFIRMATIONS must not exceed SYNC_MAX_CONSECUTIVE_FAILURES, or a"
                " part that is gone would be parked while the shop still sells it"
            )
        return self


def setting_name(field: str) -> str:
    """Return the name of a setting in the environment and in the file."""
    return str(cast("AliasChoices", Settings.model_fields[field].validation_alias).choices[0])


def shared_fields() -> list[str]:
    """Return the fields that all processes on one database must agree on."""
    return [field for field in Settings.model_fields if _marks(field)["shared"]]


def table_example(field: str) -> str:
    """Return how a table setting is written in the environment; empty for any other setting."""
    return str(_marks(field)["table"])


def _marks(field: str) -> dict[str, Any]:
    return cast("dict[str, Any]", Settings.model_fields[field].json_schema_extra)


def environment() -> dict[str, str]:
    """Return the variables of the environment, over those of the file `.env` of this folder."""
    return {**read_env_file(), **os.environ}


def load(environ: Mapping[str, str] | None = None, *, file: Path | None = None) -> Settings:
    """Read settings; raises ConfigError.

    The environment wins over `.env`, that over `headway.toml`, that over the defaults. Names of the
    design documents are accepted, see `document_settings`.
    """
    environ = own_names(environment() if environ is None else environ)
    config_path = environ.get("HEADWAY_CONFIG")
    if config_path and not Path(config_path).is_file():
        raise ConfigError(
            f"HEADWAY_CONFIG points to {config_path}, which does not exist or is not a file"
        )
    known = {setting_name(field): field for field in Settings.model_fields}
    values = read_file(file or Path(config_path or "headway.toml"), known)
    for name, value in environ.items():
        if name in known:
            values[name] = parse_table(name, value, table_example(known[name]))
        elif name.startswith(PREFIXES) and name != "HEADWAY_CONFIG":
            raise ConfigError(f"unknown setting {name}{suggest(name, known)}")
    # An empty line in an environment file means "not set", never "the current folder".
    values_set = {name: value for name, value in values.items() if value != ""}
    try:
        return Settings.model_validate(values_set)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"setting {where}: {reason}" if where else reason) from None
