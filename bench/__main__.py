"""Run the benchmarks that are named, or all of them."""

import argparse
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from bench import (
    claim,
    jobs,
    limits,
    push,
    replies,
    scale,
    simulated,
    sizes,
    startup,
    suppliers,
    viewers,
    views,
)
from bench.services import machine
from headway.errors import HeadwayError

PARTS = (
    "claim",
    "jobs",
    "limits",
    "push",
    "replies",
    "scale",
    "simulated",
    "sizes",
    "startup",
    "suppliers",
    "viewers",
    "views",
)
ROWS_MIN = 1000
SECONDS_MAX = 3600.0


def main() -> int:
    """Run the chosen parts in order; Ctrl-C and SIGTERM end it cleanly."""
    options = _options()
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        for name, value in machine():
            print(f"{name:12} {value}", flush=True)
        for part in PARTS:
            if part in options.parts:
                _runs(options)[part]()
    except KeyboardInterrupt:
        print("bench: stopped", file=sys.stderr)
        return 130
    except HeadwayError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


def _runs(options: argparse.Namespace) -> Mapping[str, Callable[[], None]]:
    return {
        "claim": lambda: claim.run(rows=options.rows, rounds=options.rounds),
        "jobs": lambda: jobs.run(rows=options.jobs, rounds=options.rounds),
        "limits": lambda: limits.run(
            seconds=options.seconds, strict_seconds=options.strict_seconds
        ),
        "push": lambda: push.run(changed=options.changed),
        "replies": lambda: replies.run(against=options.against),
        "scale": lambda: scale.run(shops=options.shops),
        "simulated": lambda: simulated.run(listings=options.listings),
        "sizes": sizes.run,
        "startup": startup.run,
        "suppliers": lambda: suppliers.run(suppliers=options.suppliers),
        "viewers": lambda: viewers.run(counts=options.viewers),
        "views": lambda: views.run(rows=options.view_rows, rounds=options.rounds),
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", help=f"benchmarks to run: {', '.join(PARTS)} (default: all)"
    )
    parser.add_argument(
        "--rows", type=_sizes, default=claim.ROWS, help="claim: rows in the schedule"
    )
    parser.add_argument(
        "--jobs", type=_sizes, default=jobs.ROWS, help="jobs: rows in the job queue"
    )
    parser.add_argument(
        "--view-rows", type=_sizes, default=views.ROWS, help="views: listings in the tables"
    )
    parser.add_argument(
        "--rounds",
        type=_count,
        default=claim.ROUNDS,
        help="claim, jobs, views: rounds at each size",
    )
    parser.add_argument(
        "--seconds", type=_seconds, default=limits.SPEED_S, help="limits: seconds of a speed run"
    )
    parser.add_argument(
        "--strict-seconds",
        type=_seconds,
        default=limits.STRICT_S,
        help="limits: seconds of a strictness run",
    )
    parser.add_argument(
        "--changed", type=_count, default=push.CHANGED, help="push: listings with a change"
    )
    parser.add_argument(
        "--against", type=Path, help="replies: another checkout to compare the readers with"
    )
    parser.add_argument(
        "--shops", type=_count, default=scale.SHOPS, help="scale: shops to write to, one call each"
    )
    parser.add_argument(
        "--suppliers", type=_count, default=suppliers.SUPPLIERS, help="suppliers: suppliers to read"
    )
    parser.add_argument(
        "--listings", type=_count, default=simulated.LISTINGS, help="simulated: listings of the day"
    )
    parser.add_argument(
        "--viewers",
        type=_counts,
        default=viewers.COUNTS,
        help="viewers: browsers on the page at once",
    )
    options = parser.parse_args()
    options.parts = options.parts or PARTS
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"unknown benchmark {part}; choose from {', '.join(PARTS)}")
    return options


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(_count(part) for part in text.split(","))
    if min(sizes) < ROWS_MIN:
        raise argparse.ArgumentTypeError(f"a size must be {ROWS_MIN} rows or more")
    return sizes


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a count; write it like 10000")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds above 0")
    return seconds


def _interrupt(signum: int, frame: FrameType | None) -> None:
    del signum, frame
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
