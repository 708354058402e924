"""Checks for suppliers: what rows in any order, missing, twice or bad mean for each SKU."""

from collections.abc import Callable

from headway.core.catalog.listings import Reply, Sku
from headway_lab.conformance.world import Rows, SupplierWorld

UNKNOWN = Sku("no-such-part-0")


def _reply(world: SupplierWorld, edit: Callable[[Rows], Rows] | None = None) -> Reply:
    if edit is not None:
        world.transport.edit = lambda body: world.edit_rows(body, edit)
    reply = world.call()
    if not isinstance(reply, Reply):
        reply = world.client.quote(list(world.skus))
    return reply


def every_sku_is_quoted_missing_or_faulty(world: SupplierWorld) -> None:
    """Check that each SKU of a call has exactly one result, whatever order the rows have."""
    plain = _reply(world)
    assert set(plain.quotes) == set(world.skus)
    assert not plain.missing
    assert not plain.faulty


def rows_may_come_in_any_order(world: SupplierWorld) -> None:
    """Check that reversed rows give every SKU its own quote."""
    reply = _reply(world, lambda rows: rows[::-1])
    assert set(reply.quotes) == set(world.skus)
    assert all(quote.sku == sku for sku, quote in reply.quotes.items())


def a_sku_without_a_row_is_missing(world: SupplierWorld) -> None:
    """Check that a SKU that the reply does not mention is missing, and only that one."""
    reply = _reply(world, lambda rows: rows[1:])
    assert len(reply.missing) == 1
    assert set(reply.quotes) == set(world.skus) - reply.missing


def equal_rows_are_one_quote(world: SupplierWorld) -> None:
    """Check that a row that comes twice changes nothing."""
    reply = _reply(world, lambda rows: [rows[0], *rows])
    assert set(reply.quotes) == set(world.skus)


def a_bad_row_makes_only_its_sku_faulty(world: SupplierWorld) -> None:
    """Check that a price that is none makes its own SKU faulty; the others are quoted."""
    reply = _reply(world, lambda rows: [world.bad_row(rows[0]), *rows[1:]])
    assert len(reply.faulty) == 1
    assert all(reason for reason in reply.faulty.values())
    assert set(reply.quotes) == set(world.skus) - set(reply.faulty)


def rows_of_other_skus_are_ignored(world: SupplierWorld) -> None:
    """Check that quotes are given only for the SKUs of the call."""
    world.call()
    reply = world.client.quote([world.skus[0], UNKNOWN])
    assert set(reply.quotes) == {world.skus[0]}
    assert reply.missing == {UNKNOWN}


CHECKS = (
    every_sku_is_quoted_missing_or_faulty,
    rows_may_come_in_any_order,
    a_sku_without_a_row_is_missing,
    equal_rows_are_one_quote,
    a_bad_row_makes_only_its_sku_faulty,
    rows_of_other_skus_are_ignored,
)
