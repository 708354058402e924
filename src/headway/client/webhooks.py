"""Verify what Headway sends to your endpoint, and read the event.

The signature is that of Standard Webhooks, so any library for it works as well.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from headway.clock import SystemClock
from headway.core.accounts.standard_webhooks import is_signed
from headway.errors import InvalidError, UnauthenticatedError


def read_webhook(
    secrets: str | Sequence[str],
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: datetime | None = None,
) -> dict[str, Any]:
    """Return the event if one of the secrets signed it within five minutes.

    `body` are the bytes of the request as they came. Raises UnauthenticatedError if nobody signed
    them, and InvalidError if a secret is none. The same event may come again: remember its `id`.
    """
    named = {name.lower(): value for name, value in headers.items()}
    chosen = [secrets] if isinstance(secrets, str) else secrets
    at = now or SystemClock().now()
    if not any(is_signed(secret, named, body, at) for secret in chosen):
        raise UnauthenticatedError(
            "the webhook's signature does not match, or it is older than five minutes; compare the"
            " endpoint's secret, and verify the body before anything parses it"
        )
    event = json.loads(body)
    if not isinstance(event, dict):
        raise InvalidError("the webhook's body is not an event")
    return event
