"""Shopify: a storefront and a platform behind the Admin GraphQL API."""
