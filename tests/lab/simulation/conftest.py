"""Simulations use the connections of the law tests, which are those of the command."""

from tests.laws.conftest import pool

__all__ = ["pool"]
