"""Metrics, logs, traces and notifications."""
