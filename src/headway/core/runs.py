"""Runs: a simulation or a plan that a server works out in the background, and how large one may be.

The words of a request are the options of the command, without their dashes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from headway.core.timetable.policies import POLICIES
from headway.errors import InvalidError

# A server's runs take some minutes at most; for longer ones there is the command line.
PRODUCTS_MAX, SELLERS_MAX, DAYS_MAX = 20_000, 500, 60.0
PRODUCT_DAYS_MAX, SELLER_DAYS_MAX = 200_000.0, 5_000.0


class RunKind(StrEnum):
    """What is worked out."""

    SIMULATE = "simulate"
    PLAN = "plan"


class RunStatus(StrEnum):
    """How far it is."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run; `result` is what the command prints as JSON, `message` the text beside it."""

    id: str
    """The run's id. Example: `6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11`"""
    kind: RunKind
    """What is worked out."""
    request: Mapping[str, Any] = field(default_factory=dict)
    """What was asked. Example: `{"kind": "plan", "products": 5000}`"""
    status: RunStatus = RunStatus.QUEUED
    """How far it is."""
    progress: float = 0.0
    """The share that is done, from 0 to 1. Example: `0.42`"""
    result: dict[str, Any] | list[dict[str, Any]] | None = None
    """What the command prints as JSON; null until it is done.
    Example: `{"calls": 2880, "fill": 1.0}`
    """
    error: str = ""
    """Why it failed; empty if it did not. Example: `the policy is unknown`"""
    message: str = ""
    """The text that the command prints. Example: `5,000 products need 500 calls a day.`"""
    exit_code: int | None = None
    """The command's exit code; null until it ended."""
    actor: str = ""
    """Who started it. Example: `ada`"""
    created_at: datetime
    started_at: datetime | None = None
    """When it started; null while it waits."""
    finished_at: datetime | None = None
    """When it ended; null until it has."""

    @property
    def is_over(self) -> bool:
        """True if the run has ended."""
        return self.status not in {RunStatus.QUEUED, RunStatus.RUNNING}


def assert_sane(kind: RunKind, request: Mapping[str, Any]) -> None:
    """Refuse a run that would keep a server busy for long; raises InvalidError."""
    if kind is RunKind.PLAN:
        return
    days = float(request.get("days", 1))
    if request.get("lane") == "account":
        sellers = int(request.get("sellers", 20))
        if sellers * days > SELLER_DAYS_MAX:
            raise InvalidError(
                f"{sellers:,} sellers for {days:g} days are too many for a server; stay within"
                f" {SELLER_DAYS_MAX:,.0f} sellers x days, or use: headway simulate"
            )
        return
    products = int(request.get("products", 500)) * int(request.get("sellers", 1))
    policies = len(POLICIES) if request.get("policy") == "all" else 1
    if products * days * policies > PRODUCT_DAYS_MAX:
        raise InvalidError(
            f"{products:,} products for {days:g} days are too many for a server; stay within"
            f" {PRODUCT_DAYS_MAX:,.0f} products x days x policies, or use: headway simulate"
        )


def words(run: Run) -> list[str]:
    """Return the command that works it out, word by word."""
    arguments = [run.kind.value]
    for name, value in run.request.items():
        if isinstance(value, bool):
            arguments += [f"--{name}"] if value else []
            continue
        values = value if isinstance(value, list) else [value]
        # One word each, so that a value that begins with a dash is no option.
        arguments += [f"--{'fault' if name == 'faults' else name}={item}" for item in values]
    if run.kind is RunKind.SIMULATE:
        arguments.append("--progress=json")
    # Here, whatever server the settings name: it might be this very one, which would ask itself.
    return [*arguments, "--server=", "--json"]
