"""Every command explains itself with an example, and prints JSON where it prints data."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.main import get_group

from headway import __version__
from headway.cli import COMMANDS, build, main
from headway_lab.simulation.faults import READERS

WITHOUT_DATA = {"headway demo", "headway run", "headway api", "headway worker"}


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command of the application by its full name, groups left out."""

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        if not hasattr(command, "commands"):
            yield name, command
            return
        for each, inner in command.commands.items():
            yield from walk(f"{name} {each}", inner)

    yield from walk("headway", get_group(build(whole=True)))


ALL = dict(commands())


def test_every_command_of_the_table_is_there() -> None:
    assert {name.split()[1] for name in ALL} == set(COMMANDS)


@pytest.mark.parametrize("name", ALL)
def test_a_command_says_what_it_does_and_shows_an_example(name: str) -> None:
    help_text, epilog = ALL[name].help or "", ALL[name].epilog or ""
    assert help_text.partition("\n")[0].endswith(".")
    assert name in help_text + epilog, "an example of use"
    for parameter in ALL[name].params:
        assert parameter.help, f"{name}: {parameter.name} has no help"


@pytest.mark.parametrize("name", sorted(set(ALL) - WITHOUT_DATA))
def test_a_command_that_prints_data_prints_it_as_json_too(name: str) -> None:
    options = [option for parameter in ALL[name].params for option in parameter.opts]
    assert "--json" in options


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_quotes_each_command_truly(name: str) -> None:
    real = get_group(build([name])).commands[name].help or ""
    assert COMMANDS[name][1] == real.partition("\n")[0]


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in COMMANDS)


def test_a_paragraph_of_the_help_fills_its_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["demo", "--help"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "Printify over real HTTP, the engine, an embedded database and the page. Ctrl-C" in lines


def test_the_help_of_simulate_lists_every_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--help"]) == 0
    said = capsys.readouterr().out
    assert [kind for kind in READERS if f"{kind}:" not in said] == []


def test_no_command_at_all_shows_the_help_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert shown.out.count("Usage") == 1
    assert shown.err == ""


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"headway {__version__}\n"


def test_help_imports_no_command() -> None:
    script = (
        "import sys; from headway.cli import main; main(['--help']);"
        "heavy = {'psycopg', 'fastapi', 'httpx', 'pydantic', 'headway.app'} & set(sys.modules);"
        "sys.exit(f'imported {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_application_is_a_typer_application() -> None:
    assert isinstance(build(), typer.Typer)
