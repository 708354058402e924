"""How the programs that some tests need are found: on the PATH, as packages, or not at all."""

import os
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
    """Return a machine that has only what this folder holds."""
    environment = {"PATH": str(place), "CI": ci, "HOME": str(place)}
    return Machine(
        environment=environment, folders=folders, is_root=is_root, python=f"{place}/python"
    )


def made(*paths: Path) -> str:
    """Return a script that makes programs."""
    return "; ".join(
        f"printf '#!/bin/sh\\nexit 0\\n' > '{path}'; /bin/chmod 755 '{path}'" for path in paths
    )


def test_what_is_there_serves_and_nothing_is_installed(place: Path, tmp_path: Path) -> None:
    put(place / "apt-get", f"echo > {place}/ran")
    put(place / "python", f"echo > {place}/ran")
    browser = put(place / "chromium")
    assert chromium.find_or_install(machine(place, is_root=True)) == browser
    system = put(tmp_path / "sbin" / "pgbouncer")
    there = machine(place, is_root=True, folders=f"{tmp_path}/sbin")
    assert pgbouncer.find_or_install(there) == system
    on_path = put(place / "pgbouncer")
    assert pgbouncer.find_or_install(there) == on_path
    assert not (place / "ran").exists()


def test_what_does_not_start_is_passed_over(place: Path) -> None:
    put(place / "chromium", "exit 1")
    assert chromium.find(machine(place)) is None
    other = put(place / "google-chrome")
    assert chromium.find(machine(place)) == other


def test_root_installs_packages_after_fetching_the_lists_if_need_be(place: Path) -> None:
    lists = place / "lists"
    names = ("pgbouncer", "prometheus", "promtool", "alertmanager")
    install = made(*(place / name for name in names))
    fetch = f'[ "$1" = update ] && : > {lists} && exit 0\n[ -e {lists} ] || exit 100'
    put(place / "apt-get", f"{fetch}\n{install}")
    assert pgbouncer.find_or_install(machine(place)) is None, "only root may"
    assert prometheus.find_or_install(machine(place)) is None, "only root may"
    assert pgbouncer.find_or_install(machine(place, is_root=True)) == f"{place}/pgbouncer"
    found = prometheus.find_or_install(machine(place, is_root=True))
    assert found is not None
    assert found.alertmanager == f"{place}/alertmanager"


@pytest.mark.parametrize("is_root", (False, True))
def test_a_browser_is_downloaded_where_packages_do_not_help(place: Path, *, is_root: bool) -> None:
    own = place / "ours"
    put(place / "apt-get", "exit 100" if is_root else made(place / "chromium"))
    put(place / "python", f'[ "$1" = -c ] && echo {own} && exit 0\n{made(own)}')
    assert chromium.find_or_install(machine(place, is_root=is_root)) == str(own)
    assert not (place / "chromium").exists()


@pytest.mark.parametrize(("ci", "code"), (("", 0), ("true", 1)))
def test_where_nothing_helps_a_line_says_what_to_do_and_ci_fails(
    place: Path, capsys: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    assert main(machine(place, ci=ci)) == code
    last = capsys.readouterr().err.splitlines()[-len(programs.FINDERS) :]
    for line, package in zip(last, ("chromium", "pgbouncer", "prometheus"), strict=True):
        assert "are skipped. To run them: " in line
        assert f"apt-get install {package}" in line


@pytest.mark.parametrize(
    ("ci", "outcome"), (("", pytest.skip.Exception), ("true", pytest.fail.Exception))
)
def test_a_test_without_its_program_is_skipped_and_fails_in_ci(
    place: Path, ci: str, outcome: type[BaseException]
) -> None:
    with pytest.raises(outcome, match="none was found"):
        machine(place, ci=ci).lacks("none was found")


def test_looking_installs_nothing(place: Path) -> None:
    put(place / "apt-get", f"echo > {place}/ran")
    for each in programs.FINDERS:
        assert each.find(machine(place, is_root=True)) is None
    assert not (place / "ran").exists()


def test_this_machine_is_what_it_is() -> None:
    here = Machine()
    assert here.is_root == (os.geteuid() == 0)
    assert here.environment == dict(os.environ)
