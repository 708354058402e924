"""Finding and installing the programs that some tests need."""

import os
import re
from pathlib import Path

import pytest
from tests import programs
from tests.browser import chromium
from tests.machine import Machine
from tests.monitoring import prometheus
from tests.pooler import pgbouncer
from tests.programs import main

STARTS = "exit 0"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def put(path: Path, script: str = STARTS) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def machine(place: Path, *, is_root: bool = False, ci: str = "", folders: str = "") -> Machine:
    """Return a machine whose PATH is only this folder."""
    environment = {"PATH": str(place), "CI": ci, "HOME": str(place)}
    return Machine(
        environment=environment, folders=folders, is_root=is_root, python=f"{place}/python"
    )


def script_that_creates(*paths: Path) -> str:
    """Return a script that creates programs."""
    return "; ".join(
        f"printf '#!/bin/sh\\nexit 0\\n' > '{path}'; /bin/chmod 755 '{path}'" for path in paths
    )


def test_an_installed_program_is_used_and_nothing_is_installed(place: Path, tmp_path: Path) -> None:
    put(place / "apt-get", f"echo > {place}/ran")
    put(place / "python", f"echo > {place}/ran")
    browser = put(place / "chromium")
    assert chromium.find_or_install(machine(place, is_root=True)) == browser
    packaged = put(tmp_path / "sbin" / "pgbouncer")
    system = machine(place, is_root=True, folders=f"{tmp_path}/sbin")
    assert pgbouncer.find_or_install(system) == packaged
    on_path = put(place / "pgbouncer")
    assert pgbouncer.find_or_install(system) == on_path
    assert not (place / "ran").exists()


def test_a_program_that_does_not_start_is_skipped(place: Path) -> None:
    put(place / "chromium", "exit 1")
    assert chromium.find(machine(place)) is None
    other = put(place / "google-chrome")
    assert chromium.find(machine(place)) == other


def test_root_installs_packages_and_updates_the_lists_if_needed(place: Path) -> None:
    lists = place / "lists"
    names = ("pgbouncer", "prometheus", "promtool", "alertmanager")
    install = script_that_creates(*(place / name for name in names))
    fetch = f'[ "$1" = update ] && : > {lists} && exit 0\n[ -e {lists} ] || exit 100'
    put(place / "apt-get", f"{fetch}\n{install}")
    assert pgbouncer.find_or_install(machine(place)) is None, "only root may"
    assert prometheus.find_or_install(machine(place)) is None, "only root may"
    assert pgbouncer.find_or_install(machine(place, is_root=True)) == f"{place}/pgbouncer"
    programs_found = prometheus.find_or_install(machine(place, is_root=True))
    assert programs_found is not None
    assert programs_found.alertmanager == f"{place}/alertmanager"


@pytest.mark.parametrize("is_root", (False, True))
def test_a_browser_is_downloaded_if_packages_fail(place: Path, *, is_root: bool) -> None:
    own = place / "ours"
    put(place / "apt-get", "exit 100" if is_root else script_that_creates(place / "chromium"))
    put(place / "python", f'[ "$1" = -c ] && echo {own} && exit 0\n{script_that_creates(own)}')
    assert chromium.find_or_install(machine(place, is_root=is_root)) == str(own)
    assert not (place / "chromium").exists()


@pytest.mark.parametrize(("ci", "code"), (("", 0), ("true", 1)))
def test_a_missing_program_is_reported_with_a_hint_and_fails_in_ci(
    place: Path, capsys: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    assert main(machine(place, ci=ci)) == code
    last = capsys.readouterr().err.splitlines()[-len(programs.FINDERS) :]
    ways = (
        "apt-get install chromium", "tests.programs", "apt-get install pgbouncer",
        "apt-get install prometheus",
    )  # fmt: skip
    for line, way in zip(last, ways, strict=True):
        assert re.search("are skipped. To run them(:|, connect)", line)
        assert way in line


@pytest.mark.parametrize(
    ("ci", "outcome"), (("", pytest.skip.Exception), ("true", pytest.fail.Exception))
)
def test_a_test_without_its_program_is_skipped_and_fails_in_ci(
    place: Path, ci: str, outcome: type[BaseException]
) -> None:
    with pytest.raises(outcome, match="none was found"):
        machine(place, ci=ci).skip("none was found")


def test_finding_installs_nothing(place: Path) -> None:
    put(place / "apt-get", f"echo > {place}/ran")
    for finder in programs.FINDERS:
        assert finder.find(machine(place, is_root=True)) is None
    assert not (place / "ran").exists()


def test_the_defaults_describe_this_machine() -> None:
    here = Machine()
    assert here.is_root == (os.geteuid() == 0)
    assert here.environment == dict(os.environ)
