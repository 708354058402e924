"""Feed: a supplier that is a price list, read over HTTPS or from a file."""
