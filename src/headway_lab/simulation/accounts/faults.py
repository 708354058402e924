"""Parser of `--fault` for the account lane: the same texts, for all platforms or for one.

`outage:2h@10:00` affects all of them, `etsy-outage:2h@10:00` only Etsy. Crashes, freezes and wrong
clocks are our workers'. `webhook-flood:2000` sends that many webhooks for one shop within an hour.
Faults of single SKUs and of storefronts belong to the other lane.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headway.core.accounts.jobs import PlatformName
from headway.errors import InvalidError
from headway_lab.platforms import PLATFORMS
from headway_lab.simulation.faults import Faults, parse_faults

WORKERS = ("crash", "stall", "clock")
OF_PLATFORMS = ("outage", "timeout", "error", "slow", "html")
FLOOD = "webhook-flood"
COUNT = re.compile(r"[1-9][0-9]{0,5}")
KNOWN = (
    "crash:1/h, stall:1/h, clock:90s, outage:2h@10:00, outage:2h@1d10:00, timeout:2%, error:2%,"
    " slow:5%, html:1%, webhook-flood:2000; the last seven also of one platform: etsy-, shopify- or"
    " printify-outage:..."
)


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


def parse_account_faults(specs: Sequence[str]) -> AccountFaults:
    """Read all specs of a run; raises InvalidError that shows how to write one."""
    affected: dict[PlatformName, list[str]] = {name: [] for name in PLATFORMS}
    workers: list[str] = []
    floods: list[WebhookFlood] = []
    for spec in specs:
        names, bare = _split_platform(spec)
        kind, _, size = bare.partition(":")
        if kind in WORKERS and len(names) > 1:
            workers.append(bare)
        elif kind == FLOOD:
            if not COUNT.fullmatch(size):
                raise InvalidError(f"--fault {spec!r} cannot be read; write it as {FLOOD}:2000")
            floods.append(WebhookFlood(platforms=tuple(names), count=int(size)))
        elif kind in OF_PLATFORMS:
            for name in names:
                affected[name].append(bare)
        else:
            raise InvalidError(f"--fault {spec!r} is not of the account lane; known: {KNOWN}")
    return AccountFaults(
        specs=tuple(specs),
        workers=parse_faults(workers),
        platforms={name: parse_faults(own) for name, own in affected.items()},
        floods=tuple(floods),
    )


def _split_platform(spec: str) -> tuple[list[PlatformName], str]:
    """Return the platforms that a spec affects, and the spec without their name."""
    for name in PLATFORMS:
        if spec.startswith(f"{name}-"):
            return [name], spec.removeprefix(f"{name}-")
    return list(PLATFORMS), spec
