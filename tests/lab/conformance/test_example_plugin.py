"""The example plug-in, installed without a network, is listed and passes the conformance suite."""

import json
import os
import sys
from pathlib import Path

from tests.lab.conformance.plugin import EXAMPLE, HEADWAY, run

from headway_lab.conformance import checks_of


def test_an_installed_plugin_is_listed_beside_the_built_in_providers(
    installed: Path, tmp_path: Path
) -> None:
    listed = run([HEADWAY, "providers", "--json"], installed, tmp_path)
    assert listed.returncode == 0, listed.stderr
    reply = json.loads(listed.stdout)
    example = next(provider for provider in reply["providers"] if provider["name"] == "example")
    assert example["version"] == "1.0.0"
    assert example["source"] == "headway-example-platform"
    assert example["roles"] == ["platform"]
    assert example["limits"] == ["60 calls a minute for each shop"]
    assert reply["broken"] == []


def test_a_broken_plugin_is_listed_with_its_reason(installed: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    (broken / "broken_one-1.dist-info").mkdir(parents=True)
    (broken / "broken_one-1.dist-info" / "METADATA").write_text("Name: broken-one\nVersion: 1\n")
    points = "[headway.providers]\nbroken = no_such_module:X\n"
    (broken / "broken_one-1.dist-info" / "entry_points.txt").write_text(points)
    plugins = Path(f"{installed}{os.pathsep}{broken}")
    listed = run([HEADWAY, "providers"], plugins, tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "example" in listed.stdout
    assert "broken: broken (broken-one 1): no_such_module:X: ModuleNotFoundError" in listed.stdout


def test_the_installed_plugin_passes_the_conformance_suite(installed: Path, tmp_path: Path) -> None:
    suite = [sys.executable, "-m", "pytest", "-c", os.devnull, "-p", "no:cacheprovider"]
    done = run([*suite, str(EXAMPLE / "tests")], installed, tmp_path)
    assert done.returncode == 0, done.stdout[-2000:]
    assert f"{len(checks_of('platform'))} passed" in done.stdout
