"""The example plug-in, installed without a network, is listed and passes the conformance suite."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "headway-example-platform"
HEADWAY = str(Path(sys.executable).with_name("headway"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the example into a folder of its own."""
    folder = tmp_path_factory.mktemp("plug-ins")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target")
    command = [sys.executable, "-m", "pip", "install", *options, str(folder), str(EXAMPLE)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def run(command: Sequence[str], plugins: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
    return subprocess.run(
        command,
        env={**kept, "PYTHONPATH": str(plugins)},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_installed_plugin_is_listed_beside_the_built_in_providers(
    installed: Path, tmp_path: Path
) -> None:
    listed = run([HEADWAY, "providers", "--json"], installed, tmp_path)
    assert listed.returncode == 0, listed.stderr
    told = json.loads(listed.stdout)
    example = next(provider for provider in told["providers"] if provider["name"] == "example")
    assert example["version"] == "1.0.0"
    assert example["source"] == "headway-example-platform"
    assert example["roles"] == ["platform"]
    assert example["limits"] == ["60 calls a minute for each shop"]
    assert told["broken"] == []


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
    assert "13 passed" in done.stdout
