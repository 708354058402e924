"""A simulated Printify."""
