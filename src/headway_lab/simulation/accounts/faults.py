"""Parser of `--fault` for the account lane: the same texts, for all platforms or for one.

`outage:2h@10:00` affects all of them, `etsy-outage:2h@10:00` only Etsy. Crashes, freezes and wrong
clocks are our workers'. Faults of single SKUs and of storefronts belong to the other lane.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headway.core.accounts.jobs import PlatformName
from headway.errors import InvalidError
from headway_lab.simulation.faults import Faults, parse_faults

WORKERS = ("crash", "stall", "clock")
PLATFORMS = ("outage", "timeout", "error", "slow", "html")
KNOWN = (
    "crash:1/h, stall:1/h, clock:90s, outage:2h@10:00, outage:2h@1d10:00, timeout:2%, error:2%,"
    " slow:5%, html:1%; the last six also of one platform: etsy-, shopify- or printify-outage:..."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountFaults:
    """What the workers suffer, and what each platform does."""

    specs: tuple[str, ...] = ()
    workers: Faults = field(default_factory=Faults)
    platforms: Mapping[PlatformName, Faults] = field(default_factory=dict)


def parse_account_faults(specs: Sequence[str]) -> AccountFaults:
    """Read all specs of a run; raises InvalidError that shows how to write one."""
    struck: dict[PlatformName, list[str]] = {name: [] for name in PlatformName}
    workers: list[str] = []
    for spec in specs:
        names, bare = _whom(spec)
        kind = bare.partition(":")[0]
        if kind in WORKERS and len(names) > 1:
            workers.append(bare)
        elif kind in PLATFORMS:
            for name in names:
                struck[name].append(bare)
        else:
            raise InvalidError(f"--fault {spec!r} is not of the account lane; known: {KNOWN}")
    return AccountFaults(
        specs=tuple(specs),
        workers=parse_faults(workers),
        platforms={name: parse_faults(own) for name, own in struck.items()},
    )


def _whom(spec: str) -> tuple[list[PlatformName], str]:
    for name in PlatformName:
        if spec.startswith(f"{name}-"):
            return [name], spec.removeprefix(f"{name}-")
    return list(PlatformName), spec
