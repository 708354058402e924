"""The desk: what a person sees and does, over the API or the command line, alike.

A desk belongs to somebody: what is done is written down under `actor`, and behind the wall of a
`seller` nothing of another's is seen or touched. Every verb answers for each listing; one that was
named wrongly is refused before anything is done.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from headway.app import App
from headway.core.model import SellerId, Sku
from headway.errors import InvalidError, NotFoundError
from headway.store.explain import Standings
from headway.store.review import HeldChange, Review, Ruling
from headway.store.timetable import Moved, Wish

Answer = TypeVar("Answer")


class Desk:
    """The verbs and looks of one person; `whole` is the application without a wall."""

    def __init__(self, whole: App, *, actor: str, seller: SellerId | None = None) -> None:
        self._whole = whole.behind(actor=actor)
        self._app = whole.behind(actor=actor, seller=seller)
        self._seller = seller
        self.actor = actor

    def held(
        self, *, seller: SellerId | None = None, limit: int, after: HeldChange | None = None
    ) -> list[HeldChange]:
        """Return held changes, the oldest first."""
        return self._review.held(self._whose(seller), limit=limit, after=after)

    def approve(
        self, skus: Sequence[Sku], *, seller: SellerId | None = None, reason: str = ""
    ) -> list[Ruling]:
        """Let held changes reach the shop."""
        now = self._app.clock.now()
        return self._for_each(
            skus, seller, lambda *key: self._review.approve(*key, reason=reason, now=now)
        )

    def approve_all(self, *, seller: SellerId | None = None, reason: str) -> list[Ruling]:
        """Let everything held reach the shop, and the rest of a mass change with it."""
        now = self._app.clock.now()
        return self._review.approve_all(self._whose(seller), reason=reason, now=now)

    def reject(
        self, skus: Sequence[Sku], *, seller: SellerId | None = None, reason: str = ""
    ) -> list[Ruling]:
        """Keep the shop's price; the same quote is not held again."""
        now = self._app.clock.now()
        return self._for_each(
            skus, seller, lambda *key: self._review.reject(*key, reason=reason, now=now)
        )

    def rollback(
        self,
        skus: Sequence[Sku],
        *,
        to: datetime,
        seller: SellerId | None = None,
        reason: str = "",
        dry_run: bool = False,
    ) -> list[Ruling]:
        """Give parts the price they had at another time."""
        now = self._app.clock.now()
        return self._for_each(
            skus,
            seller,
            lambda *key: self._review.rollback(
                *key, to=to, reason=reason, now=now, dry_run=dry_run
            ),
        )

    def revive(self, skus: Sequence[Sku], *, seller: SellerId | None = None) -> list[Ruling]:
        """Restart parked parts; they board the next call."""
        now = self._app.clock.now()
        return self._for_each(skus, seller, lambda *key: self._review.revive(*key, now=now))

    def move(
        self, skus: Sequence[Sku], wish: Wish, *, seller: SellerId | None = None
    ) -> list[Moved]:
        """Give parts another slot of the day, or a priority in theirs."""
        app, now = self._app, self._app.clock.now()

        def verb(user_id: SellerId, theirs: list[Sku]) -> list[Moved]:
            return [
                app.timetable.move(user_id, sku, wish, policy=app.policy, now=now) for sku in theirs
            ]

        return self._for_each(skus, seller, verb)

    @property
    def _review(self) -> Review:
        return Review(self._app.pool)

    def _whose(self, asked: SellerId | None) -> SellerId | None:
        """Return whose data is meant, None for everybody's; raises NotFoundError."""
        return self._app.sellers.known(asked) if self._seller is None else self._seller

    def _for_each(
        self,
        skus: Sequence[Sku],
        seller: SellerId | None,
        verb: Callable[[SellerId, list[Sku]], list[Answer]],
    ) -> list[Answer]:
        """Do a verb for the one seller of each part; raises RequestError before it is done."""
        whose = self._seller or seller
        sellers = self._review.sellers_of(skus)
        wanted: dict[SellerId, list[Sku]] = {}
        for sku in dict.fromkeys(skus):
            wanted.setdefault(self._lister(sku, sellers.get(sku, []), whose), []).append(sku)
        return [each for user_id, theirs in wanted.items() for each in verb(user_id, theirs)]

    def _lister(self, sku: Sku, listed_by: Sequence[SellerId], whose: SellerId | None) -> SellerId:
        if not listed_by:
            similar = Standings(self._app.pool).similar(sku)
            hint = f"did you mean {' or '.join(similar)}?" if similar else "check how it is spelled"
            raise NotFoundError(f"no listing has the part number {sku}; {hint}")
        names = ", ".join(listed_by)
        if whose is not None and whose not in listed_by:
            raise NotFoundError(f"{whose} does not list {sku}; it is listed by {names}")
        if whose is None and len(listed_by) > 1:
            raise InvalidError(f"{sku} is listed by {names}; say whose: name the seller")
        return whose or listed_by[0]
