"""Every command has a help text with an example, and every command that prints data has --json."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.main import get_group

from headway import __version__
from headway.cli import build, main
from headway.cli.commands import COMMANDS, PANELS
from headway_lab.simulation.faults import READERS

WITHOUT_DATA = {
    "headway docs",
    "headway demo",
    "headway run",
    "headway api",
    "headway worker",
    "headway completion",
}


def commands() -> Iterator[tuple[str, Any]]:
    """Yield every command that the help lists, without groups, by its full name."""

    def walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
        if not hasattr(command, "commands"):
            yield name, command
            return
        for child, inner in command.commands.items():
            if not inner.hidden:
                yield from walk(f"{name} {child}", inner)

    yield from walk("headway", get_group(build(whole=True)))


ALL = dict(commands())


def test_every_command_of_the_table_exists() -> None:
    assert {name.split()[1] for name in ALL} == set(COMMANDS)


@pytest.mark.parametrize("name", ALL)
def test_the_help_of_a_command_has_a_summary_and_an_example(name: str) -> None:
    help_text, epilog = ALL[name].help or "", ALL[name].epilog or ""
    assert help_text.partition("\n")[0].endswith(".")
    assert name in help_text + epilog, "an example of use"
    for parameter in ALL[name].params:
        assert parameter.help, f"{name}: {parameter.name} has no help"


@pytest.mark.parametrize("name", sorted(set(ALL) - WITHOUT_DATA))
def test_a_command_that_prints_data_has_a_json_option(name: str) -> None:
    options = [option for parameter in ALL[name].params for option in parameter.opts]
    assert "--json" in options


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_shows_the_summary_of_each_command(name: str) -> None:
    real = get_group(build([name])).commands[name].help or ""
    assert COMMANDS[name][1] == real.partition("\n")[0]


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    assert all(name in output for name in COMMANDS)


def test_the_help_lists_commands_in_panels_by_subject(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    assert [panel for panel in PANELS if f"─ {panel} ─" not in output] == []
    assert max(map(len, PANELS.values())) <= 10
    assert sum(map(len, PANELS.values())) == len(COMMANDS), "a command is in two panels"


def test_paragraphs_of_the_help_are_wrapped_at_the_width_of_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["demo", "--help"]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "Printify over real HTTP, the engine, an embedded database and the page. Ctrl-C" in lines


def test_the_help_of_simulate_lists_every_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--help"]) == 0
    output = capsys.readouterr().out
    assert [kind for kind in READERS if f"{kind}:" not in output] == []


def test_without_a_command_the_help_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    output = capsys.readouterr()
    assert output.out.count("Usage") == 1
    assert output.err == ""


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"headway {__version__}\n"


def test_the_application_is_a_typer_application() -> None:
    assert isinstance(build(), typer.Typer)


# Commands without --server, and why.
ONLY_HERE = {
    "headway completion": "is about the shell here",
    "headway webhook events": "the events are those of this version",
    "headway demo": "runs a deployment of its own",
    "headway erase verify": "reads a file",
    "headway run": "is the deployment",
    "headway worker": "is a part of the deployment",
    "headway api": "is the server",
    "headway doctor": "checks this installation: its settings, folders and processes",
    "headway db upgrade": "the server refuses to start without it",
    "headway db downgrade": "the server must be stopped",
    "headway db status": "reads the schema of a database that may be too old for the server",
    "headway db tables": "describes the schema of the database here",
    "headway vault rotate": "needs the encryption keys, which the API never uses for this",
    "headway vault status": "needs the encryption keys",
    "headway adopt": "a server does not start before it",
    "headway docs": "serves files of this installation",
    "headway verify": "reads files, and needs no deployment",
}


@pytest.mark.parametrize("name", ALL)
def test_a_command_takes_a_server_or_is_only_for_this_machine(name: str) -> None:
    options = {option for parameter in ALL[name].params for option in parameter.opts}
    assert ("--server" in options) != (name in ONLY_HERE)
