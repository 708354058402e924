"""`make release`: version, release notes and tag, on a scratch clone."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = ("pyproject.toml", "src/headway/__init__.py", "docs/reference/openapi.json", "CHANGELOG.md")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a repository with the files that a release touches."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    for command in (
        ("init", "-q"),
        ("config", "user.name", "tester"),
        ("config", "user.email", "tester@example.com"),
        ("add", "."),
        ("commit", "-qm", "Begin"),
    ):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def release(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "deploy" / "release.py", *arguments]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)


def test_a_release_without_apply_changes_nothing(clone: Path) -> None:
    before = {name: (clone / name).read_bytes() for name in FILES}
    done = release(clone, "9.8.7")
    assert "nothing was changed" in done.stdout
    assert {name: (clone / name).read_bytes() for name in FILES} == before


def test_a_release_sets_the_version_moves_the_notes_and_tags(clone: Path) -> None:
    done = release(clone, "9.8.7", "--apply")
    assert done.returncode == 0, done.stderr
    for name in FILES[:3]:
        assert '"9.8.7"' in (clone / name).read_text(), name
    notes = (clone / "CHANGELOG.md").read_text()
    top = notes.partition("## [Unreleased]\n")[2].lstrip()
    assert top.startswith("## [9.8.7] - 20")
    tags = subprocess.run(["git", "tag"], cwd=clone, capture_output=True, text=True, check=True)
    assert tags.stdout == "v9.8.7\n"
    again = release(clone, "9.8.8", "--apply")
    assert "has nothing under ## [Unreleased]" in again.stderr


@pytest.mark.parametrize("version", ("1.2", "v1.2.3", "1.2.3; rm"))
def test_a_version_that_is_none_is_refused(clone: Path, version: str) -> None:
    assert "is not a version such as 1.2.0" in release(clone, version).stderr
