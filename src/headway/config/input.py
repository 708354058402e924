"""Read settings from a file and from the environment, before they are validated."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.errors import ConfigError


def read_file(path: Path, known: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings of a file, if there is one; raises ConfigError."""
    if not path.exists():
        return {}
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path}: {error}") from None
    for name in values:
        if name not in known:
            raise ConfigError(f"{path}: unknown setting {name}{suggest(name, known)}")
    return values


def parse_table(name: str, value: str, example: str) -> str | dict[str, str]:
    """Parse a table setting from its `a=b,c=d` form; leave other settings to the model."""
    if not example:
        return value
    pairs = [pair.partition("=") for pair in value.split(",") if pair.strip()]
    if any(not sign or not left.strip() for left, sign, _ in pairs):
        raise ConfigError(f"setting {name}: write it as '{example},...'")
    table = {left.strip(): right.strip() for left, _, right in pairs}
    if len(table) < len(pairs):
        raise ConfigError(f"setting {name}: name each only once")
    return table


def suggest(name: str, known: Mapping[str, str]) -> str:
    """Return a hint at the setting that was meant."""
    import difflib  # noqa: PLC0415 - only on the way to an error

    # What all settings have in common says nothing about which one was meant.
    stems = {other.partition("_")[2]: other for other in known}
    close = difflib.get_close_matches(name.partition("_")[2], stems, n=1, cutoff=0.7)
    if not close:
        return "; headway doctor --reference lists all settings"
    return f"; did you mean {stems[close[0]]}?"
