"""What every simulated platform is to a run: shops, what happens in them, grants, calls, truth."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

import httpx

from headway.clock import Clock
from headway_lab.simulation.accounts.world import AccountEvent, ShopPlan
from headway_lab.simulators.tied_faults import FaultyServer

Truth = Mapping[str, Mapping[Any, Mapping[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedGrant:
    """The result of a seller's consent."""

    access: str = field(repr=False)
    refresh: str | None = field(default=None, repr=False)
    life_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedWebhook:
    """A webhook as it arrives."""

    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class SimulatedPlatform(Protocol):
    """A platform, as the world uses it."""

    @property
    def transport(self) -> httpx.BaseTransport:
        """The way to it."""

    @property
    def calls(self) -> int:
        """How many requests arrived, by its own log."""

    @property
    def refusals(self) -> int:
        """How many of them came too fast."""

    @property
    def server(self) -> FaultyServer:
        """The simulator with the faults that are tied to its shops."""

    @property
    def injected(self) -> Mapping[str, int]:
        """What went wrong there, by kind."""

    def breach(self) -> str | None:
        """Return how its own log shows that a limit was broken; None if none was."""

    def open(self, shop: ShopPlan) -> None:
        """Open a shop."""

    def name(self, shop: ShopPlan) -> str:
        """Return what the platform calls a shop."""

    def owner(self, shop: ShopPlan) -> str:
        """Return the owner of its limit, where that is not the shop."""

    def grant(self, shop: ShopPlan) -> SimulatedGrant:
        """Let a seller consent."""

    def act(self, shop: ShopPlan, event: AccountEvent) -> Callable[[], SimulatedWebhook] | None:
        """Apply an event; return a function that makes its webhook, if there is one."""

    def truth(self, shop: ShopPlan) -> Truth:
        """Return what the warehouse should hold of a shop, by table and key."""

    def order_id(self, shop: ShopPlan, number: int) -> str:
        """Return the platform's id of an order."""

    def order_text(self, shop: ShopPlan, number: int) -> tuple[bytes, bytes]:
        """Return a text that only replies with that order hold, and garbage to put there."""


class PastClock:
    """A platform's clock: it can be set back while history is written."""

    is_real = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._back_s = 0.0

    def set(self, at_s: float | None) -> None:
        """Set it to that second of the run, or back to the present."""
        self._back_s = 0.0 if at_s is None else at_s - self._clock.monotonic()

    def now(self) -> datetime:
        """Return the time."""
        return self._clock.now() + timedelta(seconds=self._back_s)

    def monotonic(self) -> float:
        """Return the second of the run."""
        return self._clock.monotonic() + self._back_s

    def sleep(self, seconds: float, wake: Any = None) -> None:  # noqa: ANN401 - as every clock
        """Wait for that long."""
        self._clock.sleep(seconds, wake)

    def event(self) -> Any:  # noqa: ANN401 - as every clock
        """Make an event."""
        return self._clock.event()
