"""Probe a supplier: one call, its raw fields beside what was understood. No listing changes."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Annotated, Any, NoReturn

from pydantic import Field

from headway.app import App
from headway.app.rules import seller_defaults
from headway.core.access import Need
from headway.core.catalog.change_detection import HeldQuote, Terms, desire, observe
from headway.core.catalog.listings import AuthStep, Quote, Reply, Sku
from headway.core.catalog.product_details import read_details
from headway.core.limits.transitions import CallReport, Permit
from headway.core.pauses import longest
from headway.core.reasons import describe_pause
from headway.engine.ports import Supplier
from headway.errors import ConfigError, ConflictError, InvalidError, ProviderError, UnsentError
from headway.operations.callers import OperatorCaller
from headway.operations.inputs import RequestBody, SkuText, example
from headway.operations.operation import operation
from headway.operations.permits import give_up_at, pause_if_throttled, wait_for_permit
from headway.operations.suppliers import TAG, SupplierPath
from headway.providers.recordings import QUOTE, TOKEN
from headway.store.pauses import Pauses

SEATS_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedPart:
    """One part: the supplier's own fields, what was understood, and what speaks against it.

    `problem` is why there is no quote; `unknown_fields` are those that Headway does not read.
    """

    sku: Sku
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The supplier's own fields. Example: `{"partNumber": "WF338109=K3", "netPrice": 118.0}`"""
    understood: Mapping[str, Any] = field(default_factory=dict)
    """What Headway understood. Example: `{"price": "118.00", "currency": "USD"}`"""
    contradictions: tuple[str, ...] = ()
    """What speaks against it. Example: `["the list price is below the net price"]`"""
    unknown_fields: tuple[str, ...] = ()
    """Fields that Headway does not know. Example: `["hazmatCode"]`"""
    unknown_locations: tuple[str, ...] = ()
    """Locations that the shop does not have. Example: `["Dallas"]`"""
    problem: str = ""
    """Why there is no quote; empty if there is one. Example: `404: no such part`"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """The parts of one call, in the order in which they were asked for."""

    supplier: str
    items: tuple[ProbedPart, ...]
    """The parts, in the order of the request."""


class ProbeBody(RequestBody):
    """The parts to ask for, as many as fit one call."""

    model_config = example({"skus": ["WF338109=K3"]})
    skus: Annotated[list[SkuText], Field(min_length=1, max_length=SEATS_MAX)]
    """The parts, as many as fit one call. Example: `["WF338109=K3"]`"""


@operation("POST", "/api/suppliers/{name}/probe", need=Need.OPERATE, tag=TAG, errors=(404,))
def probe_supplier(caller: OperatorCaller, name: SupplierPath, body: ProbeBody) -> ProbeResult:
    """Ask for a few parts in one call, through the limiter; no listing changes."""
    app = caller.app.for_supplier(name)
    skus = list(dict.fromkeys(body.skus))
    reply = ask_supplier(app, skus, purpose="probe")
    terms = seller_defaults(app.settings).terms
    return ProbeResult(supplier=name, items=tuple(_part(sku, reply, terms) for sku in skus))


def ask_supplier(
    app: App,
    skus: Sequence[Sku],
    *,
    purpose: str,
    around: Callable[[str, Mapping[str, Any]], AbstractContextManager[None]] = lambda *_: (
        nullcontext()
    ),
) -> Reply:
    """Sign in and ask for these parts, each request under its own permit; raises ConflictError.

    `around` is entered for every request, with what it asks for.
    """
    name, give_up_s = app.supplier, give_up_at(app)
    pause = longest(
        pause for pause in Pauses(app.pool).active(app.clock.now()) if pause.stops_queue(name)
    )
    if pause is not None:
        raise ConflictError(f"{describe_pause(pause, app.clock.now())}; resume it first")
    try:
        supplier = app.open_supplier(name)
    except ConfigError as error:  # a credential is missing
        raise ConflictError(str(error)) from None
    if len(skus) > supplier.seats:
        raise InvalidError(f"skus: one call holds {supplier.seats} parts")
    keys = [supplier.limit_key]
    while (step := supplier.auth_step()) is not None:
        permit, send_by_s = wait_for_permit(app, keys, purpose=purpose, give_up_s=give_up_s)
        with around(TOKEN, {"step": step.value}):
            _sign_in(app, supplier, step, permit, send_by_s)
    permit, _ = wait_for_permit(app, keys, purpose=purpose, give_up_s=give_up_s)
    with around(QUOTE, {"skus": list(skus)}):
        return _ask(app, supplier, skus, permit)


def _sign_in(
    app: App, supplier: Supplier, step: AuthStep, permit: Permit, send_by_s: float
) -> None:
    try:
        was_sent = supplier.authenticate(step, send_by_s=send_by_s, make_due=lambda _: 0)
    except ProviderError as error:
        report = CallReport(result=f"{step}: {error}", ended=error.ended)
        _failed(app, supplier, permit, error, report)
    app.limiter.settle(permit, sent=was_sent, report=CallReport(result=step.value))


def _ask(app: App, supplier: Supplier, skus: Sequence[Sku], permit: Permit) -> Reply:
    try:
        reply = supplier.quote(skus)
    except ProviderError as error:
        report = CallReport(
            result=str(error), ended=error.ended, http_status=error.status,
            seats_paid=supplier.seats, skus=skus,
        )  # fmt: skip
        _failed(app, supplier, permit, error, report)
    report = CallReport(result="ok", http_status=200, seats_paid=supplier.seats, skus=skus)
    app.limiter.settle(permit, sent=True, report=report)
    return reply


def _failed(
    app: App, supplier: Supplier, permit: Permit, error: ProviderError, report: CallReport
) -> NoReturn:
    pause_if_throttled(app, [supplier.limit_key], error)
    app.limiter.settle(permit, sent=not isinstance(error, UnsentError), report=report)
    raise ConflictError(f"the supplier did not answer: {error}") from error


def _part(sku: Sku, reply: Reply, terms: Terms) -> ProbedPart:
    raw = reply.raw.get(sku, {})
    unknown = tuple(sorted(set(raw) - reply.known_fields)) if reply.known_fields else ()
    quote = reply.quotes.get(sku)
    if quote is None:
        problem = reply.faulty.get(sku) or reply.unclear.get(sku) or "not in the supplier's reply"
        return ProbedPart(sku=sku, raw=raw, unknown_fields=unknown, problem=problem)
    return ProbedPart(
        sku=sku,
        raw=raw,
        understood=_understood(quote, terms),
        contradictions=tuple(doubt.reason for doubt in quote.doubts),
        unknown_fields=unknown,
        unknown_locations=tuple(sorted(filter(terms.is_unknown, quote.quantities))),
    )


def _understood(quote: Quote, terms: Terms) -> dict[str, Any]:
    """Return a quote as it is used, and what the shop would show by the deployment's terms."""
    observed = observe(quote, terms)
    computed = desire(observed, terms)
    shop = {"held": computed.reason} if isinstance(computed, HeldQuote) else computed.as_json()
    return {
        **observed.as_json(),
        "unit": observed.unit,
        "minimum": observed.minimum,
        "name": quote.name,
        "vendor": quote.vendor,
        **_details(quote, terms),
        "shop": shop,
    }


def _details(quote: Quote, terms: Terms) -> dict[str, Any]:
    """Return what a new product would get besides, and what would be left out of it."""
    details = read_details(quote, images=terms.images)
    left_out = {"left_out": list(details.left_out)} if details.left_out else {}
    return {**dict(details.named()), **left_out}
