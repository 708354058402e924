"""The customers of a simulated shop."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from headway_lab.simulators.shopify.index import Index


@dataclass(frozen=True, slots=True, kw_only=True)
class ShopCustomer:
    """A customer with a name, and perhaps an address."""

    number: int
    name: str
    email: str
    country: str
    at: datetime
    updated_at: datetime


class Customers:
    """The customers of one shop."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self.rows: dict[int, ShopCustomer] = {}
        self.by_change = Index()

    def add(
        self, name: str, *, now: datetime, email: str = "", country: str = "US"
    ) -> ShopCustomer:
        """Add a customer."""
        own = next(self._numbers)
        self.rows[own] = ShopCustomer(
            number=own, name=name, email=email, country=country, at=now, updated_at=now
        )
        self.by_change.put(own, now)
        return self.rows[own]

    def edit(self, customer_id: str, *, now: datetime, **changes: Any) -> ShopCustomer:  # noqa: ANN401
        """Change a customer's data."""
        own = int(customer_id)
        self.rows[own] = replace(self.rows[own], **changes)
        return self.touch(own, now)

    def delete(self, number: int) -> None:
        """Remove a customer: reads by id and lists no longer show it."""
        del self.rows[number]
        self.by_change.drop(number)

    def touch(self, number: int, now: datetime) -> ShopCustomer:
        """Mark a customer as changed, as a new order does."""
        self.rows[number] = replace(self.rows[number], updated_at=now)
        self.by_change.put(number, now)
        return self.rows[number]
