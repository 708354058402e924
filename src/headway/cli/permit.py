"""`headway permit LIMIT -- COMMAND`: run a command that makes one call, under a permit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.output import AsJson, emit
from headway.cli.target import Client, Server, open_client
from headway.clock import SystemClock
from headway.core.limits.shared_permits import (
    MAX_WAIT_S,
    PURPOSE,
    TIMEOUT_S,
    PermitPriority,
)

if TYPE_CHECKING:
    from headway.client.permits import Call

EXAMPLES = (
    "Examples:\n\nheadway permit main -- python import.py\n\n"
    'headway permit main --wait 3600 --purpose "nightly import" -- curl https://example.com/parts'
)
# What `timeout` of coreutils returns for a command that it ended, and shells for an unknown one.
TIMED_OUT, NOT_FOUND, NOT_EXECUTABLE = 124, 127, 126
# A command that is told to end has so long until it is killed; a permit lasts a little longer.
KILL_AFTER_S, END_S = 5.0, 10.0


class ClientPermits:
    """Permits of the database here, or of a server."""

    speed: float | None = None

    def __init__(self, client: Client) -> None:
        self._client = client

    def take(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Take a permit."""
        from headway.operations.shared_permits import PermitBody, take_permit

        permit = self._client.call(take_permit, PermitBody.model_validate(body))
        self.speed = self._client.speed
        return asdict(permit)

    def begin(self, permit_id: str) -> Mapping[str, Any]:
        """Begin a permit that waited."""
        from headway.operations.shared_permits import begin_permit

        return asdict(self._client.call(begin_permit, permit_id))

    def settle(self, permit_id: str, body: Mapping[str, Any]) -> None:
        """Report how the call ended."""
        from headway.operations.shared_permits import SettleBody, settle_permit

        self._client.call(settle_permit, permit_id, SettleBody.model_validate(body))

    def close(self) -> None:
        """Keep the client open: the command that opened it closes it."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("permit", epilog=EXAMPLES)(permit)


def permit(
    limit: Annotated[str, typer.Argument(help="A supplier, or a limit of: headway limits.")],
    command: Annotated[list[str], typer.Argument(help="The command, after --.")],
    *,
    wait: Annotated[float, typer.Option(min=0, help="Longest wait, in seconds.")] = MAX_WAIT_S,
    timeout: Annotated[
        float, typer.Option(min=0.1, max=590, help="End the command after so many seconds.")
    ] = TIMEOUT_S,
    priority: Annotated[
        PermitPriority, typer.Option(help="Its place among all calls that wait.")
    ] = PermitPriority.ORDINARY,
    cost: Annotated[float, typer.Option(min=0.001, help="Units of the limit it uses.")] = 1,
    purpose: Annotated[str, typer.Option(help="What the ledger shows for the call.")] = PURPOSE,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Run a command of your own under a permit, so that it stays within the limit.

    Waits for a permit, runs the command, and settles the permit. The command must make one call.
    If it is still running after --timeout, it is ended (exit code 124). Otherwise the exit
    code is the command's. If anything is killed, the permit expires by itself.
    """
    from headway.client.permits import PermitRequest

    body = {
        "limit": limit,
        "max_wait_s": wait,
        # The permit lasts until the command has been ended for sure.
        "timeout_s": timeout + END_S,
        "priority": priority,
        "cost": cost,
        "purpose": purpose,
    }
    with (
        open_client(server) as client,
        PermitRequest(ClientPermits(client), body, clock=SystemClock()) as call,
    ):
        code = _run(command, call, timeout_s=min(timeout, call.left_s))
    if as_json:
        emit({"permit_id": call.id, "limit": call.limit, "exit_code": code, **(call.outcome or {})})
    raise typer.Exit(code)


def _run(command: list[str], call: Call, *, timeout_s: float) -> int:
    """Run the command, for no longer than that; return its exit code."""
    try:
        process = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - the user's own
    except OSError as error:
        call.unsent()
        is_missing = isinstance(error, FileNotFoundError)
        reason = "there is no such command" if is_missing else error.strerror
        print(f"headway: {command[0]}: {reason}", file=sys.stderr)
        return NOT_FOUND if is_missing else NOT_EXECUTABLE
    with _passing_signals(process):
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            _end(process)
            call.timed_out()
            print(f"headway: {command[0]} took too long and was ended", file=sys.stderr)
            return TIMED_OUT
    call.answered()
    return code if code >= 0 else 128 - code


@contextmanager
def _passing_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Pass Ctrl-C and SIGTERM on to the command, and wait for its end all the same."""

    def pass_on(number: int, _frame: object) -> None:
        _signal(process, number)

    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, pass_on) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and everything that it started."""
    _signal(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILL_AFTER_S)
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
