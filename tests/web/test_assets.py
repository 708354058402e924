"""Assets of the page: our own or vendored as recorded, never from another host."""

import hashlib
import re
from pathlib import Path

import pytest

import headway.web

WEB = Path(headway.web.__file__).parent
VENDOR = WEB / "static" / "vendor"
RECORDS = [
    line.split()
    for line in (VENDOR / "MANIFEST").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
]
OURS = [
    path for path in sorted([*WEB.glob("static/*"), *WEB.glob("templates/*")]) if path.is_file()
]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record[0])
def test_a_vendored_file_is_what_the_manifest_says(record: list[str]) -> None:
    name, _package, _version, _licence, expected = record
    assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == expected


def test_the_manifest_lists_every_vendored_file() -> None:
    vendored = {path.name for path in VENDOR.iterdir()} - {"MANIFEST"}
    assert vendored == {record[0] for record in RECORDS}


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_our_assets_refer_to_no_other_host(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    without_comments = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    assert not re.search(r"(https?:)?//[a-z0-9]", without_comments), path


@pytest.mark.parametrize("path", sorted(VENDOR.glob("*.css")), ids=lambda path: path.name)
def test_no_vendored_style_loads_from_another_host(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"@import|url\(\s*[\"']?(https?:)?//", text)


def test_the_page_has_no_inline_script_or_style_that_its_policy_would_block() -> None:
    for path in WEB.glob("templates/*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*\ssrc=)", text), path


def test_every_asset_that_a_template_names_exists() -> None:
    for path in WEB.glob("templates/*.html"):
        for name in re.findall(r'"/static/([^"]+)"', path.read_text(encoding="utf-8")):
            assert (WEB / "static" / name).is_file(), name
