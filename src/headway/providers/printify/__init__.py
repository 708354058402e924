"""Printify: a platform behind API v1."""
