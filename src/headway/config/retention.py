"""Settings of how long anything is kept."""

from headway.config.declarations import setting as _setting
from headway.config.deployment import DeploymentSettings


class RetentionSettings(DeploymentSettings):
    """After how many days rows are deleted."""

    ledger_retention_days: int = _setting(
        "HEADWAY_LEDGER_RETENTION_DAYS", 30, "days the call ledger is kept", ge=2
    )
    raw_retention_days: int = _setting(
        "HEADWAY_RAW_RETENTION_DAYS", 30, "days the supplier's raw replies are kept", ge=1
    )
    orders_retention_days: int = _setting(
        "HEADWAY_ORDERS_RETENTION_DAYS",
        0,
        "days closed orders are kept, with lines and shipments; 0 keeps all",
        ge=0,
    )
    customers_retention_days: int = _setting(
        "HEADWAY_CUSTOMERS_RETENTION_DAYS",
        0,
        "days customers are kept after their last order; 0 keeps all",
        ge=0,
    )
    payments_retention_days: int = _setting(
        "HEADWAY_PAYMENTS_RETENTION_DAYS",
        0,
        "days payments are kept; 0 keeps all",
        ge=0,
    )
    listings_retention_days: int = _setting(
        "HEADWAY_LISTINGS_RETENTION_DAYS",
        0,
        "days listings that are gone from the platform are kept; 0 keeps all",
        ge=0,
    )
    unreadable_retention_days: int = _setting(
        "HEADWAY_UNREADABLE_RETENTION_DAYS",
        0,
        "days unreadable records are kept, as received; 0 keeps all",
        ge=0,
    )
    history_months: int = _setting(
        "HEADWAY_HISTORY_MONTHS", 24, "whole months the history is kept; 0 keeps all", ge=0
    )
