"""What other programs use to work with a Headway server: permits for their calls, and webhooks.

`with headway.client.permit("main") as call:` makes one call under the limit of that supplier.
`headway.client.read_webhook(secret, headers, body)` returns an event that Headway has signed.
"""

from headway.client.permits import Call, PermitRequest, permit
from headway.client.webhooks import read_webhook

__all__ = ["Call", "PermitRequest", "permit", "read_webhook"]
