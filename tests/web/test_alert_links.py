"""Every link of an alert and its runbook leads somewhere."""

import re
from pathlib import Path

import pytest
from tests.web.api_requests import ApiClient

from headway.core.monitoring.rules import RULES
from headway.web.sections import SECTIONS

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook"
TITLES = {section.title for section in SECTIONS.values()}


@pytest.mark.parametrize("link", sorted({rule.link for rule in RULES}))
def test_the_page_that_an_alert_links_to_exists(operator: ApiClient, link: str) -> None:
    response = operator.get(link, headers={"accept": "text/html"})
    assert response.status_code == 200, link
    assert "<h1" in response.text


@pytest.mark.parametrize("name", [rule.name for rule in RULES])
def test_the_runbook_of_an_alert_exists_and_names_pages_that_do(
    operator: ApiClient, name: str
) -> None:
    response = operator.get(f"/runbook/{name}")
    assert (response.status_code, response.text.partition("\n")[0]) == (200, f"# {name}")
    pages = re.findall(r"pages? \*([A-Z][a-z]+)\*", response.text)
    assert set(pages) <= TITLES
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", response.text):
        assert "://" in target or (RUNBOOK / target).is_file(), target
