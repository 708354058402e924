"""Probe a supplier: one call, its raw fields beside what was understood. No listing changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, NoReturn

from pydantic import Field

from headway.app import App
from headway.app.rules import seller_defaults
from headway.core.access import Need
from headway.core.catalog.change_detection import HeldQuote, Terms, desire, observe
from headway.core.catalog.listings import AuthStep, Quote, Reply, Sku
from headway.core.catalog.product_details import read_details
from headway.core.limits.transitions import CallReport, Expired, Granted, NotYet, Permit, Rejected
from headway.core.pauses import longest
from headway.core.reasons import describe_pause
from headway.engine.ports import Supplier
from headway.errors import ConfigError, ConflictError, InvalidError, ProviderError, UnsentError
from headway.operations.callers import OperatorCaller
from headway.operations.inputs import RequestBody, SkuText, example
from headway.operations.operation import operation
from headway.operations.suppliers import TAG, SupplierPath
from headway.store.pauses import Pauses

SEATS_MAX = 10
# Two tokens and the call, at two calls a minute, and some patience with other workers.
WAIT_MAX = timedelta(minutes=3)
GRACE_S, LEASE_S = 30.0, 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedPart:
    """One part: the supplier's own fields, what was understood, and what speaks against it.

    `problem` is why there is no quote; `unknown_fields` are those that Headway does not read.
    """

    sku: Sku
    raw: Mapping[str, Any] = field(default_factory=dict)
    understood: Mapping[str, Any] = field(default_factory=dict)
    contradictions: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()
    unknown_locations: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """The parts of one call, in the order in which they were asked for."""

    supplier: str
    items: tuple[ProbedPart, ...]


class ProbeBody(RequestBody):
    """The parts to ask for, as many as fit one call."""

    model_config = example({"skus": ["WF338109=K3"]})
    skus: Annotated[list[SkuText], Field(min_length=1, max_length=SEATS_MAX)]


@operation("POST", "/api/suppliers/{name}/probe", need=Need.OPERATE, tag=TAG, errors=(404,))
def probe_supplier(caller: OperatorCaller, name: SupplierPath, body: ProbeBody) -> Probed:
    """Ask for a few parts in one call, through the limiter; no listing changes."""
    app = caller.app.for_supplier(name)
    pause = longest(
        pause for pause in Pauses(app.pool).active(app.clock.now()) if pause.stops_queue(name)
    )
    if pause is not None:
        raise ConflictError(f"{describe_pause(pause, app.clock.now())}; resume it first")
    try:
        supplier = app.open_supplier(name)
    except ConfigError as error:  # a credential is missing
        raise ConflictError(str(error)) from None
    skus = list(dict.fromkeys(body.skus))
    if len(skus) > supplier.seats:
        raise InvalidError(f"skus: one call holds {supplier.seats} parts")
    give_up_s = app.clock.monotonic() + WAIT_MAX.total_seconds()
    while (step := supplier.auth_step()) is not None:
        _sign_in(app, supplier, step, give_up_s)
    reply = _ask(app, supplier, skus, give_up_s)
    terms = seller_defaults(app.settings).terms
    return Probed(supplier=name, items=tuple(_part(sku, reply, terms) for sku in skus))


def _permit(app: App, supplier: Supplier, give_up_s: float) -> tuple[Permit, float]:
    """Wait for a permit; return it with the last second at which it may be used."""
    permit: Permit | None = None
    while (left_s := give_up_s - app.clock.monotonic()) > 0:
        if permit is None:
            answer = app.limiter.reserve(
                [supplier.limit_key],
                priority=0,
                owner="probe",
                max_wait_s=left_s,
                lease_s=LEASE_S,
                grace_s=GRACE_S,
                purpose="probe",
            )
            if isinstance(answer, Rejected):
                break
            permit = answer
        began_s = app.clock.monotonic()
        match app.limiter.begin(permit):
            case Granted(send_within_s=send_within_s):
                return permit, began_s + send_within_s
            case NotYet(wait_s=wait_s):
                app.clock.sleep(min(max(wait_s, 0.01), left_s))
            case Expired():
                permit = None
    if permit is not None:
        app.limiter.settle(permit, sent=False)
    raise ConflictError("the supplier's limit allows no call within three minutes; try again later")


def _sign_in(app: App, supplier: Supplier, step: AuthStep, give_up_s: float) -> None:
    permit, send_by_s = _permit(app, supplier, give_up_s)
    try:
        was_sent = supplier.authenticate(step, send_by_s=send_by_s, make_due=lambda _: 0)
    except ProviderError as error:
        _failed(app, permit, error, CallReport(result=f"{step}: {error}", ended=error.ended))
    app.limiter.settle(permit, sent=was_sent, report=CallReport(result=step.value))


def _ask(app: App, supplier: Supplier, skus: Sequence[Sku], give_up_s: float) -> Reply:
    permit, _ = _permit(app, supplier, give_up_s)
    try:
        reply = supplier.quote(skus)
    except ProviderError as error:
        report = CallReport(
            result=str(error), ended=error.ended, http_status=error.status,
            seats_paid=supplier.seats, skus=skus,
        )  # fmt: skip
        _failed(app, permit, error, report)
    report = CallReport(result="ok", http_status=200, seats_paid=supplier.seats, skus=skus)
    app.limiter.settle(permit, sent=True, report=report)
    return reply


def _failed(app: App, permit: Permit, error: ProviderError, report: CallReport) -> NoReturn:
    app.limiter.settle(permit, sent=not isinstance(error, UnsentError), report=report)
    raise ConflictError(f"the supplier did not answer the probe: {error}") from error


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
