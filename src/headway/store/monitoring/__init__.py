"""Alerts, notices, processes, freshness and law checks."""
