"""Providers with one fault each, and the check that must notice it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.lab.conformance.worlds import (
    BoeingWorld,
    FeedWorld,
    PrintifyWorld,
    ShopifyStorefrontWorld,
)

from headway.core.accounts.pagination import RUN, SINCE, Page
from headway.core.catalog.listings import Quote, Sku
from headway.core.catalog.storefront import WriteResult, WriteVerdict
from headway.core.limits.transitions import Observation
from headway.errors import (
    PermanentError,
    ProviderError,
    ThrottledError,
    TimedOutError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
    UnsentError,
)
from headway.providers.provider import Provider
from headway.providers.recordings import RecordingRule
from headway_lab.conformance import Rows

DONE = WriteResult(verdict=WriteVerdict.DONE)


class Changed:
    """An object with some of its attributes replaced."""

    def __init__(self, inner: Any, **attributes: Any) -> None:
        self._inner = inner
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __repr__(self) -> str:
        return repr(self._inner)


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A provider with one fault: in its client, its record, or in how it reads rows."""

    fails: str
    fails_too: tuple[str, ...] = ()
    world: type[Any] = PrintifyWorld
    client: Callable[[Any, Any], Mapping[str, Any]] = lambda *_: {}
    record: Callable[[Provider], Provider] = lambda provider: provider
    methods: Mapping[str, Any] = field(default_factory=dict)

    def make_world(self, folder: Path) -> Any:
        """Return the world of this provider."""
        variant, base = self, self.world

        class BrokenWorld(base):  # type: ignore[misc,valid-type]
            provider = variant.record(base.provider)

            def open(self) -> None:
                super().open()
                self._break()

            def _break(self) -> None:
                self.client = Changed(self.client, **variant.client(self, self.client))

        for name, method in self.methods.items():
            setattr(BrokenWorld, name, method)
        world = BrokenWorld(folder)
        if not hasattr(base, "open"):
            world._break()
        return world


def read_with(change: Callable[[ProviderError], Exception]) -> Callable[..., Mapping[str, Any]]:
    """Return a client whose `read` raises other errors."""

    def change_client(_: Any, client: Any) -> Mapping[str, Any]:
        def read(ask: Any) -> Any:
            try:
                return client.read(ask)
            except ProviderError as error:
                raise change(error) from None

        return {"read": read}

    return change_client


def instead(
    kind: type[ProviderError],
    other: type[Exception],
    *,
    statuses: Sequence[int | None] = (),
    text: str = "",
) -> Callable[..., Mapping[str, Any]]:
    """Return a client that raises another error in place of this one."""

    def change(error: ProviderError) -> Exception:
        is_meant = isinstance(error, kind) and text in str(error)
        if not is_meant or (statuses and error.status not in statuses):
            return error
        if issubclass(other, ProviderError):
            return other(str(error), provider=error.provider)
        return other(str(error))

    return read_with(change)


def forgets_the_wait(error: ProviderError) -> Exception:
    if isinstance(error, ThrottledError):
        return ThrottledError(str(error), provider=error.provider, retry_after_s=None)
    return error


def page_with(check: Callable[[Page], bool], error: type[ProviderError]) -> Callable[..., Any]:
    """Return a client that fails on such a page."""

    def change_client(_: Any, client: Any) -> Mapping[str, Any]:
        def read(ask: Any) -> Page:
            page: Page = client.read(ask)
            if check(page):
                raise error("a page like this", provider="printify")
            return page

        return {"read": read}

    return change_client


def shows_its_token(world: Any, client: Any) -> Mapping[str, Any]:
    def change(error: ProviderError) -> Exception:
        text = f"{error} with {world.secrets[0]}"
        if isinstance(error, ThrottledError):
            seconds = error.retry_after_s
            return ThrottledError(text, provider=error.provider, retry_after_s=seconds)
        return type(error)(text, provider=error.provider, status=error.status)

    return read_with(change)(world, client)


def paginated(**methods: Callable[[Any], Callable[..., Any]]) -> Callable[[Provider], Provider]:
    """Return a record whose paginators have other methods; a method is made from a paginator."""

    def change(provider: Provider) -> Provider:
        role = provider.platform
        assert role is not None

        def paginator_of(kind: Any, *, is_backfill: bool) -> Any:
            paginator = role.paginator_of(kind, is_backfill=is_backfill)
            changes = {
                name.removeprefix("backfill_"): make(paginator)
                for name, make in methods.items()
                if is_backfill or not name.startswith("backfill_")
            }
            return Changed(paginator, **changes)

        return replace(provider, platform=replace(role, paginator_of=paginator_of))

    return change


def ends_at_once(paginator: Any) -> Callable[..., Any]:
    return lambda *args: replace(paginator.advance(*args), is_done=True)


def accepts_any_signature(provider: Provider) -> Provider:
    role = provider.platform
    assert role is not None
    assert role.webhooks is not None
    webhooks = replace(role.webhooks, is_signed=lambda *_: True)
    return replace(provider, platform=replace(role, webhooks=webhooks))


def misreads(world: type[Any], change: Callable[[Rows], Rows]) -> Mapping[str, Any]:
    """Return a world whose client reads other rows than those of an edited reply."""

    def edit_rows(self: Any, body: bytes, edit: Callable[[Rows], Rows]) -> bytes:
        reply: bytes = world.edit_rows(self, body, lambda rows: change(edit(rows)))
        return reply

    return {"edit_rows": edit_rows}


def skus_of(rows: Rows) -> list[str]:
    return [row["aviallPartNumber"] for row in rows]


def with_first_part(rows: Rows) -> Rows:
    """Let the first part have a row, unless there are none at all."""
    first = {**rows[0], "aviallPartNumber": "P0"} if rows else None
    return rows if first is None or "P0" in skus_of(rows) else [first, *rows]


def quoting(change: Callable[[Any], Any]) -> Callable[..., Mapping[str, Any]]:
    """Return a client whose replies are changed."""
    return lambda _, client: {"quote": lambda skus: change(client.quote(skus))}


def invented(reply: Any) -> Any:
    """Quote parts of an empty reply at a price of our own."""
    if reply.quotes:
        return reply
    quotes = {
        sku: Quote(sku=sku, list_price=None, net_price=Decimal(1), currency="USD")
        for sku in reply.missing
    }
    return replace(reply, quotes=quotes, missing=frozenset())


def in_dollars_of_canada(reply: Any) -> Any:
    quotes = {
        sku: replace(quote, currency="CAD" if quote.currency == "USD" else quote.currency)
        for sku, quote in reply.quotes.items()
    }
    return replace(reply, quotes=quotes)


def forgets_unknown_parts(reply: Any) -> Any:
    return replace(reply, missing=reply.missing - {Sku("no-such-part-0")})


def authenticating(kind: type[ProviderError]) -> Callable[..., Mapping[str, Any]]:
    """Return a client that takes this failure of a sign-in for a success."""

    def change_client(_: Any, client: Any) -> Mapping[str, Any]:
        def authenticate(step: Any, **options: Any) -> bool:
            try:
                return bool(client.authenticate(step, **options))
            except kind:
                return True

        return {"authenticate": authenticate}

    return change_client


def trusts_any_second_list(world: Any, client: Any) -> Mapping[str, Any]:
    lists: list[bool] = []

    def authenticate(step: Any, **options: Any) -> bool:
        try:
            lists.append(bool(client.authenticate(step, **options)))
        except TransientError:
            if not lists:
                raise
        return True

    return {"authenticate": authenticate}


def refuses_not_modified(world: Any, client: Any) -> Mapping[str, Any]:
    def authenticate(step: Any, **options: Any) -> bool:
        if world.transport.fault is not None and world.transport.fault.status == 304:
            raise UnreadableError("an empty list", provider="feed")
        return bool(client.authenticate(step, **options))

    return {"authenticate": authenticate}


def one_price_is_not_sent(_: Any, client: Any) -> Mapping[str, Any]:
    return {"set_prices": lambda writes: client.set_prices(writes) if writes[1:] else [DONE]}


def fails_as_a_whole(_: Any, client: Any) -> Mapping[str, Any]:
    def set_prices(writes: Any) -> Any:
        results = client.set_prices(writes)
        if any(result.verdict is not WriteVerdict.DONE for result in results):
            raise PermanentError("one of the prices", provider="shopify")
        return results

    return {"set_prices": set_prices}


def sends_one_more(_: Any, client: Any) -> Mapping[str, Any]:
    def set_stock(writes: Any, *, key: str) -> Any:
        more = [replace(write, quantity=write.quantity + 1) for write in writes]
        return client.set_stock(more, key=key)

    return {"set_stock": set_stock}


def names_no_reason(_: Any, client: Any) -> Mapping[str, Any]:
    def set_stock(writes: Any, *, key: str) -> Any:
        return [replace(result, reason="") for result in client.set_stock(writes, key=key)]

    return {"set_stock": set_stock}


def creates_again(_: Any, client: Any) -> Mapping[str, Any]:
    handles = iter(("first", "second"))
    return {"create": lambda creation: client.create(replace(creation, handle=next(handles)))}


def knows_every_variant(_: Any, client: Any) -> Mapping[str, Any]:
    def read(variants: Any, *, locations: int) -> Any:
        shown = client.read(variants, locations=locations)
        return [variant or shown[0] for variant in shown]

    return {"read": read}


def believes_in_bulk(_: Any, client: Any) -> Mapping[str, Any]:
    return {"bulk_result": lambda _, writes: [DONE] * len(writes)}


BOEING: dict[str, Any] = {"world": BoeingWorld}
SHOP: dict[str, Any] = {"world": ShopifyStorefrontWorld}
UNLIMITED = {"printify:of-nobody": Observation(used=0, capacity=1)}

VARIANTS = {
    "a request twice": Variant(
        client=lambda _, client: {"read": lambda ask: (client.read(ask), client.read(ask))[1]},
        fails="one_call_is_one_request",
    ),
    "a limit that nobody declared": Variant(
        client=lambda *_: {"keys": ("printify:of-nobody",)},
        fails="every_call_passes_declared_limits",
    ),
    "a limit that no reply reports": Variant(
        client=lambda *_: {"observations": UNLIMITED}, fails="limits_in_replies_are_read"
    ),
    "a page of HTML": Variant(
        client=instead(UnreadableError, ValueError, text="<html"),
        fails="unexpected_bodies_are_unreadable",
    ),
    "a huge body": Variant(
        client=instead(UnreadableError, MemoryError, text="more than"),
        fails="a_huge_body_is_not_read_to_its_end",
    ),
    "no time to wait": Variant(
        client=read_with(forgets_the_wait), fails="throttling_carries_the_time_to_wait"
    ),
    "status 401": Variant(
        client=instead(UnauthorizedError, PermanentError, statuses=(401,)),
        fails="a_refused_credential_is_unauthorized",
    ),
    "status 403": Variant(
        client=instead(TransientError, UnauthorizedError, statuses=(403,)),
        fails="a_page_is_no_refused_credential",
    ),
    "status 503": Variant(
        client=instead(TransientError, PermanentError, statuses=(503,)),
        fails="server_errors_are_transient",
    ),
    "silence": Variant(client=instead(TimedOutError, UnsentError), fails="silence_is_a_timeout"),
    "no connection": Variant(
        client=instead(UnsentError, TimedOutError), fails="no_connection_is_unsent"
    ),
    "a token in an error": Variant(client=shows_its_token, fails="secrets_are_never_shown"),
    "one page of a run": Variant(
        record=paginated(advance=ends_at_once),
        fails="every_kind_is_read_to_its_end",
        fails_too=(
            "a_backfill_reads_every_row",
            "a_run_resumes_from_a_saved_cursor",
            "a_late_first_run_reads_everything_since",
            "a_second_run_reads_what_is_new",
            "an_unknown_id_does_not_stop_a_run",
        ),
    ),
    "one page of a backfill": Variant(
        record=paginated(backfill_advance=ends_at_once), fails="a_backfill_reads_every_row"
    ),
    "a run that begins again": Variant(
        record=paginated(
            begin=lambda paginator: (
                lambda cursor, *args: paginator.begin(
                    {name: value for name, value in cursor.items() if name != RUN}, *args
                )
            )
        ),
        fails="a_run_resumes_from_a_saved_cursor",
    ),
    "a first run from now on": Variant(
        record=paginated(
            begin=lambda paginator: (
                lambda cursor, *args: paginator.begin(
                    {name: value for name, value in cursor.items() if name != SINCE}, *args
                )
            )
        ),
        fails="a_late_first_run_reads_everything_since",
    ),
    "no memory of the last run": Variant(
        record=paginated(
            advance=lambda paginator: (
                lambda *args: (
                    replace(step, cursor={}) if (step := paginator.advance(*args)).is_done else step
                )
            )
        ),
        fails="a_second_run_reads_what_is_new",
    ),
    "an empty page": Variant(
        client=page_with(lambda page: not (page.ids or page.missing), UnreadableError),
        fails="an_empty_shop_is_read_to_its_end",
    ),
    "a bad row": Variant(
        client=page_with(lambda page: bool(page.records.unreadable), UnreadableError),
        fails="a_bad_row_is_set_aside",
    ),
    "an id that is not there": Variant(
        client=page_with(lambda page: bool(page.missing), PermanentError),
        fails="an_unknown_id_does_not_stop_a_run",
    ),
    "a request for nothing": Variant(
        client=lambda *_: {"price": lambda _: 0.0}, fails="every_request_has_a_price"
    ),
    "a recording of shapes alone": Variant(
        record=lambda provider: replace(provider, recording=lambda _: RecordingRule()),
        fails="a_recorded_page_is_read_the_same",
    ),
    "a recorded quote without prices": Variant(
        **BOEING,
        record=lambda provider: replace(provider, recording=lambda _: RecordingRule()),
        fails="a_recorded_quote_is_read_the_same",
    ),
    "any signature": Variant(record=accepts_any_signature, fails="webhooks_are_verified"),
    "another currency than it says": Variant(
        **BOEING, client=quoting(in_dollars_of_canada), fails="every_part_is_quoted"
    ),
    "rows in another order": Variant(
        **BOEING,
        methods=misreads(
            BoeingWorld, lambda rows: rows[skus_of(rows) == sorted(skus_of(rows))[::-1] :]
        ),
        fails="rows_may_come_in_any_order",
    ),
    "a row for a part that has none": Variant(
        **BOEING,
        methods=misreads(BoeingWorld, with_first_part),
        fails="a_part_without_a_row_is_missing",
    ),
    "prices out of nothing": Variant(
        **BOEING, client=quoting(invented), fails="an_empty_reply_quotes_nothing"
    ),
    "equal rows": Variant(
        **BOEING,
        methods=misreads(
            BoeingWorld,
            lambda rows: [row for row in rows if rows.count(row) == 1],
        ),
        fails="equal_rows_are_one_quote",
    ),
    "one bad row for all": Variant(
        **BOEING,
        methods=misreads(BoeingWorld, lambda rows: [] if "soon" in json.dumps(rows) else rows),
        fails="a_bad_row_makes_only_its_part_faulty",
    ),
    "no word of an unknown part": Variant(
        **BOEING,
        client=quoting(forgets_unknown_parts),
        fails="parts_that_were_not_asked_for_are_ignored",
    ),
    "always dollars": Variant(
        **BOEING,
        methods={"edit_currency": lambda _, body, __: body},
        fails="another_currency_is_not_taken_for_ours",
    ),
    "a refused sign-in": Variant(
        **BOEING,
        client=authenticating(UnauthorizedError),
        fails="a_refused_sign_in_is_unauthorized",
    ),
    "a list that did not change": Variant(
        world=FeedWorld, client=refuses_not_modified, fails="a_list_that_was_not_modified_stays"
    ),
    "a bad second list": Variant(
        world=FeedWorld, client=trusts_any_second_list, fails="a_bad_list_does_not_replace_the_last"
    ),
    "a variant that is not there": Variant(
        **SHOP, client=knows_every_variant, fails="a_variant_is_found_and_read"
    ),
    "a price that is not sent": Variant(
        **SHOP, client=one_price_is_not_sent, fails="a_price_is_written"
    ),
    "one refused price": Variant(
        **SHOP, client=fails_as_a_whole, fails="one_refused_price_does_not_hide_the_others"
    ),
    "another quantity": Variant(**SHOP, client=sends_one_more, fails="stock_is_written_once"),
    "no reason": Variant(**SHOP, client=names_no_reason, fails="a_refused_quantity_names_its_item"),
    "two products of one": Variant(**SHOP, client=creates_again, fails="a_product_is_created_once"),
    "a bulk change that worked": Variant(
        **SHOP, client=believes_in_bulk, fails="prices_are_written_in_bulk"
    ),
}
