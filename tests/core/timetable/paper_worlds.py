"""Generated change histories for `paper_line`: when each listing of a catalogue changes."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from headway.clock import Rng, rng

DAY_MIN = 1440.0


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """When each listing changes, in minutes; who belongs together; what each is worth."""

    changes: list[list[float]]
    families: list[str | None]
    weights: list[float]
    # True changes a day, where they are steady: then the optimum is known.
    rates: list[float] | None = None
    outages: list[tuple[float, float]] = field(default_factory=list)
    failed_share: float = 0.0


def gamma_rates(random: Rng, products: int, mean: float = 0.05) -> list[float]:
    return [random.gammavariate(0.35, mean / 0.35) for _ in range(products)]


def poisson(random: Rng, rate: float, start: float, end: float) -> list[float]:
    times: list[float] = []
    if rate <= 1e-9:
        return times
    at = start + random.expovariate(rate / DAY_MIN)
    while at < end:
        times.append(at)
        at += random.expovariate(rate / DAY_MIN)
    return times


def is_awake(random: Rng, at: float) -> bool:
    """Keep by day what a night would not see."""
    return random.random() < 0.5 + 0.5 * math.sin((at % DAY_MIN) / DAY_MIN * 2 * math.pi - 1.6)


def labels(random: Rng, products: int, smallest: int = 20, largest: int = 200) -> list[int]:
    """Deal the catalogue out to families of varied sizes."""
    named: list[int] = []
    while len(named) < products:
        size = round(math.exp(random.uniform(math.log(smallest), math.log(largest))))
        named += [len(set(named)) if not named else named[-1] + 1] * size
    named = named[:products]
    random.shuffle(named)
    return named


def of_rates(random: Rng, rates: list[float], days: float) -> World:
    products = len(rates)
    changes = [poisson(random, rate, 0, days * DAY_MIN) for rate in rates]
    families: list[str | None] = [f"f{n}" for n in labels(random, products)]
    return World(changes=changes, families=families, weights=[1.0] * products, rates=rates)


def steady(products: int, days: float, seed: int) -> World:
    """Most parts hardly change; five of a hundred do within a day (the facts' population)."""
    random = rng(f"steady {seed}")
    rates = [random.lognormvariate(math.log(0.075) - 1.84**2 / 2, 1.84) for _ in range(products)]
    return of_rates(random, rates, days)


def gamma(products: int, days: float, seed: int) -> World:
    random = rng(f"gamma {seed}")
    return of_rates(random, gamma_rates(random, products), days)


def equal(products: int, days: float, seed: int) -> World:
    return of_rates(rng(f"equal {seed}"), [0.05] * products, days)


def drifting(products: int, days: float, seed: int) -> World:
    """Each listing draws a new rate after ten days or so."""
    random = rng(f"drifting {seed}")
    changes = []
    for _ in range(products):
        times: list[float] = []
        at, end = 0.0, days * DAY_MIN
        while at < end:
            until = min(end, at + random.expovariate(1 / (10 * DAY_MIN)))
            times += poisson(random, gamma_rates(random, 1)[0], at, until)
            at = until
        changes.append(times)
    families: list[str | None] = [f"f{n}" for n in labels(random, products)]
    return World(changes=changes, families=families, weights=[1.0] * products)


def weighted(products: int, days: float, seed: int) -> World:
    world = steady(products, days, seed)
    random = rng(f"weights {seed}")
    weights = [random.lognormvariate(0, 1.2) for _ in range(products)]
    return World(changes=world.changes, families=world.families, weights=weights, rates=world.rates)


def moves(random: Rng, rate: float, end: float) -> list[float]:
    """Stock moves by day, and rarely alone."""
    times = []
    for first in poisson(random, rate, 0, end):
        if not is_awake(random, first):
            continue
        at = first
        times.append(at)
        while random.random() < 0.4:
            at += random.expovariate(1 / 180.0)
            times.append(at)
    return [at for at in times if at < end]


def bursty(
    products: int,
    days: float,
    seed: int,
    *,
    hit: float = 0.5,
    rollout_min: float = 3.0,
    every_days: float = 20.0,
) -> World:
    random = rng(f"bursty {seed}")
    end = days * DAY_MIN
    changes = [moves(random, rate, end) for rate in gamma_rates(random, products, 0.035)]
    families = labels(random, products)
    members: dict[int, list[int]] = {}
    for listing, family in enumerate(families):
        members.setdefault(family, []).append(listing)
    for family in sorted(members):
        for at in poisson(random, 1.5 / every_days, 0, end):
            if not is_awake(random, at):
                continue
            for listing in members[family]:
                if random.random() < hit:
                    changes[listing].append(at + random.uniform(0, rollout_min))
    return World(
        changes=[sorted(at for at in times if at < end) for times in changes],
        families=[f"f{n}" for n in families],
        weights=[1.0] * products,
    )


def relabelled(world: World, seed: int, share: float) -> World:
    """Give this share of the listings the label of another."""
    random = rng(f"labels {seed}")
    families = list(world.families)
    chosen = [n for n in range(len(families)) if random.random() < share]
    dealt = [families[n] for n in chosen]
    random.shuffle(dealt)
    for n, family in zip(chosen, dealt, strict=True):
        families[n] = family
    return World(changes=world.changes, families=families, weights=world.weights, rates=world.rates)


def rolled_out(products: int, days: float, seed: int) -> World:
    world = bursty(products, days, seed, hit=0.2, rollout_min=240.0)
    return relabelled(world, seed, 0.4)


def random_labels(products: int, days: float, seed: int) -> World:
    return relabelled(bursty(products, days, seed), seed, 1.0)


def one_family(products: int, days: float, seed: int) -> World:
    world = bursty(products, days, seed)
    return World(changes=world.changes, families=["all"] * products, weights=world.weights)


def faulty(products: int, days: float, seed: int) -> World:
    world = steady(products, days, seed)
    random = rng(f"faulty {seed}")
    outages = [(at, at + 90.0) for at in poisson(random, 1 / 3, 0, days * DAY_MIN)]
    return World(
        changes=world.changes,
        families=world.families,
        weights=world.weights,
        rates=world.rates,
        outages=outages,
        failed_share=0.02,
    )


WORLDS: dict[str, Callable[[int, float, int], World]] = {
    "steady": steady,
    "gamma": gamma,
    "equal": equal,
    "drifting": drifting,
    "weighted": weighted,
    "bursty": bursty,
    "rolled-out": rolled_out,
    "random-labels": random_labels,
    "one-family": one_family,
    "faulty": faulty,
}
