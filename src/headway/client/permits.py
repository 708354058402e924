"""Take a permit before a call of your own, and settle it afterwards.

The permit comes from the limiter of a Headway server, so your calls and Headway's together keep the
provider's limit. If your program dies, the permit expires by itself.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol

from headway.client.api import HeadwayApi
from headway.clock import Clock, SystemClock
from headway.core.limits.shared_permits import MAX_WAIT_S, TIMEOUT_S
from headway.errors import (
    ConfigError,
    HeadwayError,
    NotFoundError,
    TooManyError,
)

POLL_S = 0.05


Answer = Mapping[str, Any]


class PermitSource(Protocol):
    """Where permits come from; the answers are those of `/api/permits`."""

    @property
    def speed(self) -> float | None:
        """How many times faster than real time the clock of the source runs; None for real time."""

    def take(self, body: Answer) -> Answer:
        """Take a permit; raises TooManyError if the wait would be too long."""

    def begin(self, permit_id: str) -> Answer:
        """Begin a permit that waited; raises NotFoundError if it has expired."""

    def settle(self, permit_id: str, body: Answer) -> None:
        """Report how the call ended."""

    def close(self) -> None:
        """Close what was opened for this call."""


class PermitServer:
    """Permits of a Headway server, over HTTP; a connection lasts for one call."""

    speed: float | None = None

    def __init__(self, open_api: Callable[[], HeadwayApi]) -> None:
        self._open_api = open_api
        self._api: HeadwayApi | None = None

    def take(self, body: Answer) -> Answer:
        """Take a permit."""
        return self._post("", body)

    def begin(self, permit_id: str) -> Answer:
        """Begin a permit that waited."""
        return self._post(f"/{permit_id}/begin", {})

    def settle(self, permit_id: str, body: Answer) -> None:
        """Report how the call ended."""
        self._post(f"/{permit_id}/settle", body)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._api is not None:
            self._api.close()
            self._api = None

    def _post(self, path: str, body: Answer) -> Answer:
        self._api = self._api or self._open_api()
        reply = self._api.request("POST", f"/api/permits{path}", body=body, wait_s_max=0)
        self.speed = reply.speed
        answer: Answer = reply.json
        return answer


class Call:
    """One permitted call: how long it may take, and how it ended.

    A call that reports nothing counts as answered; one whose block raised an error counts as timed
    out, because the provider may still receive it.
    """

    def __init__(self, answer: Answer, *, clock: Clock, asked_s: float, speed: float) -> None:
        self.id = str(answer["id"])
        self.limit = str(answer["limit"])
        self.outcome: dict[str, Any] | None = None
        self._clock = clock
        # The server granted it after it was asked, so this is on the safe side.
        self._send_by_s = asked_s + float(answer["send_within_s"]) / speed
        self._finish_by_s = asked_s + float(answer["finish_within_s"]) / speed

    @property
    def send_left_s(self) -> float:
        """Seconds within which the call must be sent; at 0 it is too late."""
        return max(0.0, self._send_by_s - self._clock.monotonic())

    @property
    def left_s(self) -> float:
        """Seconds within which the call must be over: use it as your timeout."""
        return max(0.0, self._finish_by_s - self._clock.monotonic())

    def answered(self, status: int | None = None, *, retry_after_s: float | None = None) -> None:
        """Report the reply; a 429 pauses the limit for everybody who uses it."""
        is_throttled = status == 429  # noqa: PLR2004 - the status of HTTP
        self.outcome = {"outcome": "throttled" if is_throttled else "answered"}
        if status is not None:
            self.outcome["http_status"] = status
        if is_throttled and retry_after_s is not None:
            self.outcome["retry_after_s"] = retry_after_s

    def timed_out(self) -> None:
        """Report that no reply came; the provider may still receive the call."""
        self.outcome = {"outcome": "timed_out"}

    def unsent(self) -> None:
        """Give the permit back: the call was not sent."""
        self.outcome = {"outcome": "unsent"}


class PermitRequest:
    """A permit to be taken: `with` it, or `async with` it, to make one call."""

    def __init__(self, source: PermitSource, body: Answer, *, clock: Clock) -> None:
        self._source = source
        self._body = body
        self._clock = clock
        self._is_given_up = clock.event()
        self._call: Call | None = None

    def __enter__(self) -> Call:
        """Wait for the permit; raises TooManyError if that would take longer than you allow."""
        try:
            self._call = self._wait()
        except BaseException:
            self._source.close()
            raise
        return self._call

    def _wait(self) -> Call:
        began_s = self._clock.monotonic()
        permit_id: str | None = None
        while True:
            asked_s = self._clock.monotonic()
            left_s = max(0.0, self._body["max_wait_s"] - (asked_s - began_s) * self._speed)
            answer = self._ask(permit_id, left_s)
            permit_id = answer["id"]
            if answer["state"] == "granted":
                return Call(answer, clock=self._clock, asked_s=asked_s, speed=self._speed)
            wait_s = float(answer["wait_s"])
            if wait_s > left_s or self._is_given_up.is_set():
                self._give_back(permit_id)
                message = f"no permit within {self._body['max_wait_s']:g} s: {answer['reason']}"
                raise TooManyError(message, retry_after_s=wait_s)
            self._clock.sleep(max(wait_s / self._speed, POLL_S), self._is_given_up)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Settle the permit; a server that is down lets it expire."""
        call, self._call = self._call, None
        if call is None:
            return
        if call.outcome is None:
            call.answered() if error is None else call.timed_out()
        assert call.outcome is not None, "every call has an outcome by now"
        try:
            with suppress(HeadwayError):
                self._source.settle(call.id, call.outcome)
        finally:
            self._source.close()

    async def __aenter__(self) -> Call:
        """Wait for the permit without blocking the event loop; canceling gives it back."""
        self._is_given_up.clear()
        entering = asyncio.ensure_future(asyncio.to_thread(self.__enter__))
        try:
            return await asyncio.shield(entering)
        except asyncio.CancelledError:
            self._is_given_up.set()
            with suppress(HeadwayError):
                (await entering).unsent()
                await asyncio.to_thread(self.__exit__, None, None, None)
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Settle the permit."""
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    @property
    def _speed(self) -> float:
        """How many times faster than ours the clock of the source runs: 1, except for a demo."""
        return self._source.speed or 1.0

    def _ask(self, permit_id: str | None, left_s: float) -> Answer:
        """Begin the permit that waited, or take one."""
        if permit_id is None:
            return self._source.take({**self._body, "max_wait_s": left_s})
        try:
            return self._source.begin(permit_id)
        except NotFoundError:  # it expired, because we came too late
            return {"id": None, "state": "waiting", "wait_s": 0, "reason": "the permit expired"}

    def _give_back(self, permit_id: str | None) -> None:
        if permit_id is not None:
            with suppress(HeadwayError):
                self._source.settle(permit_id, {"outcome": "unsent"})


def permit(
    limit: str,
    *,
    server: str | None = None,
    api_key: str | None = None,
    max_wait_s: float = MAX_WAIT_S,
    timeout_s: float = TIMEOUT_S,
    priority: str = "ordinary",
    cost: float = 1,
    purpose: str = "another program",
    clock: Clock | None = None,
) -> PermitRequest:
    """Return a permit for one call under a limit: a supplier's name or a name of `headway limits`.

    `server` and `api_key` default to HEADWAY_SERVER and HEADWAY_API_KEY; a key with the role
    `permits` is enough. `max_wait_s` is the longest wait, `timeout_s` how long the call may take.
    """
    clock = clock or SystemClock()
    address = server or os.environ.get("HEADWAY_SERVER", "")
    key = api_key or os.environ.get("HEADWAY_API_KEY", "")
    if not address or not key:
        raise ConfigError("permit: set HEADWAY_SERVER and HEADWAY_API_KEY, or pass server, api_key")
    body = {
        "limit": limit,
        "max_wait_s": max_wait_s,
        "timeout_s": timeout_s,
        "priority": priority,
        "cost": cost,
        "purpose": purpose,
    }
    source = PermitServer(lambda: HeadwayApi(address, key, clock=clock))
    return PermitRequest(source, body, clock=clock)
