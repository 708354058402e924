"""Dispatch leases: the right to have one message in flight for one subject, and its state.

Only a scale-out needs them. Leases and fences of the work itself decide who works on it; a
dispatch lease only prevents duplicate messages for one subject, and lost ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from headway.core.accounts.jobs import Job, PlatformName
from headway.core.catalog.listings import MAIN, SupplierName
from headway.core.limits.transitions import Permit

# The catalog lane's supplier and storefront; the account lane has a provider per platform.
SUPPLIER, STOREFRONT = "boeing", PlatformName("shopify")


class Verb(StrEnum):
    """The step that a message requests."""

    TICK = "tick"
    FETCH = "fetch"
    PUSH = "push"
    PULL = "pull"


@dataclass(frozen=True, slots=True, kw_only=True)
class PullClaim:
    """A job half read, as it passes from one worker to the next.

    `cursor` is None until its run has begun; for the counts see `engine.claim`.
    """

    job: Job
    cursor: Mapping[str, Any] | None = None
    day: Permit | None = None
    permit: Permit | None = None
    sent: int = 0
    unrecorded: int = 0
    spent: int = 0
    waits_since: datetime | None = None
    has_refreshed: bool = False
    is_answered: bool = False


WorkerState = Permit | PullClaim


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The subject of a dispatch lease: the provider, and which of its shops or places."""

    verb: Verb
    provider: str
    which: str

    @property
    def name(self) -> str:
        """The subject's name in the store and in messages, besides the verb."""
        return f"{self.provider}:{self.which}"

    @property
    def queue(self) -> str:
        """The queue of its messages."""
        return f"{self.verb}.{self.provider}"


def supplier_of(subject: Subject) -> SupplierName:
    """Return the supplier of a fetch: numbers are places at the settings' supplier."""
    return MAIN if subject.which.isdigit() else SupplierName(subject.which)


def subject_of(verb: str, name: str) -> Subject:
    """Read a subject's name."""
    provider, _, which = name.partition(":")
    return Subject(verb=Verb(verb), provider=provider, which=which)


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchLease:
    """A lease on dispatching one subject; an update with an old fence is rejected."""

    subject: Subject
    fence: int
    state: WorkerState | None = None
