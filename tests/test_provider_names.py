"""No part of the product outside `providers/` names a provider, but for a few with a reason.

`headway_lab`, docs, comments of columns, and the examples in the help of commands and in the API's
document may name providers, too.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PRODUCT = Path(__file__).parent.parent / "src" / "headway"
NAMES = re.compile(r"\b(etsy|shopify|printify|boeing)(?:'s)?\b(?!\.com)", re.IGNORECASE)
READ = {".py", ".sql", ".html", ".js"}
# The documents' own names: tables, columns, events, settings; and addresses.
ALLOWED = {
    "config/__init__.py": "settings are declared once, also those of built-in providers",
    "config/supplier_fields.py": "paths and headers of the API, which are settings",
    "core/dispatch.py": "the one supplier of the settings and the one storefront",
    "core/catalog/intake.py": "product ids in the documents' files are written gid://shopify/...",
    "core/catalog/shop_export.py": "the columns of the shop's own export, a file that people have",
    "observe/logs.py": "a header with a token that is cut from log lines",
    "store/migrations/0001_baseline.up.sql": "a migration is never changed",
    "store/migrations/0018_account_rows.up.sql": "which platform has one shop a seller",
    "operations/account_import.py": "the example of a row",
    "store/migrations/0004_open_platforms.down.sql": "the names that older versions know",
    "web/formatting.py": "the documents' event shopify_updated is shown as 'Shop updated'",
}


def named(file: Path) -> Iterator[str]:
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if NAMES.search(line):
            yield f"{file.relative_to(PRODUCT)}:{number}: {line.strip()}"


def is_help(line: str) -> bool:
    """Return True for an example in the help of a command."""
    text = line.split(": ", 1)[1]
    return text.startswith(("headway ", '"')) or "help=" in text or "_examples(" in text


def is_documentation(line: str) -> bool:
    """Return True for an example in the API's document and for the comment of a column."""
    text = line.split(": ", 1)[1]
    return "Example: `" in text or "FieldDoc(" in text or text.startswith("COMMENT ON ")


def outside() -> list[Path]:
    files = (file for file in PRODUCT.rglob("*") if file.suffix in READ)
    return sorted(file for file in files if "providers" not in file.relative_to(PRODUCT).parts[:1])


def test_only_providers_name_a_provider() -> None:
    lines = [
        line
        for file in outside()
        if file.relative_to(PRODUCT).as_posix() not in ALLOWED
        for line in named(file)
        if not is_documentation(line)
        if not (file.relative_to(PRODUCT).parts[0] == "cli" and is_help(line))
    ]
    assert lines == []


@pytest.mark.parametrize("name", ALLOWED)
def test_every_exception_is_needed(name: str) -> None:
    assert list(named(PRODUCT / name)), f"{name} names no provider any more; remove it"
