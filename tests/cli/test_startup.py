"""How commands start: what they import, `python -m headway`, and completion in shells."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import PROGRAM, bare_environment

from headway import __version__
from headway.cli.commands import COMMANDS

# Each command in a child of its own, forked from one process that has imported the command line.
FORKS = """
import json, os, sys
from headway.cli import main
for arguments in json.load(sys.stdin):
    read, write = os.pipe()
    if os.fork() == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = main(arguments)
        with os.fdopen(write, "w") as pipe:
            json.dump([code, sorted(sys.modules)], pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        print(pipe.read(), flush=True)
    os.wait()
"""
HEAVY = {
    "apprise", "celery", "cryptography", "fastapi", "headway.app", "headway.config",
    "headway.operations.callers", "httpx", "prometheus_client", "psycopg", "rich.progress",
    "starlette", "structlog", "uvicorn",
}  # fmt: skip
HELP_MODULES_MAX, OWN_MODULES_MAX = 520, 45
# What a command that reads the database has no use for: the engine, clients, metrics, the web.
UNREAD = {
    "apprise", "celery", "cryptography", "fastapi", "headway.engine.fetch", "headway.engine.pull",
    "headway.engine.push", "headway.engine.tick", "headway.observe.logs", "headway.observe.metrics",
    "headway.providers.http", "httpx", "markdown_it", "prometheus_client", "rich.progress",
    "starlette", "structlog", "uvicorn",
}  # fmt: skip
CLIENTS = {"api", "client", "oauth", "pagination", "replies", "reply_models", "storefront"}
STATUS_MODULES_MAX, STATUS_OWN_MAX = 720, 225


def imports(*lines: list[str], **settings: str) -> list[set[str]]:
    """Return which modules each command line imports; all of them must succeed."""
    result = subprocess.run(
        [sys.executable, "-c", FORKS],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=True,
        env=bare_environment(**settings),
    )
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [code for code, _ in answers] == [0] * len(lines), result.stderr
    return [set(modules) for _, modules in answers]


def test_the_help_of_no_command_imports_what_only_its_work_needs() -> None:
    lines = [[name, "--help"] for name in COMMANDS]
    for line, modules in zip(lines, imports(*lines), strict=True):
        own = {name for name in modules if name.partition(".")[0] in {"headway", "headway_lab"}}
        assert modules & HEAVY == set(), line
        assert len(own) <= OWN_MODULES_MAX, line
        assert len(modules) <= HELP_MODULES_MAX, line


def test_the_list_of_commands_and_the_version_import_no_command() -> None:
    for modules in imports(["--help"], ["--version"]):
        own = {name for name in modules if name.startswith("headway.")}
        assert own == {"headway.cli", "headway.cli.commands", "headway.errors"}


def test_status_imports_what_reads_the_database_and_nothing_that_works(database: str) -> None:
    (modules,) = imports(["status"], DATABASE_URL=database)
    own = {name for name in modules if name.startswith("headway.")}
    provided = {name for name in own if name.startswith("headway.providers.")}
    assert modules & UNREAD == set()
    assert {name for name in provided if name.rpartition(".")[2] in CLIENTS} == set()
    assert len(own) <= STATUS_OWN_MAX
    assert len(modules) <= STATUS_MODULES_MAX


def test_python_runs_the_package_as_a_program() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "headway", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout == f"headway {__version__}\n"


def complete(shell: str, line: str) -> str:
    """Return what a shell's completion script gets to hear."""
    asked = {
        "_HEADWAY_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    environment = bare_environment(**asked)
    return subprocess.run(
        [PROGRAM], env=environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize("shell", ("zsh", "fish"))
def test_a_shell_completes_commands_and_their_options(shell: str) -> None:
    assert "status" in complete(shell, "headway sta")
    assert "--supplier" in complete(shell, "headway status --su")
    assert "upgrade" in complete(shell, "headway db ")


@pytest.mark.parametrize("shell", ("bash", "zsh", "fish"))
def test_the_script_of_a_shell_calls_headway(shell: str) -> None:
    script = subprocess.run(
        [PROGRAM, "completion", shell], capture_output=True, text=True, check=True
    ).stdout
    assert f"_HEADWAY_COMPLETE=complete_{shell}" in script


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_with_our_script(tmp_path: Path) -> None:
    script = """
        source <(headway completion bash)
        COMP_WORDS=(headway status --su) COMP_CWORD=2
        _headway_completion headway
        echo "${COMPREPLY[@]}"
    """
    path = os.pathsep.join((str(PROGRAM.parent), os.environ["PATH"]))
    result = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env=bare_environment(PATH=path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == "--supplier\n"
