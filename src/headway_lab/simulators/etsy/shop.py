"""One simulated Etsy shop: what happens in it, and how its lists are sorted, filtered and cut.

Some cancels, refunds and shipments leave `last_modified` as it was, as they do at Etsy.
"""

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from headway.clock import Rng
from headway_lab.simulators.etsy.records import (
    Entry,
    EtsyBuyer,
    EtsyListing,
    EtsyShipment,
    Owner,
    Position,
    Receipt,
    Repayment,
    entry_json,
    listing_json,
    pack,
    payment_id,
    payment_json,
    receipt_json,
)
from headway_lab.simulators.etsy.truth import Rows, tables

COUNTRIES = ("US", "GB", "DE", "FR", "CA", "AU")
FLAGS: Mapping[str, Callable[[Receipt], bool]] = {
    "was_paid": lambda receipt: receipt.is_paid,
    "was_shipped": lambda receipt: bool(receipt.shipments),
    "was_delivered": lambda receipt: receipt.is_delivered,
    "was_canceled": lambda receipt: receipt.is_canceled,
}
Found = tuple[int, Sequence[bytes]]


class EtsyShop:
    """The records of a shop; every method takes the second at which it happens."""

    def __init__(
        self,
        owner: Owner,
        *,
        generator: Rng,
        numbers: Iterator[int],
        quiet_share: float,
        lag_s: tuple[float, float],
    ) -> None:
        self.owner = owner
        self._generator = generator
        self._numbers = numbers
        self._quiet_share = quiet_share
        self._lag_s = lag_s
        self.receipts: dict[int, Receipt] = {}
        self.listings: dict[int, EtsyListing] = {}
        self.ledger: list[Entry] = []
        self._entries: list[bytes] = []
        self._entry_times: list[int] = []
        self._created: list[tuple[int, int]] = []
        self._updated: list[tuple[int, int]] = []
        self._late: list[tuple[float, int, int]] = []
        self._packed: dict[int, bytes] = {}
        self._by_state: dict[str, list[EtsyListing]] = {}
        # Seen at Etsy: lists that are served empty for hours, and lists whose rows of one second
        # come in another order with each request, so that pages repeat some rows and omit others.
        self.empty_states: set[str] = set()
        self.has_loose_order = False
        # A server that ignores `sort_order` shows the newest first.
        self.ignores_sort_order = False

    # What happens in the shop.

    def place_order(
        self,
        at_s: int,
        *,
        buyer: EtsyBuyer | None = None,
        items: Sequence[tuple[int, int]] = (),
        is_paid: bool = True,
        discount: int = 0,
    ) -> int:
        """Place an order of that many of each listing, or one of any; return the receipt's id."""
        draw = self._generator
        if not items:
            items = [(draw.choice(list(self.listings) or [self.add_listing(at_s)]), 1)]
        positions = tuple(self._sell(listing_id, count, at_s) for listing_id, count in items)
        receipt = Receipt(
            id=next(self._numbers),
            buyer=buyer or self._buyer(),
            positions=positions,
            shipping=draw.choice((0, 499, 799)),
            tax=draw.choice((0, 125)),
            vat=draw.choice((0, 210)),
            discount=discount,
            created_s=at_s,
            updated_s=at_s,
            is_paid=is_paid,
        )
        self.receipts[receipt.id] = receipt
        insort(self._created, (at_s, receipt.id))
        insort(self._updated, (at_s, receipt.id))
        if is_paid:
            self._take_payment(receipt, at_s)
        return receipt.id

    def pay(self, receipt_id: int, at_s: int) -> None:
        """Pay an open order."""
        receipt = self.receipts[receipt_id]
        receipt.is_paid = True
        self._take_payment(receipt, at_s)
        self._touch(receipt, at_s, is_quiet=False)

    def ship(self, receipt_id: int, at_s: int, *, is_quiet: bool | None = None) -> None:
        """Ship a package."""
        receipt = self.receipts[receipt_id]
        number = next(self._numbers)
        carrier = self._generator.choice(("usps", "ups", "dhl"))
        shipment = EtsyShipment(id=number, carrier=carrier, tracking=f"TRACK{number}", sent_s=at_s)
        receipt.shipments.append(shipment)
        self._touch(receipt, at_s, is_quiet=is_quiet)

    def deliver(self, receipt_id: int, at_s: int) -> None:
        """Deliver the packages; receipts do not show it, only a filter does."""
        receipt = self.receipts[receipt_id]
        receipt.is_delivered = True
        self._touch(receipt, at_s, is_quiet=False)

    def cancel(self, receipt_id: int, at_s: int, *, is_quiet: bool | None = None) -> None:
        """Cancel an order and refund what was paid."""
        receipt = self.receipts[receipt_id]
        receipt.is_canceled = True
        left = receipt.total - sum(repayment.amount for repayment in receipt.repayments)
        if receipt.is_paid and left > 0:
            self._repay(receipt, left, at_s, "canceled")
        self._touch(receipt, at_s, is_quiet=is_quiet)

    def refund(
        self,
        receipt_id: int,
        at_s: int,
        *,
        amount: int | None = None,
        reason: str = "",
        is_quiet: bool | None = None,
    ) -> None:
        """Refund all that is left, or that many minor units of it."""
        receipt = self.receipts[receipt_id]
        left = receipt.total - sum(repayment.amount for repayment in receipt.repayments)
        amount = left if amount is None else min(amount, left)
        if amount > 0:
            self._repay(receipt, amount, at_s, reason)
        self._touch(receipt, at_s, is_quiet=is_quiet)

    def add_listing(self, at_s: int, *, state: str = "active", **fields: Any) -> int:  # noqa: ANN401
        """Put something on offer; return its id."""
        number = next(self._numbers)
        usual = {
            "title": f"Potter's mug & saucer no. {number}",
            "sku": f"MUG-{number}",
            "price": self._generator.randrange(500, 9000),
            "quantity": self._generator.randrange(1, 50),
        }
        self.listings[number] = EtsyListing(
            id=number, state=state, created_s=at_s, updated_s=at_s, **{**usual, **fields}
        )
        self._by_state.clear()
        self._enter("listing", -20, at_s, ("listing", number))
        return number

    def edit_listing(self, listing_id: int, at_s: int, **fields: Any) -> None:  # noqa: ANN401
        """Change something of a listing: title, sku, price, quantity or state."""
        listing = self.listings[listing_id]
        if fields.get("state") == "active" != listing.state:
            listing.created_s = at_s  # a listing that returns to sale is listed first
        for name, value in fields.items():
            setattr(listing, name, value)
        listing.updated_s = at_s
        self._packed.pop(listing_id, None)
        self._by_state.clear()

    def remove_listing(self, listing_id: int) -> None:
        """Delete a listing."""
        del self.listings[listing_id]
        self._packed.pop(listing_id, None)
        self._by_state.clear()

    def pay_out(self, at_s: int) -> None:
        """Transfer the balance to the seller's bank."""
        balance = self.ledger[-1].balance if self.ledger else 0
        self._enter("DISBURSE2", -balance, at_s, ("disbursement", next(self._numbers)))

    def truth(self) -> dict[str, Rows]:
        """Return the rows that a warehouse must hold of this shop."""
        return tables(self.owner, self.receipts.values(), self.listings.values(), self.ledger)

    # What replies show.

    def find_receipt(self, receipt_id: int) -> bytes | None:
        """Return one receipt."""
        receipt = self.receipts.get(receipt_id)
        return None if receipt is None else self._pack(receipt)

    def find_receipts(self, params: Mapping[str, Any]) -> Found:
        """Return how many receipts fit, and those of the page."""
        sort_on = params.get("sort_on", "created")
        index = self._updated if sort_on == "updated" else self._created
        name = "last_modified" if sort_on == "updated" else "created"
        low = bisect_left(index, (params.get(f"min_{name}", 0), 0))
        most = params.get(f"max_{name}")
        high = len(index) if most is None else bisect_left(index, (most + 1, 0))
        other = "created" if name == "last_modified" else "last_modified"
        is_filtered = any(f"{end}_{other}" in params for end in ("min", "max"))
        if is_filtered or sort_on == "receipt_id" or not FLAGS.keys().isdisjoint(params):
            fit = [entry for entry in index[low:high] if self._fits(entry[1], params)]
            if sort_on == "receipt_id":
                fit.sort(key=lambda entry: entry[1])
            index, low, high = fit, 0, len(fit)
        count = max(0, high - low)
        start, stop = params["offset"], params["offset"] + params["limit"]
        is_ascending = params.get("sort_order", "desc") in {"asc", "ascending", "up"}
        if is_ascending and not self.ignores_sort_order:
            page = index[low + start : min(low + stop, high)]
        else:
            page = index[max(low, high - stop) : max(low, high - start)][::-1]
        return count, [self._pack(self.receipts[number]) for _, number in page]

    def find_listings(self, params: Mapping[str, Any]) -> Found:
        """Return how many listings are in a state, and those of the page, newest first."""
        state = params.get("state", "active")
        if state in self.empty_states:
            return 0, []
        if state not in self._by_state or self.has_loose_order:
            listings = [listing for listing in self.listings.values() if listing.state == state]
            if self.has_loose_order:
                self._generator.shuffle(listings)
                listings.sort(key=lambda listing: -listing.created_s)
            else:
                listings.sort(key=lambda listing: (-listing.created_s, -listing.id))
            self._by_state[state] = listings
        listings = self._by_state[state]
        page = listings[params["offset"] :][: params["limit"]]
        return len(listings), [self._pack_listing(listing) for listing in page]

    def find_entries(self, params: Mapping[str, Any]) -> Found:
        """Return how many entries were made in a window, and those of the page, newest first."""
        low = bisect_left(self._entry_times, params["min_created"])
        high = bisect_right(self._entry_times, params["max_created"])
        entries = self._entries[low:high][::-1]
        return len(entries), entries[params["offset"] :][: params["limit"]]

    def find_payments(self, params: Mapping[str, Any]) -> Found:
        """Return the payments with these ids."""
        by_id = {payment_id(receipt): receipt for receipt in self.receipts.values()}
        receipts = [by_id[number] for number in params["payment_ids"] if number in by_id]
        return len(receipts), [pack(payment_json(receipt, self.owner)) for receipt in receipts]

    def catch_up(self, now_s: float) -> None:
        """Make the changes visible that are due."""
        while self._late and self._late[0][0] <= now_s:
            _, number, stamp_s = heapq.heappop(self._late)
            self._stamp(self.receipts[number], stamp_s)

    # How it is kept.

    def _sell(self, listing_id: int, count: int, at_s: int) -> Position:
        listing = self.listings[listing_id]
        left = max(0, listing.quantity - count)
        state = "sold_out" if left == 0 and listing.state == "active" else listing.state
        self.edit_listing(listing_id, at_s, quantity=left, state=state)
        return Position(
            id=next(self._numbers),
            listing_id=listing_id,
            title=listing.title,
            sku=listing.sku,
            quantity=count,
            price=listing.price,
        )

    def _buyer(self) -> EtsyBuyer:
        number = self._generator.randrange(1, 500)
        return EtsyBuyer(
            id=900_000 + number,
            name=f"Buyer {number}",
            email=f"buyer{number}@example.com" if number % 3 else None,
            country=COUNTRIES[number % len(COUNTRIES)],
        )

    def _repay(self, receipt: Receipt, amount: int, at_s: int, reason: str) -> None:
        receipt.repayments.append(Repayment(amount=amount, at_s=at_s, reason=reason))
        self._enter("REFUND", -amount, at_s, ("payment_adjustment", next(self._numbers)), receipt)

    def _take_payment(self, receipt: Receipt, at_s: int) -> None:
        number = payment_id(receipt)
        self._enter("PAYMENT", receipt.total, at_s, ("shop_payment", number), receipt)
        for position in receipt.positions:
            fee = position.price * position.quantity * 65 // 1000
            self._enter("transaction", -fee, at_s, ("transaction", position.id), receipt)

    def _enter(
        self,
        kind: str,
        amount: int,
        at_s: int,
        reference: tuple[str, int],
        receipt: Receipt | None = None,
    ) -> None:
        balance = (self.ledger[-1].balance if self.ledger else 0) + amount
        entry = Entry(
            id=next(self._numbers),
            kind=kind,
            amount=amount,
            balance=balance,
            at_s=at_s,
            receipt_id=None if receipt is None else receipt.id,
            reference=reference,
            payment_id=None if receipt is None else payment_id(receipt),
        )
        place = bisect_right(self._entry_times, at_s)
        self.ledger.insert(place, entry)
        self._entries.insert(place, pack(entry_json(entry, self.owner)))
        self._entry_times.insert(place, at_s)

    def _touch(self, receipt: Receipt, at_s: int, *, is_quiet: bool | None) -> None:
        self._packed.pop(receipt.id, None)
        if is_quiet is None:
            is_quiet = self._generator.random() < self._quiet_share
        if is_quiet:
            return
        lag_s = self._generator.uniform(*self._lag_s)
        heapq.heappush(self._late, (at_s + lag_s, receipt.id, at_s))
        if lag_s == 0:
            self.catch_up(at_s)

    def _stamp(self, receipt: Receipt, stamp_s: int) -> None:
        place = bisect_left(self._updated, (receipt.updated_s, receipt.id))
        del self._updated[place]
        receipt.updated_s = max(receipt.updated_s, stamp_s)
        insort(self._updated, (receipt.updated_s, receipt.id))
        self._packed.pop(receipt.id, None)

    def _fits(self, number: int, params: Mapping[str, Any]) -> bool:
        receipt = self.receipts[number]
        return (
            params.get("min_created", 0) <= receipt.created_s <= params.get("max_created", 2**62)
            and params.get("min_last_modified", 0) <= receipt.updated_s
            and receipt.updated_s <= params.get("max_last_modified", 2**62)
            and all(test(receipt) is params[name] for name, test in FLAGS.items() if name in params)
        )

    def _pack(self, receipt: Receipt) -> bytes:
        if receipt.id not in self._packed:
            self._packed[receipt.id] = pack(receipt_json(receipt, self.owner))
        return self._packed[receipt.id]

    def _pack_listing(self, listing: EtsyListing) -> bytes:
        if listing.id not in self._packed:
            self._packed[listing.id] = pack(listing_json(listing, self.owner))
        return self._packed[listing.id]
