"""The documentation builds as a site: links lead somewhere, and nothing is loaded from afar."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(find_spec("mkdocs") is None, reason="make docs installs mkdocs")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; a link that leads nowhere, or a page outside the navigation, fails it."""
    folder = tmp_path_factory.mktemp("site")
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "-d", folder)
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder


def test_a_page_loads_nothing_from_another_host(site: Path) -> None:
    loaded = re.compile(
        r"<(?:script|img|iframe)[^>]+src=\"?(https?:)?//|<link[^>]+href=\"?https?://"
    )
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    assert [page.name for page in pages if loaded.search(page.read_text("utf-8"))] == []
    styles = [path.read_text("utf-8") for path in site.rglob("*.css")]
    assert not [text for text in styles if re.search(r"url\(['\"]?https?:|@import", text)]


def test_the_search_finds_a_word_of_every_section(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    places = {entry["location"].partition("/")[0] for entry in index["docs"]}
    assert {"tutorials", "how-to", "reference", "explanation", "runbook", "adr"} <= places
    assert any("quiet hours" in entry["text"] for entry in index["docs"])


def test_a_file_of_the_source_that_a_page_links_to_is_in_the_site(site: Path) -> None:
    assert (site / "project/headway.example.toml.txt").is_file()
