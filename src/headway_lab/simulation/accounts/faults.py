"""Parser of `--fault` for the account lane: the same texts, for all platforms or for one.

`outage:2h@10:00` affects all of them, `etsy-outage:2h@10:00` only Etsy. Crashes, freezes and wrong
clocks are our workers'. Some faults are tied to one thing and return every time: `poison:5` are
five orders that spoil every reply that would show them, `page-poison` is a shop whose pages fail
unless they are small, `endless` a shop whose lists never settle. `wrong-403:10m` refuses all tokens
for ten minutes. `webhook-flood:2000` sends that many webhooks for one shop within an hour. Faults
of single SKUs and of storefronts belong to the other lane.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headway.core.accounts.jobs import PlatformName
from headway.errors import InvalidError
from headway_lab.platforms import PLATFORMS
from headway_lab.simulation.faults import Faults, parse_faults
from headway_lab.simulation.known_faults import ACCOUNT_FAULTS
from headway_lab.simulators.faults import Interval

WORKERS = ("crash", "stall", "clock")
OF_PLATFORMS = ("outage", "timeout", "error", "slow", "html")
FLOOD = "webhook-flood"
WRONG_403 = "wrong-403"
# When a wrong refusal begins if the fault does not say.
REFUSED_AT = "01:30"
COUNT = re.compile(r"[1-9][0-9]{0,5}")


class CulpritKind(StrEnum):
    """A fault that is tied to one shop, and returns every time."""

    POISON = "poison"
    PAGE = "page-poison"
    ENDLESS = "endless"


@dataclass(frozen=True, slots=True, kw_only=True)
class CulpritSpec:
    """So many faults of one kind, spread over the shops of these platforms."""

    kind: CulpritKind
    platforms: tuple[PlatformName, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookFlood:
    """So many webhooks within an hour, for one shop of one of these platforms."""

    platforms: tuple[PlatformName, ...]
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountFaults:
    """What the workers suffer, and what each platform does."""

    specs: tuple[str, ...] = ()
    workers: Faults = field(default_factory=Faults)
    platforms: Mapping[PlatformName, Faults] = field(default_factory=dict)
    floods: tuple[WebhookFlood, ...] = ()
    culprits: tuple[CulpritSpec, ...] = ()
    refusals: Mapping[PlatformName, tuple[Interval, ...]] = field(default_factory=dict)


def parse_account_faults(specs: Sequence[str]) -> AccountFaults:
    """Read all specs of a run; raises InvalidError that shows how to write one."""
    affected: dict[PlatformName, list[str]] = {name: [] for name in PLATFORMS}
    workers: list[str] = []
    floods: list[WebhookFlood] = []
    culprits: list[CulpritSpec] = []
    refusals: dict[PlatformName, tuple[Interval, ...]] = dict.fromkeys(PLATFORMS, ())
    for spec in specs:
        names, bare = _split_platform(spec)
        kind, _, size = bare.partition(":")
        if kind in WORKERS and len(names) > 1:
            workers.append(bare)
        elif kind == FLOOD:
            count = _count(spec, size, f"{FLOOD}:2000")
            floods.append(WebhookFlood(platforms=tuple(names), count=count))
        elif kind in set(CulpritKind):
            count = _count(spec, size or "1", f"{kind}:5")
            culprits.append(
                CulpritSpec(kind=CulpritKind(kind), platforms=tuple(names), count=count)
            )
        elif kind == WRONG_403:
            for name in names:
                refusals[name] += _refusal(spec, size)
        elif kind in OF_PLATFORMS:
            for name in names:
                affected[name].append(bare)
        else:
            raise InvalidError(
                f"--fault {spec!r} is not of the account lane; known: {ACCOUNT_FAULTS}"
            )
    return AccountFaults(
        specs=tuple(specs),
        workers=parse_faults(workers),
        platforms={name: parse_faults(own) for name, own in affected.items()},
        floods=tuple(floods),
        culprits=tuple(culprits),
        refusals=refusals,
    )


def _count(spec: str, size: str, example: str) -> int:
    if not COUNT.fullmatch(size):
        raise InvalidError(f"--fault {spec!r} cannot be read; write it as {example}")
    return int(size)


def _refusal(spec: str, size: str) -> tuple[Interval, ...]:
    length, _, at = size.partition("@")
    try:
        return parse_faults([f"outage:{length}@{at or REFUSED_AT}"]).outages
    except InvalidError:
        example = f"{WRONG_403}:10m or {WRONG_403}:10m@10:00"
        raise InvalidError(f"--fault {spec!r} cannot be read; write it as {example}") from None


def _split_platform(spec: str) -> tuple[list[PlatformName], str]:
    """Return the platforms that a spec affects, and the spec without their name."""
    for name in PLATFORMS:
        if spec.startswith(f"{name}-"):
            return [name], spec.removeprefix(f"{name}-")
    return list(PLATFORMS), spec
