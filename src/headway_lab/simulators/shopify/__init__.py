"""A simulated Shopify."""
