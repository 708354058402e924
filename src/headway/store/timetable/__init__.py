"""The schedule: claims, due times, slots and the market of seats."""
