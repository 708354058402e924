"""The limiter in PostgreSQL, its ledger, breakers and quotas."""
