"""Etsy: a platform behind Open API v3."""
