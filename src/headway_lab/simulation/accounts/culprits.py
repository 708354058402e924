"""The shops that faults are tied to: which ones, and what is wrong in each.

The same seed chooses the same. Shops that leave or use up their month are spared, so that whatever
happens in a shop is the fault's doing.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle

from headway.clock import rng
from headway.core.accounts.jobs import PlatformName
from headway.errors import InvalidError
from headway_lab.platforms import SHOPIFY
from headway_lab.simulation.accounts.faults import AccountFaults, CulpritKind, CulpritSpec
from headway_lab.simulation.accounts.world import (
    DAY_S,
    MONTH_DAYS,
    QUOTAS,
    AccountEventKind,
    AccountWorld,
    ShopPlan,
)
from headway_lab.simulators.poison import PoisonForm

# Every run sees orders that are this young, and most of them are shipped during the run.
RECENT_S = 1.5 * DAY_S
ROW_FORMS = (PoisonForm.ERROR, PoisonForm.REFUSED, PoisonForm.HTML, PoisonForm.GARBAGE)
GRAPHQL_FORMS = (PoisonForm.GRAPHQL, PoisonForm.HTML, PoisonForm.GARBAGE)
PAGE_FORMS = (PoisonForm.LARGE, PoisonForm.ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """A fault of one shop; of one order of it if it has a number."""

    kind: CulpritKind
    shop: ShopPlan
    form: PoisonForm
    order: int = 0


@dataclass(slots=True, kw_only=True)
class _Candidates:
    """The shops of each platform that may be chosen, and the recent orders of each."""

    shops: Mapping[PlatformName, list[ShopPlan]]
    orders: Mapping[str, list[int]]
    poisoned: set[tuple[str, int]] = field(default_factory=set)


def choose_culprits(
    world: AccountWorld, faults: AccountFaults, *, seed: int
) -> tuple[Culprit, ...]:
    """Choose a shop for each fault: every platform in turn, every shop once before any twice."""
    if not faults.culprits:
        return ()
    candidates = _candidates(world, seed)
    taken = {name: cycle(shops) for name, shops in candidates.shops.items() if shops}
    return tuple(
        culprit for spec in faults.culprits for culprit in _of_spec(spec, candidates, taken)
    )


def _of_spec(
    spec: CulpritSpec, candidates: _Candidates, taken: Mapping[PlatformName, Iterator[ShopPlan]]
) -> Iterator[Culprit]:
    platforms = [name for name in spec.platforms if name in taken]
    if not platforms:
        raise InvalidError("--fault: no shop has orders that a fault could be tied to")
    for number in range(spec.count):
        platform = platforms[number % len(platforms)]
        shop = next(taken[platform])
        forms = _forms(spec.kind, platform)
        form = forms[number // len(platforms) % len(forms)]
        order = 0
        if spec.kind is CulpritKind.POISON:
            left = [
                order
                for order in candidates.orders[shop.key]
                if (shop.key, order) not in candidates.poisoned
            ]
            if not left:
                continue
            order = left[-1]
            candidates.poisoned.add((shop.key, order))
        yield Culprit(kind=spec.kind, shop=shop, form=form, order=order)


def _forms(kind: CulpritKind, platform: PlatformName) -> Sequence[PoisonForm]:
    if kind is CulpritKind.PAGE:
        return PAGE_FORMS
    return GRAPHQL_FORMS if platform == SHOPIFY else ROW_FORMS


def _candidates(world: AccountWorld, seed: int) -> _Candidates:
    """Return shops with recent orders whose sellers stay and pay for enough."""
    orders: dict[str, list[int]] = defaultdict(list)
    leaving = set()
    for event in world.events:
        if event.kind is AccountEventKind.ORDER and -RECENT_S < event.at_s < 0:
            orders[event.shop].append(event.number)
        elif event.kind in {AccountEventKind.LEAVE, AccountEventKind.UPGRADE}:
            leaving.add(event.shop)
    per_day: dict[str, float] = defaultdict(float)
    for shop in world.shops.values():
        per_day[shop.seller] += shop.orders_per_day
    shops: dict[PlatformName, list[ShopPlan]] = defaultdict(list)
    for key in sorted(orders):
        shop = world.shops[key]
        is_greedy = per_day[shop.seller] * MONTH_DAYS > QUOTAS[shop.tier]
        if key not in leaving and not is_greedy:
            shops[shop.platform].append(shop)
    draw = rng(f"culprits:{seed}")
    for own in shops.values():
        draw.shuffle(own)
    return _Candidates(shops=shops, orders=orders)
