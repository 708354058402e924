"""`headway permit`: a command of the user's own, run under a permit."""

import sys
from typing import Any

from psycopg_pool import ConnectionPool

from headway.core.access import Role

PRINT = (sys.executable, "-c", "print('called')")


def ledger(pool: ConnectionPool) -> list[tuple[Any, ...]]:
    with pool.connection() as connection:
        return connection.execute(
            "SELECT status, result, purpose FROM call_ledger WHERE purpose = 'import'"
        ).fetchall()


def etsy(*command: str, **options: str) -> tuple[str, ...]:
    """Return the arguments; the daily limit of a platform needs no wait in a new database."""
    more = [f"--{name}={value}" for name, value in options.items()]
    return ("permit", "etsy:day", "--purpose", "import", *more, "--", *command)


def test_a_command_runs_under_a_permit_here_and_at_a_server(both: Any) -> None:
    for run, pool in ((both.local, both.local_pool), (both.remote, both.pool)):
        result = run(*etsy(*PRINT))
        assert result.code == 0, result.err
        assert ledger(pool) == [("sent", "ok", "import")]


def test_a_key_for_permits_is_enough(both: Any) -> None:
    result = both.remote(*etsy(*PRINT), HEADWAY_API_KEY=both.key(Role.PERMITS))
    assert result.code == 0, result.err


def test_the_exit_code_is_that_of_the_command(both: Any) -> None:
    assert both.local(*etsy(sys.executable, "-c", "raise SystemExit(7)")).code == 7


def test_a_command_that_takes_too_long_is_ended(both: Any) -> None:
    result = both.local(*etsy(sys.executable, "-c", "input()", timeout="0.2"))
    assert result.code in {0, 1, 124}
    forever = "import signal; signal.pause()"
    result = both.local(*etsy(sys.executable, "-c", forever, timeout="0.2"))
    assert result.code == 124
    assert "took too long" in result.err
    assert ("sent", "timed_out", "import") in ledger(both.local_pool)


def test_a_command_that_does_not_exist_costs_no_permit(both: Any) -> None:
    result = both.local(*etsy("no-such-program"))
    assert result.code == 127
    assert "there is no such command" in result.err
    assert ledger(both.local_pool) == [("unsent", "unsent", "import")]


def test_a_limit_that_does_not_exist_is_named(both: Any) -> None:
    result = both.local("permit", "nothing", "--", *PRINT)
    assert result.code == 2
    assert "there is no such limit" in result.err
