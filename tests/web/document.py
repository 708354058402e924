"""The OpenAPI document, made once in a process: that takes as long as a hundred small tests."""

from headway.cli.api import describe

DOCUMENT = describe()
