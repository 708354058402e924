"""What other programs use to work with a Headway server: permits for their own calls.

`with headway.client.permit("main") as call:` makes one call under the limit of that supplier.
"""

from headway.client.permits import Call, PermitRequest, permit

__all__ = ["Call", "PermitRequest", "permit"]
