"""The runbook: every alert has a page, every page has an alert, and no login is needed."""

from pathlib import Path

import pytest

from headway.core.monitoring.alerts import AlertRule
from headway.core.monitoring.rules import RULES
from headway.observe.prometheus_rules import runbook_index
from headway.web.runbook import page

FOLDER = Path(__file__).parents[2] / "docs" / "runbook"
PARTS = ("What you see", "Why", "What to do", "When it is resolved")


def test_every_rule_has_its_page_and_every_page_its_rule() -> None:
    pages = {path.stem for path in FOLDER.glob("*.md")} - {"README"}
    assert pages == {rule.name for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_page_has_the_required_sections(rule: AlertRule) -> None:
    reply = page(rule.name)
    text = bytes(reply.body).decode()
    assert text.startswith(f"# {rule.name}\n\n{rule.summary}\n")
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert tuple(headings) == PARTS


def test_the_index_is_up_to_date() -> None:
    assert (FOLDER / "README.md").read_text(encoding="utf-8") == runbook_index(), (
        "write it again: headway alerts --runbook > docs/runbook/README.md"
    )


@pytest.mark.parametrize("name", ("no_such", "..", "README", "../../README"))
def test_no_other_file_is_served(name: str) -> None:
    assert page(name).status_code == 404
