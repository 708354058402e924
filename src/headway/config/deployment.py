"""Settings of the deployment itself: database, page, workers, server, logs and metrics."""

from ipaddress import ip_network
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator

from headway.config.declarations import setting as _setting
from headway.config.declarations import shared as _shared
from headway.core.accounts.webhook_addresses import read_networks
from headway.errors import InvalidError


class DeploymentSettings(BaseModel):
    """Where and how the processes run."""

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

    celery_control: bool = _setting(
        "HEADWAY_CELERY_CONTROL",
        default=False,
        help_="let celery inspect and Flower see the workers; users of the broker can then"
        " stop them, and each message costs three more",
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

    webhook_rate: float = _shared(
        "HEADWAY_WEBHOOK_RATE", 20, "events a second sent to one endpoint, at most", ge=1, le=1000
    )
    webhook_timeout_s: float = _setting(
        "HEADWAY_WEBHOOK_TIMEOUT", 10, "seconds in which an endpoint must answer", ge=1, le=30
    )
    webhook_disable_days: float = _setting(
        "HEADWAY_WEBHOOK_DISABLE_DAYS",
        5,
        "days after which an endpoint that never answers well is disabled",
        ge=1,
        le=30,
    )
    webhook_retention_days: int = _setting(
        "HEADWAY_WEBHOOK_RETENTION_DAYS",
        30,
        "days that events for endpoints are kept, and can be sent again",
        ge=7,
    )
    webhook_networks: str = _setting(
        "HEADWAY_WEBHOOK_NETWORKS",
        "",
        "networks of your own that endpoints of operators may be in, also without https:"
        " 10.0.0.0/8, or 127.0.0.0/8 for development; endpoints of sellers never are",
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
        "port where each `headway worker` serves its metrics without a key; none turns it off",
        ge=0,
        le=65535,
    )
    metrics_host: str = _setting(
        "HEADWAY_METRICS_HOST", "127.0.0.1", "address of a worker's metrics"
    )

    @field_validator("broker_url")
    @classmethod
    def _check_broker(cls, url: SecretStr | None) -> SecretStr | None:
        """Refuse other brokers without showing the address, which may contain a secret."""
        if url is not None and not url.get_secret_value().startswith(("redis://", "rediss://")):
            raise ValueError("write it as redis://:password@host:6379/0, or rediss://")
        return url

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

    @field_validator("webhook_networks")
    @classmethod
    def _check_webhook_networks(cls, networks: str) -> str:
        """Refuse what is not a network."""
        try:
            read_networks(networks)
        except InvalidError as error:
            raise ValueError(str(error)) from None
        return networks
