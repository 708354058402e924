"""Simulations: seeded worlds in virtual time, over the real engine and the real store."""
