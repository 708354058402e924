"""The embedded PostgreSQL: locate, start, own, stop."""
