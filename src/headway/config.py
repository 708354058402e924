"""Settings, read once from the environment and `headway.toml`, then frozen.

Names are the documents' (`SYNC_*`, `DATABASE_URL`) where they have one, else `HEADWAY_*`. Headway
refuses to start if it finds an unknown setting. A setting is declared here and nowhere else:
`docs/reference/settings.md` and `headway.example.toml` are generated from this file.
"""

import os
import tomllib
from collections.abc import Mapping
from datetime import time
from decimal import Decimal
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from headway.core.monitoring.rules import THRESHOLDS
from headway.core.timetable.policies import POLICIES
from headway.errors import ConfigError

PREFIXES = ("HEADWAY_", "SYNC_")
Place = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Currency = Annotated[
    str, StringConstraints(strip_whitespace=True, to_upper=True, pattern=r"^[A-Za-z]{3}$")
]
TierNumbers = dict[Literal["free", "starter", "growth", "pro"], Annotated[int, Field(ge=1)]]


def _known_policy(name: str) -> str:
    if name not in POLICIES:
        raise ValueError(f"must be one of {', '.join(POLICIES)}")
    return name


PolicyName = Annotated[
    str, AfterValidator(_known_policy), WithJsonSchema({"type": "string", "enum": list(POLICIES)})
]
Minutes = Annotated[float, Field(ge=0, le=44_640)]


def _setting(name: str, default: Any, help_: str, **more: Any) -> Any:  # noqa: ANN401 - as pydantic's own Field
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


_shared = partial(_setting, shared=True)


def _parse_hours(value: object) -> object:
    """Parse hours of the day written as 22:00-07:00."""
    return tuple(value.split("-")) if isinstance(value, str) else value


class Settings(BaseModel):
    """Everything a deployment may choose; `headway doctor` prints the values in force."""

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

    broker_url: SecretStr | None = _setting(
        "HEADWAY_BROKER_URL",
        None,
        "Redis or Valkey of headway worker: redis://:password@host:6379/0, or rediss://",
    )
    worker_concurrency: int = _setting(
        "HEADWAY_WORKER_CONCURRENCY", 8, "steps that one headway worker does at once", ge=1, le=256
    )
    ticks: Literal["workers", "beat"] = _setting(
        "HEADWAY_TICKS", "workers", "what starts a tick: one of the workers, or celery beat"
    )

    server: str = _setting(
        "HEADWAY_SERVER",
        "",
        "address of a Headway server to use over its API instead of a database; same as --server",
    )
    api_key: SecretStr = _setting(
        "HEADWAY_API_KEY", SecretStr(""), "API key for that server; see headway key create"
    )

    session_h: float = _setting(
        "HEADWAY_SESSION_HOURS", 72, "hours until a browser must log in again", gt=0, le=8760
    )
    requests_per_minute: int = _setting(
        "HEADWAY_REQUESTS_PER_MINUTE",
        3000,
        "requests a minute that one key may make with its sessions, in each process",
        ge=1,
    )

    trusted_proxies: str = _setting(
        "HEADWAY_TRUSTED_PROXIES",
        "127.0.0.1,::1",
        "proxies whose X-Forwarded-For is trusted: addresses or networks, comma-separated",
    )

    metrics_open: bool = _setting(
        "HEADWAY_METRICS_OPEN",
        default=False,
        help_="allow reading /metrics from this host without a key",
    )

    log_format: Literal["text", "json"] = _setting(
        "HEADWAY_LOG_FORMAT", "text", "format of log lines: plain text, or JSON"
    )
    traces: bool = _setting(
        "HEADWAY_TRACES",
        default=False,
        help_="send traces to an OpenTelemetry collector, by default on this host",
    )
    otlp_endpoint: str = _setting(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "",
        "address of that collector, http://host:4318; turns traces on",
    )
    metrics_port: int | None = _setting(
        "HEADWAY_METRICS_PORT",
        None,
        "port where a headway worker serves its metrics without a key; none turns it off",
        ge=0,
        le=65535,
    )
    metrics_host: str = _setting(
        "HEADWAY_METRICS_HOST", "127.0.0.1", "address of a worker's metrics"
    )

    policy: PolicyName = _shared(
        "HEADWAY_POLICY", "adaptive", "which policy decides when a listing is due"
    )
    budget_share: float = _shared(
        "HEADWAY_BUDGET_SHARE", 1.0, "share of the permitted calls that adaptive spends", gt=0, le=1
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
    ledger_retention_days: int = _setting(
        "HEADWAY_LEDGER_RETENTION_DAYS", 30, "days the call ledger is kept", ge=2
    )
    raw_retention_days: int = _setting(
        "HEADWAY_RAW_RETENTION_DAYS", 30, "days the supplier's raw replies are kept", ge=1
    )
    history_months: int = _setting(
        "HEADWAY_HISTORY_MONTHS", 24, "whole months the history is kept; 0 keeps all", ge=0
    )

    price_basis: Literal["list", "net"] = _shared(
        "HEADWAY_PRICE_BASIS", "list", "which quoted price a shop's price is made from"
    )
    markup: Decimal = _shared(
        "HEADWAY_MARKUP", Decimal("0.10"), "added to it, as a share of it", gt=-1, le=100
    )
    rounding: Literal["cent", "whole", "99"] = _shared(
        "HEADWAY_ROUNDING", "cent", "to the nearest cent or unit, or up to the next .99"
    )
    margin_min: Decimal = _setting(
        "HEADWAY_MARGIN_MIN", Decimal(0), "least markup on what a part costs us", gt=-1, le=100
    )
    compare_at: Literal["none", "list"] = _setting(
        "HEADWAY_COMPARE_AT", "none", "show the list price crossed out where ours is lower"
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
    notify_quiet: Annotated[tuple[time, time] | None, BeforeValidator(_parse_hours)] = _setting(
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
    shopify_scopes: str = _setting(
        "HEADWAY_SHOPIFY_SCOPES",
        "read_products,write_products,read_inventory,write_inventory,read_locations,"
        "read_orders,read_customers",
        "what a merchant is asked to grant; read_all_orders lifts the 60-day horizon",
    )
    platform_timeout_s: float = _setting(
        "HEADWAY_PLATFORM_TIMEOUT_S", 30, "silence after which a pull is given up", gt=0, le=120
    )

    @field_validator("broker_url")
    @classmethod
    def _check_broker(cls, url: SecretStr | None) -> SecretStr | None:
        """Refuse other brokers without showing the address, which may contain a secret."""
        if url is not None and not url.get_secret_value().startswith(("redis://", "rediss://")):
            raise ValueError("write it as redis://:password@host:6379/0, or rediss://")
        return url

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

    @field_validator("trusted_proxies")
    @classmethod
    def _check_networks(cls, proxies: str) -> str:
        """Refuse host names: DNS decides who they are, so they cannot be trusted."""
        for proxy in proxies.split(","):
            try:
                ip_network(proxy.strip())
            except ValueError:
                raise ValueError(
                    f"{proxy.strip()!r} is no address or network; write 10.0.0.7,10.1.0.0/16"
                ) from None
        return proxies

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


def load(environ: Mapping[str, str] | None = None, *, file: Path | None = None) -> Settings:
    """Read settings: environment over `headway.toml` over defaults; raises ConfigError."""
    environ = os.environ if environ is None else environ
    config_path = environ.get("HEADWAY_CONFIG")
    if config_path and not Path(config_path).is_file():
        raise ConfigError(
            f"HEADWAY_CONFIG points to {config_path}, which does not exist or is not a file"
        )
    known = {setting_name(field): field for field in Settings.model_fields}
    values = _from_file(file or Path(config_path or "headway.toml"), known)
    for name, value in environ.items():
        if name in known:
            values[name] = _parse(name, value, table_example(known[name]))
        elif name.startswith(PREFIXES) and name != "HEADWAY_CONFIG":
            raise ConfigError(f"unknown setting {name}{_suggest(name, known)}")
    # An empty line in an environment file means "not set", never "the current folder".
    values_set = {name: value for name, value in values.items() if value != ""}
    try:
        return Settings.model_validate(values_set)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        raise ConfigError(f"setting {where}: {reason}" if where else reason) from None


def _from_file(path: Path, known: Mapping[str, str]) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path}: {error}") from None
    for name in values:
        if name not in known:
            raise ConfigError(f"{path}: unknown setting {name}{_suggest(name, known)}")
    return values


def _parse(name: str, value: str, example: str) -> str | dict[str, str]:
    """Parse a table setting from its `a=b,c=d` form; leave other settings to the model."""
    if not example:
        return value
    pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
    if any(not sign or not left.strip() for left, sign, _ in pairs):
        raise ConfigError(f"setting {name}: write it as '{example},...'")
    table = {left.strip(): right.strip() for left, _, right in pairs}
    if len(table) < len(pairs):
        raise ConfigError(f"setting {name}: name each only once")
    return table


def _suggest(name: str, known: Mapping[str, str]) -> str:
    import difflib  # noqa: PLC0415 - only on the way to an error

    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else "; see `headway doctor` for the known ones"
