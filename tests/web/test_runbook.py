"""The runbook: every alert has its page, every page its alert, and anybody may read it."""

from pathlib import Path

import pytest

from headway.core.monitoring.rules import RULES, Rule
from headway.web.runbook import page

FOLDER = Path(__file__).parents[2] / "docs" / "runbook"
PARTS = ("What it means", "What to look at", "What to do", "When it resolves")


def test_every_rule_has_its_page_and_every_page_its_rule() -> None:
    pages = {path.stem for path in FOLDER.glob("*.md")} - {"README"}
    assert pages == {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_page_says_what_it_means_what_to_do_and_when_it_is_over(rule: Rule) -> None:
    reply = page(rule.name)
    text = bytes(reply.body).decode()
    assert text.startswith(f"# {rule.name}\n\n{rule.what}\n")
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert tuple(headings) == PARTS


def test_the_list_of_pages_has_the_tables_numbers() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    for rule in RULES:
        number = "" if rule.limit is None else f"{rule.limit:g} {rule.unit}"
        row = f"| [{rule.name}]({rule.name}.md) | {rule.severity} | {number} | {rule.what} |"
        assert row in text, f"docs/runbook/README.md lacks: {row}"


@pytest.mark.parametrize("name", ("no_such", "..", "README", "../../README"))
def test_nothing_else_is_served(name: str) -> None:
    assert page(name).status_code == 404
