"""Listings, products, changes, pushes and history."""
