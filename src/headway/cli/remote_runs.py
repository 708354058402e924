"""The part of a server's desk that is about simulations and plans in the background."""

from collections.abc import Mapping
from typing import Any

from headway.cli.remote_requests import ApiRequests, word
from headway.core.runs import Run, RunKind

RUNS = "/api/runs"


class RemoteRuns:
    """Runs of a server, if the key is an operator's."""

    def __init__(self, asking: ApiRequests) -> None:
        self._asking = asking

    def start(self, kind: RunKind, request: Mapping[str, Any]) -> Run:
        """Queue a simulation or plan for the server to work out; raises InvalidError."""
        return self._asking.post(Run, RUNS, {"kind": kind.value, **request})

    def find(self, id_: str) -> Run:
        """Return a simulation or plan with its result; raises NotFoundError."""
        return self._asking.get(Run, f"{RUNS}/{word(id_)}")

    def cancel(self, id_: str) -> Run:
        """Stop a simulation or plan; raises ConflictError for one that is over."""
        return self._asking.read(Run, self._asking.api.delete(f"{RUNS}/{word(id_)}").json)
