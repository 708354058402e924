"""Listings and shops: quotes, change detection, guard, lifecycle, push planning."""
