"""The documentation builds as a site: links lead somewhere, and nothing is loaded from afar.

`make test` installs what builds it. Without that these tests fail: a page must not rot unnoticed.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import httpx
import pytest
from tests.conftest import HTTP_TIMEOUT_S

ROOT = Path(__file__).parent.parent
BUILD_FILES = ("pyproject.toml", "README.md", "LICENSE")
RUN = "from headway.cli import docs, main; print(docs.SITE, flush=True); main(['docs'])"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site; a link that leads nowhere, or a page outside the navigation, fails it."""
    folder = tmp_path_factory.mktemp("site")
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "-d", folder)
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, f"{built.stderr} (make docs installs mkdocs)"
    return folder


@pytest.fixture(scope="module")
def installed(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel as `make wheel` does, after the site, and unpack it."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__", "site")
    shutil.copytree(ROOT / "src", folder / "src", ignore=ignored)
    shutil.copytree(ROOT / "docs/runbook", folder / "docs/runbook")
    shutil.copytree(site, folder / "src/headway/web/site")
    for name in BUILD_FILES:
        shutil.copy(ROOT / name, folder)
    command = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist")
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(folder / "installed")
    return folder / "installed"


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


@pytest.mark.parametrize("signal_number", (signal.SIGINT, signal.SIGTERM))
def test_an_installed_wheel_serves_the_site_until_a_signal(
    installed: Path, signal_number: signal.Signals
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONUNBUFFERED": "1"}
    command = (sys.executable, "-c", RUN)
    with subprocess.Popen(
        command, cwd=installed, env=environment, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(str(installed))
            address = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline())
            assert address
            with httpx.Client(timeout=HTTP_TIMEOUT_S, trust_env=False) as client:
                assert "Headway documentation" in client.get(address[0]).text
                assert client.get(f"{address[0]}search/search_index.json").json()["docs"]
            process.send_signal(signal_number)
            assert process.wait() == 0
        finally:
            process.kill()


def test_make_wheel_builds_the_site_first() -> None:
    command = ("make", "--dry-run", "--always-make", "wheel")
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert 0 < lines.find("mkdocs build --strict") < lines.find("hatchling build")
