"""What a verified webhook means: which account it is for, and what must be read because of it.

A webhook is a hint, never data: it reports that something changed, and Headway reads the change
from the platform. An uninstalled app is a hint too: the account is disconnected once the platform
refuses its token. Only a disconnect and requests about privacy take effect directly. Each platform
has its own parser, in its provider's folder; what they share is here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from headway.core.accounts.jobs import DataKind, JobRule, PlatformName, Tier
from headway.errors import RequestError

ID_CHARS_MAX = 200
# So many records that webhooks named are read one by one; more are left to the run's list.
NAMED_MAX = 5
# So many runs may follow webhooks at once; further ones are spaced like ordinary runs.
RUNS_AT_ONCE = 5
RUN_SPACING_MAX = timedelta(minutes=30)


class WebhookEffect(StrEnum):
    """The effect of a webhook."""

    WAKE = "wake"
    DISCONNECT = "disconnect"
    UNINSTALL = "uninstall"
    REDACT_CUSTOMER = "redact_customer"
    REDACT_SHOP = "redact_shop"
    RECORD = "record"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """One delivery. `kind` and `external_id` say what to read, if the delivery names it.

    `order_ids` are orders that a request about privacy names. `reason` is why an
    account is disconnected, if the effect is that.
    """

    platform: PlatformName
    delivery_id: str
    shop: str
    topic: str
    effect: WebhookEffect
    kind: DataKind | None = None
    external_id: str | None = None
    order_ids: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRecord:
    """A record that webhooks named; `is_listed` if a whole run since then did not bring it."""

    external_id: str
    is_listed: bool


def ids_to_read(records: Sequence[NamedRecord]) -> tuple[str, ...]:
    """Return the records that a run reads one by one, before its list.

    A few are all read. Of many, the list brings what changed since the last run; what an earlier
    list did not bring, such as an order too old for it, is read one in a run.
    """
    if len(records) > NAMED_MAX:
        records = [record for record in records if record.is_listed][:1]
    return tuple(record.external_id for record in records)


def run_spacing(tier: Tier, rule: JobRule) -> timedelta:
    """Return the time between two runs that follow webhooks, once many came."""
    return min(rule.intervals[tier], RUN_SPACING_MAX)


def run_burst(tier: Tier, rule: JobRule) -> timedelta:
    """Return the time whose runs may follow webhooks all at once."""
    return run_spacing(tier, rule) * (RUNS_AT_ONCE - 1)


def read_payload(body: bytes) -> Mapping[str, Any]:
    """Return the JSON object in a body; raises RequestError."""
    try:
        payload = json.loads(body)
    except (ValueError, RecursionError):
        payload = None
    if not isinstance(payload, dict):
        raise RequestError("the body is not a JSON object")
    return payload


def value_at(payload: Mapping[str, Any], path: str) -> object:
    """Return the value at a dotted path, or None if there is none."""
    value: object = payload
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def required_text(value: object, where: str) -> str:
    """Return an id or a word as text; raises RequestError that names where it is missing."""
    text = id_text(value)
    if text is None:
        raise RequestError(f"{where} is missing, or is not a short word")
    return text


def id_text(value: object) -> str | None:
    """Return an id or a word as text; None if it is neither, or if a table cannot store it."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    # Python refuses to write numbers that are absurdly long.
    text = value if isinstance(value, str) else str(value) if abs(value) < 10**30 else ""
    return text if 0 < len(text) <= ID_CHARS_MAX and text.isprintable() else None
