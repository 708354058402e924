"""Fixtures of the conformance tests."""

from tests.lab.conformance.plugin import installed

__all__ = ["installed"]
