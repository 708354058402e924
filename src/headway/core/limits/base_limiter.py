"""The verbs of a limiter, over one way to run a transition; each store brings its own way."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from headway.core.limits import transitions
from headway.core.limits.rules import to_us
from headway.core.limits.status import LimitStatus
from headway.core.limits.transitions import (
    BeginResult,
    CallReport,
    LimitStep,
    Observation,
    Permit,
    Rejected,
    Request,
)

T = TypeVar("T")
Transition = Callable[[transitions.States, int], LimitStep[T]]
PAUSE_JITTER = 0.1


class Generator(Protocol):
    """A source of numbers in [0, 1)."""

    def random(self) -> float:
        """Return the next."""


class LimiterVerbs(Protocol):
    """What every limiter can do; `run` is atomic for the keys it is given."""

    resources: Mapping[str, transitions.Resource]
    ids: Callable[[], str]
    jitter: Generator | None

    def run(
        self, keys: tuple[str, ...], transition: Transition[T], report: CallReport | None = None
    ) -> T:
        """Lock the keys, read the clock, apply and store the transition, return its answer."""

    def status(self, key: str) -> LimitStatus:
        """Return the status of one key, for people."""

    def reserve(
        self,
        keys: Sequence[str],
        *,
        cost: float = 1,
        priority: int = 0,
        owner: str,
        max_wait_s: float,
        lease_s: float,
        grace_s: float,
        purpose: str = "",
        begins: bool = False,
        leave: float = 0,
        after: Permit | None = None,
        report: CallReport | None = None,
    ) -> Permit | Rejected:
        """Queue for a start time; refuse at once when the wait would be too long.

        With `begins`, a permit whose start is now has begun (`granted`). `leave` is how many units
        of a quota must stay free for others. `after` is a call on these keys that was sent and has
        ended as `report` says: it is settled by this operation, whatever the answer.
        """
        request = Request(
            id=self.ids(),
            keys=transitions.find_keys(self.resources, keys),
            cost=cost,
            priority=priority,
            owner=owner,
            max_wait_s=max_wait_s,
            lease_s=lease_s,
            grace_s=grace_s,
            purpose=purpose,
            leave=leave,
        )
        assert after is None or (set(after.keys) <= set(request.keys) and not begins)

        def transition(states: transitions.States, now_us: int) -> LimitStep[Permit | Rejected]:
            if after is not None:
                return transitions.follow(self.resources, states, after, request, now_us)
            ask = transitions.take if begins else transitions.reserve
            return ask(self.resources, states, request, now_us)

        return self.run(request.keys, transition, report)

    def knows(self, permit: Permit) -> bool:
        """Return True if the limits of a permit are known here, where another may have reserved it.

        An unknown permit lapses.
        """
        return all(key in self.resources for key in permit.keys)

    def begin(self, permit: Permit) -> BeginResult:
        """Ask to send now: Granted, NotYet (come back later) or Expired (reserve again)."""
        return self.run(
            transitions.find_keys(self.resources, permit.keys),
            lambda states, now_us: transitions.begin(self.resources, states, permit, now_us),
        )

    def settle(
        self,
        permit: Permit,
        *,
        sent: bool,
        actual: float | None = None,
        is_late: bool = False,
        report: CallReport | None = None,
        observation: Observation | None = None,
    ) -> None:
        """Settle the call: store how it ended, and what its reply reported about the meter.

        `is_late` when it may still arrive after our finish.
        """
        self.run(
            transitions.find_keys(self.resources, permit.keys),
            lambda states, now_us: transitions.settle(
                self.resources,
                states,
                permit,
                sent=sent,
                actual=actual,
                is_late=is_late,
                observation=observation,
                now_us=now_us,
            ),
            report,
        )

    def spend(self, permit: Permit, amount: float, *, lease_s: float = 0) -> bool:
        """Count a part of what a permit reserved of a quota as used; False if it has not that much.

        With `lease_s` the reservation lives at least that much longer.
        """
        return self.run(
            transitions.find_keys(self.resources, permit.keys),
            lambda states, now_us: transitions.spend(
                self.resources, states, permit, amount, lease_s=lease_s, now_us=now_us
            ),
        )

    def extend(self, permit: Permit, amount: float) -> bool:
        """Reserve more of a quota for a call in flight; return False if it is not available."""
        return self.run(
            transitions.find_keys(self.resources, permit.keys),
            lambda states, now_us: transitions.extend(
                self.resources, states, permit, amount, now_us
            ),
        )

    def limit_of(self, key: str) -> float:
        """Return the limit of a key's quota, as replies have taught it."""
        (quota, *_) = self.resources[key].quotas
        return self.run(
            transitions.find_keys(self.resources, [key]),
            lambda states, _now_us: LimitStep(answer=quota.room(states[key].quotas[0])),
        )

    def left_of(self, key: str) -> float:
        """Return what is not used of a key's quota, as replies have corrected it."""
        (quota, *_) = self.resources[key].quotas
        return self.run(
            transitions.find_keys(self.resources, [key]),
            lambda states, now_us: LimitStep(
                answer=quota.room(states[key].quotas[0])
                - quota.used_at(states[key].quotas[0], now_us)
            ),
        )

    def observe(self, key: str, observation: Observation, *, permit: Permit | None = None) -> None:
        """Correct a meter from a reply; name the reply's permit if it is not settled."""
        self.run(
            transitions.find_keys(self.resources, [key]),
            lambda states, now_us: transitions.observe(
                self.resources[key],
                states[key],
                observation,
                permit_id=permit.id if permit else None,
                now_us=now_us,
            ),
        )

    def pause(self, key: str, seconds: float, reason: str) -> None:
        """Block new calls for a while; a longer pause stays."""
        share = PAUSE_JITTER * self.jitter.random() if self.jitter else 0
        length_us = to_us(seconds * (1 + share))
        self.run(
            transitions.find_keys(self.resources, [key]),
            lambda states, now_us: transitions.pause(
                states[key], key, until_us=now_us + length_us, reason=reason
            ),
        )
