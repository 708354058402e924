"""Headway keeps a storefront true to a supplier that may be asked only a few times a minute."""

__version__ = "0.1.0"
