"""Long work at a server: begun there, followed from here, and cancelled by Ctrl-C."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from pydantic import TypeAdapter

from headway.cli.progress import progress, tell_share
from headway.cli.target import open_client
from headway.client.api import PROVIDER
from headway.clock import SystemClock
from headway.core.runs import Run, RunKind, RunStatus
from headway.errors import HeadwayError, InvalidError, StoreError, TransientError
from headway.operations import runs

LOOK_S_MIN, LOOK_S_MAX = 0.2, 2.0
MISUSED, NO_DATABASE = 2, 3
# This process waits in real time, whatever clock the server runs on.
REAL_TIME = SystemClock()


def run_elsewhere(
    server: str, kind: RunKind, request: Mapping[str, Any], *, tells: bool = False
) -> Run:
    """Start a run on a server and wait for its result; raises the error that stopped it.

    With `tells`, progress is written to stderr as JSON.
    """
    body = TypeAdapter[runs.SimulationBody | runs.PlanBody](runs.RunBody).validate_python(
        {"kind": kind.value, **request}
    )
    with open_client(server) as client:
        run = client.call(runs.start_run, body)
        try:
            over = _followed(lambda run_id: client.call(runs.run, run_id), run, tells=tells)
        except KeyboardInterrupt:
            with suppress(HeadwayError):  # it may be over by now, or the server gone
                client.call(runs.cancel_run, run.id)
            raise
    if over.status is RunStatus.DONE:
        return over
    if over.status is RunStatus.CANCELLED:
        raise TransientError(f"the run was cancelled at {server}", provider=PROVIDER)
    if over.exit_code == MISUSED:
        raise InvalidError(over.error)
    if over.exit_code == NO_DATABASE:
        raise StoreError(over.error)
    raise TransientError(over.error, provider=PROVIDER)


def refuse_files(server: str, **files: object) -> None:
    """Raise InvalidError for options that name files on this machine."""
    for name, value in files.items():
        if value is not None:
            raise InvalidError(
                f"--{name} works on this machine, and the run is at {server}; leave it out, or run"
                ' it here: --server ""'
            )


def _followed(find: Callable[[str], Run], run: Run, *, tells: bool) -> Run:
    wait_s = LOOK_S_MIN
    with progress(f"{run.kind} at the server", 1.0) as advance:
        shown = 0.0
        while not run.is_over:
            REAL_TIME.sleep(wait_s)
            wait_s = min(2 * wait_s, LOOK_S_MAX)
            run = find(run.id)
            advance(run.progress - shown)
            shown = run.progress
            if tells:
                tell_share(run.progress)
    return run
