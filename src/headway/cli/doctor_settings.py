"""The settings for a person: what is in force and why, and the page that describes them all."""

import os
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args, get_origin

from pydantic import AliasChoices, SecretStr, WithJsonSchema

from headway.config import TABLES, Settings

HEAD = """# Settings

Written by `headway doctor --reference`. `headway doctor` lists what is in force, and why.

A setting is a variable of the environment, or a line of `headway.toml` in the folder where a
process starts, or of the file that `HEADWAY_CONFIG` names. The environment wins. A name that is not
in this list is an error; an empty value is as good as none.
[`headway.example.toml`](../../headway.example.toml) has all of them with their defaults.

| setting | default | may be | what it is |
|---|---|---|---|
"""
FOOT = """
A *table* is a table in the file; in the environment write:

"""
BOUNDS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """One setting: its value, masked if secret, and where it comes from."""

    name: str
    value: str
    source: str
    help: str


def reference() -> str:
    """Return the page of all settings."""
    rows = [
        f"| `{alias(name)}` | {_default(info.default)} | {_allowed(name)} | {info.description} |"
        for name, info in Settings.model_fields.items()
    ]
    tables = [f"- `{name}={example}`" for name, example in TABLES.items()]
    return HEAD + "\n".join(rows) + "\n" + FOOT + "\n".join(tables) + "\n"


def _default(value: object) -> str:
    shown = _masked(value) if not isinstance(value, bool) else str(value).lower()
    return f"`{shown}`" if shown else ""


def _allowed(name: str) -> str:
    info = Settings.model_fields[name]
    if alias(name) in TABLES:
        return "a table"
    if SecretStr in (info.annotation, *get_args(info.annotation)):
        return "a secret"
    if get_origin(info.annotation) is Literal:
        return ", ".join(f"`{each}`" for each in get_args(info.annotation))
    if info.annotation is bool:
        return "`true`, `false`"
    for rule in info.metadata:
        if isinstance(rule, WithJsonSchema):
            return ", ".join(f"`{value}`" for value in (rule.json_schema or {})["enum"])
    bounds = [
        f"{word} {getattr(each, kind):,}"
        for each in info.metadata
        for kind, word in BOUNDS.items()
        if hasattr(each, kind)
    ]
    return ", ".join(bounds)


def settings_in_force(settings: Settings | None) -> Iterator[InForce]:
    """Yield every known setting with its source; without settings, the defaults."""
    path = Path(os.environ.get("HEADWAY_CONFIG", "headway.toml"))
    in_file: set[str] = set()
    with suppress(OSError, ValueError):  # an unreadable file is reported where settings are read
        in_file = set(tomllib.loads(path.read_text(encoding="utf-8")))
    for field, info in Settings.model_fields.items():
        name = alias(field)
        value = info.default if settings is None else getattr(settings, field)
        source = str(path) if name in in_file else "default"
        if name in os.environ:
            source = "environment"
        yield InForce(name=name, value=_masked(value), source=source, help=info.description or "")


def alias(field: str) -> str:
    """Return the name by which a person knows a setting."""
    choices = Settings.model_fields[field].validation_alias
    assert isinstance(choices, AliasChoices)
    return str(choices.choices[0])


def _masked(value: object) -> str:
    if isinstance(value, SecretStr):
        return "(set, not shown)" if value.get_secret_value() else ""
    if isinstance(value, dict):
        return ", ".join(f"{left}={right}" for left, right in value.items())
    return "" if value is None else str(value)
