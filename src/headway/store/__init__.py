"""PostgreSQL, and the only SQL of the project."""
