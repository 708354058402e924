"""API keys, sessions, idempotency keys and tenant isolation."""
