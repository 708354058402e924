"""The push port of a simulated pusher, which reports every operation to the law checks.

Each operation is done and checked, and only then may the pusher crash. Between a store and a send,
or a reply and a settle, it may freeze.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from headway.core.catalog.storefront import Intent, Pushed, PushLease, Shop
from headway.engine import ports
from headway_lab.simulation.crashes import FaultInjector
from headway_lab.simulation.shop_laws import ShopLaws


class ObservedPushes:
    """The push leases as one pusher uses them, under observation."""

    def __init__(self, inner: ports.PushesPort, laws: ShopLaws, injector: FaultInjector) -> None:
        self._inner = inner
        self._laws = laws
        self._injector = injector

    def due_shops(self, now: datetime, **more: Any) -> list[Shop]:  # noqa: ANN401 - as the port
        """Return the shops that are due."""
        self._injector.may_crash()
        shops = self._inner.due_shops(now, **more)
        self._injector.may_crash()
        return shops

    def claim(
        self,
        shop: Shop,
        *,
        now: datetime,
        owner: str,
        lease_until: datetime,
        **more: Any,  # noqa: ANN401 - as the port
    ) -> PushLease | None:
        """Claim a push lease, and check that no other is live."""
        self._injector.before_claim()
        self._injector.may_crash()
        push_lease = self._inner.claim(shop, now=now, owner=owner, lease_until=lease_until, **more)
        if push_lease is not None:
            lease_s = (lease_until - now).total_seconds()
            self._laws.claimed(push_lease, owner=owner, lease_s=lease_s)
        self._injector.may_crash()
        return push_lease

    def intend(self, push_lease: PushLease, intent: Intent, *, now: datetime) -> bool:
        """Store an intent."""
        self._injector.may_crash()
        is_ours = self._inner.intend(push_lease, intent, now=now)
        self._injector.may_freeze()
        self._injector.may_crash()
        return is_ours

    def settle(
        self,
        push_lease: PushLease,
        pushed: Sequence[Pushed] = (),
        *,
        keeps_lease: bool = False,
        **more: Any,  # noqa: ANN401 - as the port
    ) -> bool:
        """Settle, and check whether the settle was accepted."""
        self._injector.may_freeze()
        self._injector.may_crash()
        is_ours = self._inner.settle(push_lease, pushed, keeps_lease=keeps_lease, **more)
        self._laws.settled(push_lease, is_ours=is_ours, keeps_lease=keeps_lease)
        self._injector.may_crash()
        return is_ours

    def disconnect(self, shop: Shop, reason: str, *, now: datetime) -> None:
        """Disconnect a shop, for which no simulated shop has given a reason."""
        self._injector.may_crash()
        self._inner.disconnect(shop, reason, now=now)
        self._laws.gave_up(shop, reason)
        self._injector.may_crash()
