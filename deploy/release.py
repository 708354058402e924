"""Make a release: one version everywhere, the release notes, a commit and a tag.

`make release VERSION=1.2.0` shows what would change; with `APPLY=1` it is done. Nothing is pushed.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

from headway.clock import SystemClock

NOTES = "CHANGELOG.md"
UNRELEASED = "## [Unreleased]\n"
# File → how it writes the version.
PLACES = {
    "pyproject.toml": 'version = "{}"',
    "src/headway/__init__.py": '__version__ = "{}"',
    "docs/reference/openapi.json": '\n    "version": "{}"',
}


def edits(root: Path, version: str, day: str) -> dict[Path, str]:
    """Return the new text of each file; exits with the reason if there is nothing to release."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"VERSION={version} is not a version such as 1.2.0")
    old = re.search(r'^version = "(.+)"$', (root / "pyproject.toml").read_text(), re.MULTILINE)
    if old is None or old[1] == version:
        sys.exit(f"pyproject.toml already has version {version}, or none")
    texts = {}
    for name, pattern in PLACES.items():
        text = (root / name).read_text(encoding="utf-8")
        if text.count(pattern.format(old[1])) != 1:
            sys.exit(f"{name} does not have {pattern.format(old[1])} exactly once")
        texts[root / name] = text.replace(pattern.format(old[1]), pattern.format(version))
    notes = (root / NOTES).read_text(encoding="utf-8")
    before, heading, rest = notes.partition(UNRELEASED)
    if not heading or not re.split(r"^## \[", rest, maxsplit=1, flags=re.MULTILINE)[0].strip():
        sys.exit(f"{NOTES} has nothing under {UNRELEASED.strip()}")
    texts[root / NOTES] = f"{before}{UNRELEASED}\n## [{version}] - {day}\n{rest}"
    return texts


def main() -> None:
    """Show the change, or make it and tag it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--apply", action="store_true")
    options = parser.parse_args()
    root = Path.cwd()
    texts = edits(root, options.version, f"{SystemClock().now():%Y-%m-%d}")
    print(
        f"version {options.version} in: {', '.join(str(path.relative_to(root)) for path in texts)}"
    )
    if not options.apply:
        print("nothing was changed; add APPLY=1 to commit and tag it")
        return
    git = ("git", "-C", str(root))
    if subprocess.run([*git, "status", "--porcelain"], capture_output=True, check=True).stdout:
        sys.exit("the tree has changes that are not committed; commit or stash them first")
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    tag = f"v{options.version}"
    subprocess.run([*git, "commit", "-q", "-a", "-m", f"Release {options.version}"], check=True)
    subprocess.run([*git, "tag", "-a", tag, "-m", f"Headway {options.version}"], check=True)
    print(f"committed and tagged {tag}; push it with: git push origin HEAD {tag}")


if __name__ == "__main__":
    main()
