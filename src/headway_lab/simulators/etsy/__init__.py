"""A simulated Etsy."""
