"""What is kept of Shopify's replies in a recording."""

from headway.providers.recordings import RecordingRule
from headway.providers.shopify.reply_models import ShopifyCustomer, ShopifyOrder, ShopifyProduct
from headway.providers.stand_ins import StripRule

KEPT = """
actualQueryCost amount cancelledAt closedAt code createdAt currencyCode currentQuantity
currentlyAvailable deliveredAt field first handle hasNextPage inventoryQuantity list
maximumAvailable path price processedAt quantity requestedQueryCost restoreRate since stamp
until updatedAt
"""
FINANCIAL = "authorized expired paid partially_paid partially_refunded pending refunded voided"
FULFILLMENT = """
fulfilled in_progress on_hold open partially_fulfilled pending_fulfillment request_declined
restocked scheduled unfulfilled
"""
# Of products, transactions and shipments.
STATUS = """
active archived draft unlisted success failure error pending awaiting_response unknown cancelled
open
"""
KINDS = "authorization capture change emv_authorization refund sale suggested_refund void"
TYPES = """
Customer Fulfillment InventoryItem LineItem Location Order OrderTransaction Product ProductVariant
Publication Refund Shop
"""

RECORDING = RecordingRule(
    strip=StripRule(
        kept=frozenset(KEPT.split()),
        codes={
            "displayFinancialStatus": frozenset(FINANCIAL.split()),
            "displayFulfillmentStatus": frozenset(FULFILLMENT.split()),
            "status": frozenset(STATUS.split()),
            "kind": frozenset(KINDS.split()),
        },
        ids=frozenset({"above"}),
        id_prefix=f"gid://shopify/(?:{'|'.join(TYPES.split())})/",
    ),
    headers=frozenset({"x-shopify-api-version"}),
    rows={
        "orders": (("data", "orders", "nodes"), ShopifyOrder.model_validate),
        "products": (("data", "products", "nodes"), ShopifyProduct.model_validate),
        "customers": (("data", "customers", "nodes"), ShopifyCustomer.model_validate),
        "all_customers": (("data", "customers", "nodes"), ShopifyCustomer.model_validate),
    },
)
