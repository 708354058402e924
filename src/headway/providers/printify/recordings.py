"""What is kept of Printify's replies in a recording."""

from headway.providers.printify.replies import PrintifyOrder, PrintifyProduct
from headway.providers.recordings import RecordingRule
from headway.providers.stand_ins import StripRule

KEPT = """
cost created_at currency current_page delivered_at from fulfilled_at is_available is_default
is_enabled is_locked last_page limit page per_page price quantity sent_to_production_at shipped_at
shipping_cost to total total_price total_shipping total_tax updated_at visible
"""
STATUSES = """
pending on-hold cost-calculation sending-to-production in-production partially-fulfilled fulfilled
canceled cancelled payment-not-received has-issues unfulfillable source-check-failed
sending_to_production_delegate sending_to_production_delegate_sync error
"""

RECORDING = RecordingRule(
    strip=StripRule(kept=frozenset(KEPT.split()), codes={"status": frozenset(STATUSES.split())}),
    rows={
        "orders": (("data",), PrintifyOrder.model_validate),
        "order": ((), PrintifyOrder.model_validate),
        "products": (("data",), PrintifyProduct.model_validate),
    },
)
