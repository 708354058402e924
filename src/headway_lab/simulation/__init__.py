"""A seeded world in virtual time, over the real engine and the real store."""
