"""Checks for suppliers: each part of a call gets its own result, and a list is read whole."""

from collections.abc import Callable
from dataclasses import replace

from headway.core.catalog.listings import AuthStep, Reply, Sku
from headway.errors import TransientError, UnauthorizedError, UnreadableError
from headway.providers.recordings import QUOTE, Recorder
from headway_lab.conformance.shape import check_recording
from headway_lab.conformance.world import Rows, SupplierWorld
from headway_lab.simulators.reply import SimReply

UNKNOWN = Sku("no-such-part-0")
HTML = SimReply(body=b"<html><body>Down for maintenance</body></html>")
OTHER_CURRENCY = "EUR"


def _reply(world: SupplierWorld, edit: Callable[[Rows], Rows] | None = None) -> Reply:
    if edit is not None:
        world.transport.edit = lambda body: world.edit_rows(body, edit)
    reply = world.call()
    return reply if isinstance(reply, Reply) else _quote(world)


def _quote(world: SupplierWorld) -> Reply:
    reply = world.client.quote(list(world.prices))
    assert isinstance(reply, Reply), f"quote() returned {type(reply).__name__}, not a Reply"
    return reply


def _check_quotes(world: SupplierWorld, reply: Reply, *, without: frozenset[Sku]) -> None:
    """Check that all parts but these have their own price."""
    expected = {sku: price for sku, price in world.prices.items() if sku not in without}
    prices = {sku: quote.net_price for sku, quote in reply.quotes.items()}
    assert prices == expected, f"the quotes are {prices}, not {expected}"
    assert all(quote.sku == sku for sku, quote in reply.quotes.items()), "a quote of another SKU"


def every_part_is_quoted(world: SupplierWorld) -> None:
    """Check that each part of a good reply has its price, in the supplier's currency."""
    reply = _reply(world)
    _check_quotes(world, reply, without=frozenset())
    assert not reply.missing, f"missing: {sorted(reply.missing)}"
    assert not reply.faulty, f"faulty: {reply.faulty}"
    currencies = {quote.currency for quote in reply.quotes.values()}
    assert currencies == {world.currency}, f"quoted in {currencies}, not in {world.currency}"


def a_recorded_quote_is_read_the_same(world: SupplierWorld) -> None:
    """Check that what a recording leaves of a reply is enough to read it, if it is recorded."""
    if world.provider.recording is None:
        return
    world.call()
    recorder = Recorder(world.provider.name, "supplier", clock=world.clock)
    with recorder.recording(QUOTE, {"skus": list(world.prices)}):
        _quote(world)
    check_recording(world, recorder)


def rows_may_come_in_any_order(world: SupplierWorld) -> None:
    """Check that reversed rows give every part its own quote."""
    _check_quotes(world, _reply(world, lambda rows: rows[::-1]), without=frozenset())


def a_part_without_a_row_is_missing(world: SupplierWorld) -> None:
    """Check that a part that the reply does not mention is missing, and only that one."""
    reply = _reply(world, lambda rows: rows[1:])
    assert len(reply.missing) == 1, f"one row was removed, and missing is {reply.missing}"
    _check_quotes(world, reply, without=reply.missing)


def an_empty_reply_quotes_nothing(world: SupplierWorld) -> None:
    """Check that a reply without rows makes all parts missing, or is refused as unreadable."""
    try:
        reply = _reply(world, lambda _: [])
    except UnreadableError:
        return
    assert not reply.quotes, f"quotes from an empty reply: {reply.quotes}"
    assert reply.missing == set(world.prices), f"missing is {reply.missing}, not every part"


def equal_rows_are_one_quote(world: SupplierWorld) -> None:
    """Check that a row that comes twice changes nothing."""
    _check_quotes(world, _reply(world, lambda rows: [rows[0], *rows]), without=frozenset())


def a_bad_row_makes_only_its_part_faulty(world: SupplierWorld) -> None:
    """Check that a price that is not a number makes its own part faulty, or its quote doubtful.

    The rest are quoted.
    """
    reply = _reply(world, lambda rows: [world.bad_row(rows[0]), *rows[1:]])
    doubtful = {sku: quote.doubts[0].reason for sku, quote in reply.quotes.items() if quote.doubts}
    bad = {**reply.faulty, **doubtful}
    assert len(bad) == 1, f"one row was bad, and faulty or doubtful are {bad}"
    assert all(bad.values()), "a faulty part has no reason"
    quotes = {sku: quote for sku, quote in reply.quotes.items() if sku not in doubtful}
    _check_quotes(world, replace(reply, quotes=quotes), without=frozenset(bad))


def parts_that_were_not_asked_for_are_ignored(world: SupplierWorld) -> None:
    """Check that quotes are only for the parts of the call, and an unknown one is missing."""
    world.call()
    first = next(iter(world.prices))
    reply = world.client.quote([first, UNKNOWN])
    assert set(reply.quotes) == {first}, f"asked for {first} and an unknown part: {reply.quotes}"
    assert reply.missing == {UNKNOWN}, f"an unknown part must be missing: {reply.missing}"


def another_currency_is_not_taken_for_ours(world: SupplierWorld) -> None:
    """Check that prices in another currency are quoted in that currency, or are faulty."""
    world.transport.edit = lambda body: world.edit_currency(body, OTHER_CURRENCY)
    reply = world.call()
    reply = reply if isinstance(reply, Reply) else _quote(world)
    currencies = {quote.currency for quote in reply.quotes.values()}
    assert currencies <= {OTHER_CURRENCY}, f"prices in {OTHER_CURRENCY} are quoted as {currencies}"
    assert set(reply.quotes) | set(reply.faulty) == set(world.prices), "a part has no result"


def a_refused_sign_in_is_unauthorized(world: SupplierWorld) -> None:
    """Check that a refused sign-in raises UnauthorizedError, and is possible again later."""
    step = world.client.auth_step()
    if step is None:
        return
    world.transport.fault = SimReply(status=401, body=b"{}")
    try:
        world.client.authenticate(step)
    except UnauthorizedError:
        world.transport.fault = None
        assert world.client.auth_step() == step, "a refused sign-in must be repeated"
        _check_quotes(world, _reply(world), without=frozenset())
        return
    raise AssertionError(f"authenticate({step}) with status 401 must raise UnauthorizedError")


def a_list_that_was_not_modified_stays(world: SupplierWorld) -> None:
    """Check that status 304 renews a list without reading it again (suppliers with a list)."""
    if _begin_list(world):
        world.transport.fault = SimReply(status=304)
        world.call()
        assert world.client.auth_step() is None, "after status 304 the list counts as read"
        _check_quotes(world, _quote(world), without=frozenset())


def a_bad_list_does_not_replace_the_last(world: SupplierWorld) -> None:
    """Check that a list that cannot be read leaves the last good one (suppliers with a list)."""
    if not _begin_list(world):
        return
    for fault in (HTML, SimReply(body=b""), SimReply(status=503)):
        world.transport.fault = fault
        try:
            world.call()
        except TransientError:
            _check_quotes(world, _quote(world), without=frozenset())
        else:
            raise AssertionError(f"{fault.body!r} was taken for a list")


def _begin_list(world: SupplierWorld) -> bool:
    """Read the list once and wait until it is due again; False if the supplier has none."""
    if world.list_interval is None:
        return False
    world.call()
    world.clock.sleep(world.list_interval.total_seconds())
    assert world.client.auth_step() is AuthStep.LIST, "the list is not due after list_interval"
    return True
