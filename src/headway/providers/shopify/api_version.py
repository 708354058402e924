"""Shopify's API versions: one each quarter, each supported for at least twelve months.

After that Shopify answers in the oldest version that it still supports.
"""

from datetime import UTC, datetime, timedelta

DEFAULT_VERSION = "2026-04"
# So long before its support ends a version is reported.
NOTICE = timedelta(days=183)


def support_ends_at(version: str) -> datetime:
    """Return when the support of a version may end."""
    year, month = version.split("-")
    return datetime(int(year) + 1, int(month), 1, tzinfo=UTC)


def version_warning(version: str, now: datetime) -> str:
    """Return what to do about a version whose support ends soon; empty if it does not."""
    ends_at = support_ends_at(version)
    if now < ends_at - NOTICE:
        return ""
    ends = "may have ended" if now >= ends_at else "may end"
    return (
        f"support of API version {version} {ends} on {ends_at:%Y-%m-%d}; upgrade Headway, or set"
        " HEADWAY_SHOPIFY_API_VERSION to a version that it was tested with"
    )
