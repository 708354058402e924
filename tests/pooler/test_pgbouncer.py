"""How pgbouncer is found: on the PATH, where packages put it, as a package, or not at all."""

from pathlib import Path

import pytest
from tests.browser.chromium import Machine
from tests.pooler.pgbouncer import find, find_or_install, main


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def put(path: Path, script: str) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def machine(place: Path, *, is_root: bool = False, ci: str = "") -> Machine:
    return Machine(environment={"PATH": str(place), "CI": ci}, is_root=is_root)


def test_one_that_starts_serves_wherever_it_is(place: Path, tmp_path: Path) -> None:
    put(place / "apt-get", f"echo > {place}/ran")
    there = put(tmp_path / "sbin" / "pgbouncer", "exit 0")
    assert find_or_install(machine(place, is_root=True), folders=f"{tmp_path}/sbin") == there
    on_path = put(place / "pgbouncer", "exit 0")
    assert find(machine(place), f"{tmp_path}/sbin") == on_path
    put(place / "pgbouncer", "exit 1")
    assert find(machine(place), "") is None
    assert not (place / "ran").exists()


def test_root_installs_the_package_after_fetching_the_lists_if_need_be(place: Path) -> None:
    lists, made = place / "lists", place / "pgbouncer"
    install = f"printf '#!/bin/sh\\nexit 0\\n' > '{made}'; /bin/chmod 755 '{made}'"
    put(
        place / "apt-get",
        f'[ "$1" = update ] && : > {lists} && exit 0\n[ -e {lists} ] || exit 100\n{install}',
    )
    assert find_or_install(machine(place), folders="") is None, "only root may"
    assert find_or_install(machine(place, is_root=True), folders="") == str(made)


@pytest.mark.parametrize(("ci", "code"), (("", 0), ("true", 1)))
def test_where_nothing_helps_one_line_says_what_to_do_and_ci_fails(
    place: Path, capsys: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    assert main(machine(place, ci=ci), "") == code
    last = capsys.readouterr().err.splitlines()[-1]
    assert "the tests of the pooler are skipped" in last
    assert "apt-get install pgbouncer" in last
