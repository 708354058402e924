"""Uninstalling, with the steps of its page: nothing is left."""

import re
import signal
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool
from tests.cli.conftest import bare_environment, start_command
from tests.conftest import FAST, memory_folder
from tests.lab.demo.test_command import all_end, descendants, handles_of, running_in

from headway.clock import SystemClock
from headway.providers.vault import open_vault
from headway.store.migrate import upgrade
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "uninstall.md"
TEXT = PAGE.read_text(encoding="utf-8")
OWNER = "shop_database_owner"
ROLES = "SELECT rolname FROM pg_roles WHERE rolname LIKE 'headway%' ORDER BY rolname"


def commands() -> list[str]:
    """Return each line of the page's shell blocks."""
    return "\n".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)).splitlines()


def leftovers() -> set[Path]:
    """Return what a process of ours might leave outside its folder."""
    places = {Path(tempfile.gettempdir()), Path("/dev/shm"), Path("/var/tmp"), memory_folder()}
    tests = "headway-tests"
    return {
        path
        for place in places
        for path in place.glob("*headway*")
        if not path.name.startswith(tests)
    }


def test_the_commands_before_the_end_forget_tokens_and_keep_the_history(
    on_database: Callable[..., Any], pool: ConnectionPool, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("hunter2")
    connect = ("connect", "acme.myshopify.com", "--seller", "acme", "--no-check")
    assert on_database(*connect, "--token-file", "token").code == 0
    ours = [line.split()[1:] for line in commands() if line.startswith("headway ")]
    assert [line[0] for line in ours] == ["disconnect", "audit"]
    for line in ours:
        result = on_database(*line)
        assert result.code == 0, result.err
    vault = open_vault(None, tmp_path / "none")
    with pool.connection() as connection:
        stored = connection.execute("SELECT secret FROM credential").fetchall()
    assert "hunter2" not in {vault.decrypt(secret) for (secret,) in stored}
    assert "account_disconnected" in (tmp_path / "history.csv").read_text()


def test_a_stopped_headway_leaves_one_folder_and_the_page_removes_it(tmp_path: Path) -> None:
    before = leftovers()
    with start_command("run", "--port", "0", HOME=str(tmp_path)) as process:
        assert process.stdout is not None
        line = ""
        while "The page: " not in line:
            line = process.stdout.readline()
            assert line
        family = handles_of(descendants(process.pid))
        assert family, "PostgreSQL runs beside it"
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait() == 0, rest
    assert all_end(family)
    assert running_in(tmp_path) == []
    (remove,) = [line for line in commands() if "~" in line]
    subprocess.run(["sh", "-c", remove], env=bare_environment(HOME=str(tmp_path)), check=True)
    assert [path for path in tmp_path.rglob("*") if not path.is_dir()] == []
    assert leftovers() <= before


def test_the_statements_of_the_page_leave_no_database_and_no_role(tmp_path: Path) -> None:
    statements = re.findall(r"DROP (?:DATABASE|ROLE) \w+", TEXT)
    assert len(statements) >= 3
    with (
        EmbeddedServer(tmp_path / "server", clock=SystemClock(), settings=FAST) as server,
        psycopg.connect(server.dsn("postgres"), autocommit=True) as administrator,
    ):
        # The test server's own administrator is called headway; the page's is another one.
        administrator.execute(f"CREATE ROLE {OWNER} LOGIN CREATEROLE PASSWORD 'hush'")
        administrator.execute(f"CREATE DATABASE theirs OWNER {OWNER}")
        dsn = make_conninfo(server.dsn("theirs"), user=OWNER, password="hush")
        with open_pool(dsn, size=1) as pool:
            upgrade(pool, SystemClock())
        assert ("headway_seller",) in administrator.execute(ROLES).fetchall()
        for statement in statements:
            verb, kind, name = statement.split()
            renamed = {"DATABASE headway": "theirs", "ROLE headway": OWNER}
            target = sql.Identifier(renamed.get(f"{kind} {name}", name))
            administrator.execute(sql.SQL(f"{verb} {kind} {{}}").format(target))
        assert administrator.execute(ROLES).fetchall() == [("headway",)]
        gone = administrator.execute("SELECT FROM pg_roles WHERE rolname = %s", [OWNER])
        assert gone.fetchall() == []
