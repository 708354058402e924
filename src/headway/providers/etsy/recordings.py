"""What is kept of Etsy's replies in a recording."""

from headway.providers.etsy.replies import EtsyLedgerEntry, EtsyListing, EtsyReceipt
from headway.providers.recordings import RecordingRule
from headway.providers.stand_ins import StripRule

KEPT = """
amount balance count create_date create_timestamp created_timestamp currency currency_code
description divisor expected_ship_date is_paid is_shipped last_modified_timestamp ledger_type limit
max_created min_created min_last_modified max_last_modified offset original_creation_timestamp
paid_timestamp quantity reference_type sequence_number shipment_notification_timestamp
shipped_timestamp sort_on sort_order update_timestamp updated_timestamp
"""
CODES = {
    "status": "paid|completed|open|payment processing|canceled|fully refunded|partially refunded"
    "|processing|unpaid|success|settled|closed",
    "state": "active|inactive|sold_out|draft|expired|removed|edit",
}
HEADERS = "x-limit-per-second x-remaining-this-second x-limit-per-day x-remaining-today"

RECORDING = RecordingRule(
    strip=StripRule(
        kept=frozenset(KEPT.split()),
        codes={name: frozenset(words.split("|")) for name, words in CODES.items()},
        ambiguous=frozenset({"state"}),  # of a listing, and of an address
        ids=frozenset({"links"}),
    ),
    headers=frozenset(HEADERS.split()),
    rows={
        "receipts": (("results",), EtsyReceipt.model_validate),
        "receipt": ((), EtsyReceipt.model_validate),
        "listings": (("results",), EtsyListing.model_validate),
        "ledger": (("results",), EtsyLedgerEntry.model_validate),
    },
)
