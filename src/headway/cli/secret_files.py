"""Secrets that a command is given: in a file or over stdin, never as an argument.

Others on the machine can read arguments.
"""

import sys
from pathlib import Path

from headway.errors import ConfigError

STDIN = Path("-")


def secret_text(path: Path) -> str:
    """Return the text of a file, or of stdin for -; raises ConfigError."""
    if path == STDIN:
        return sys.stdin.read()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not plain text"
        raise ConfigError(f"{path}: {why}") from None
