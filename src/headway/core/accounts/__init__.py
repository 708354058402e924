"""Jobs of the account lane: order, pagination, records, webhooks, reasons."""
