"""The settings in force and their sources, and the generated pages that describe all settings."""

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Literal, get_args, get_origin

from pydantic import SecretStr, WithJsonSchema

from headway.config import (
    Settings,
    environment,
    setting_name,
    shared_fields,
    table_example,
)
from headway.config.document_settings import ALIASES, ENV_FILE, REPLACED, read_env_file

HEAD = """# Settings

Written by `headway doctor --reference`. `headway doctor` lists the values in force and
their sources.

Set a setting as an environment variable, as a line of the file `.env` in the folder where a process
starts, or as a line of `headway.toml` there, or of the file that `HEADWAY_CONFIG` points to. The
environment wins over `.env`, and that over `headway.toml`. Headway refuses to start if it finds an
unknown setting; an empty value means "not set".
[`headway.example.toml`](../../headway.example.toml) has all of them with their defaults.

| setting | default | values | meaning |
|---|---|---|---|
"""
FOOT = """
A *table* is a table in the file; in the environment write:

"""
DOCUMENTS = """
Headway also accepts these settings of its design documents. `headway doctor`, and a process that
starts, say what replaces them:

"""
AGREED = """
All processes on one database must have the same value of these settings, and one encryption key in
common; `headway doctor` and a starting process report a difference:

"""
EXAMPLE_HEAD = """\
## Written by `headway doctor --example`: every setting with its default.
## Copy to headway.toml and uncomment what you change.
## The environment wins over this file; Headway refuses to start if it finds an unknown name.
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
        f"| `{setting_name(field)}` | {_default(info.default)} | {_allowed(field)} |"
        f" {info.description} |"
        for field, info in Settings.model_fields.items()
    ]
    tables = [
        f"- `{setting_name(field)}={table_example(field)}`"
        for field in Settings.model_fields
        if table_example(field)
    ]
    agreed = [f"- `{setting_name(field)}`" for field in shared_fields()]
    renamed = [f"- `{name}`: the same as `{ours}`" for name, ours in ALIASES.items()]
    renamed += [f"- `{name}`: {reason}" for name, reason in REPLACED.items()]
    return "\n".join(
        [
            HEAD + "\n".join(rows),
            FOOT + "\n".join(tables),
            DOCUMENTS + "\n".join(renamed),
            AGREED + "\n".join(agreed),
            "",
        ]
    )


def example_file() -> str:
    """Return the example of a settings file."""
    settings = [
        f"\n## {info.description}\n# {setting_name(field)} = {_toml(info.default)}\n"
        for field, info in Settings.model_fields.items()
    ]
    return EXAMPLE_HEAD + "".join(settings)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return str(value)
    if isinstance(value, dict):
        pairs = [
            f"{key if key.isidentifier() else json.dumps(key)} = {_toml(item)}"
            for key, item in value.items()
        ]
        return f"{{ {', '.join(pairs)} }}"
    return json.dumps(_masked(value))


def _default(value: object) -> str:
    shown = _masked(value) if not isinstance(value, bool) else str(value).lower()
    return f"`{shown}`" if shown else ""


def _allowed(name: str) -> str:
    info = Settings.model_fields[name]
    if table_example(name):
        return "a table"
    if SecretStr in (info.annotation, *get_args(info.annotation)):
        return "a secret"
    if get_origin(info.annotation) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(info.annotation))
    if info.annotation is bool:
        return "`true`, `false`"
    for rule in info.metadata:
        if isinstance(rule, WithJsonSchema):
            return ", ".join(f"`{value}`" for value in (rule.json_schema or {})["enum"])
    bounds = [
        f"{words} {getattr(bound, kind):,}"
        for bound in info.metadata
        for kind, words in BOUNDS.items()
        if hasattr(bound, kind)
    ]
    return ", ".join(bounds)


def settings_in_force(settings: Settings | None) -> Iterator[InForce]:
    """Yield every known setting with its source; without settings, the defaults."""
    env_file = _own(read_env_file())
    environ = _own(os.environ)
    path = Path(environment().get("HEADWAY_CONFIG", "headway.toml"))
    in_file: set[str] = set()
    with suppress(OSError, ValueError):  # an unreadable file is reported where settings are read
        in_file = set(tomllib.loads(path.read_text(encoding="utf-8")))
    for field, info in Settings.model_fields.items():
        name = setting_name(field)
        value = info.default if settings is None else getattr(settings, field)
        source = str(path) if name in in_file else "default"
        if name in environ or name in env_file:
            source = "environment" if name in environ else ENV_FILE
        yield InForce(name=name, value=_masked(value), source=source, help=info.description or "")


def _own(values: Mapping[str, str]) -> set[str]:
    """Return the names that are set, ours for those of the documents."""
    return {ALIASES.get(name, name) for name in values}


def _masked(value: object) -> str:
    if isinstance(value, SecretStr):
        return "(set, not shown)" if value.get_secret_value() else ""
    if isinstance(value, dict):
        return ", ".join(f"{left}={right}" for left, right in value.items())
    return "" if value is None else str(value)
