"""How a browser is found: on the PATH, as a package, by download, or not at all."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.browser.chromium import Machine, find, find_or_install, main

Tool = Callable[[str, str], Path]
STARTS = "exit 0"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


@pytest.fixture
def put(place: Path) -> Tool:
    """Put a small program on the PATH."""

    def add(name: str, script: str) -> Path:
        path = place / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    return add


def machine(place: Path, *, is_root: bool = False, ci: str = "") -> Machine:
    """Return a machine that has only what this folder holds."""
    return Machine(
        environment={"PATH": str(place), "CI": ci, "HOME": str(place)},
        is_root=is_root,
        download=("download",),
        own=("own",),
    )


def made_by(place: Path, path: Path) -> str:
    """Return a script that makes a browser."""
    return (
        f"printf '#!/bin/sh\\nexit 0\\n' > '{path}'; /bin/chmod 755 '{path}'; echo >> {place}/ran"
    )


def test_a_browser_on_the_path_serves_and_nothing_is_installed(place: Path, put: Tool) -> None:
    put("apt-get", f"echo > {place}/ran")
    put("download", f"echo > {place}/ran")
    browser = put("chromium", STARTS)
    assert find_or_install(machine(place, is_root=True)) == str(browser)
    assert not (place / "ran").exists()


def test_a_browser_that_does_not_start_is_none(place: Path, put: Tool) -> None:
    put("chromium", "exit 1")
    other = put("google-chrome", STARTS)
    assert find(machine(place)) == str(other)


def test_root_installs_the_package_after_fetching_the_lists_if_need_be(
    place: Path, put: Tool
) -> None:
    lists = place / "lists"
    install = made_by(place, place / "chromium")
    put(
        "apt-get",
        f'[ "$1" = update ] && : > {lists} && exit 0\n[ -e {lists} ] || exit 100\n{install}',
    )
    assert find_or_install(machine(place, is_root=True)) == str(place / "chromium")


def test_whoever_is_not_root_installs_no_package_and_downloads(place: Path, put: Tool) -> None:
    own = place / "ours"
    put("apt-get", made_by(place, place / "chromium"))
    put("download", made_by(place, own))
    put("own", f"echo {own}")
    assert find_or_install(machine(place)) == str(own)
    assert not (place / "chromium").exists()


def test_root_downloads_where_packages_do_not_help(place: Path, put: Tool) -> None:
    own = place / "ours"
    put("apt-get", "exit 100")
    put("download", made_by(place, own))
    put("own", f"echo {own}")
    assert find_or_install(machine(place, is_root=True)) == str(own)


@pytest.mark.parametrize(("ci", "code"), (("", 0), ("true", 1)))
def test_where_nothing_helps_one_line_says_what_to_do_and_ci_fails(
    place: Path, capsys: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    assert main(machine(place, ci=ci)) == code
    last = capsys.readouterr().err.splitlines()[-1]
    assert "the browser tests are skipped" in last
    assert "apt-get install chromium" in last


def test_looking_installs_nothing(place: Path, put: Tool) -> None:
    put("apt-get", f"echo > {place}/ran")
    put("download", f"echo > {place}/ran")
    assert find(machine(place, is_root=True)) is None
    assert not (place / "ran").exists()


def test_this_machine_is_what_it_is() -> None:
    here = Machine()
    assert here.is_root == (os.geteuid() == 0)
    assert here.environment == dict(os.environ)
