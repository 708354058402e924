"""Record the replies of a seller's shop or of a supplier, without secrets and buyers.

The requests are those of ordinary reads, each under its own permit. Nothing is written to the shop
or to our tables, apart from the call ledger.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Annotated, TypeVar

from pydantic import Field

from headway.app import App
from headway.app.providers import find_entry, kind_of
from headway.core.access import Need
from headway.core.accounts.jobs import Account
from headway.core.accounts.pagination import SINCE, Page, PageRequest
from headway.core.dispatch import STOREFRONT
from headway.core.limits.transitions import CallReport, Permit
from headway.core.monitoring import calls
from headway.core.pauses import longest
from headway.core.reasons import describe_pause
from headway.engine.ports import Platform
from headway.errors import (
    ConfigError,
    ConflictError,
    ProviderError,
    ThrottledError,
    TimedOutError,
    UnauthorizedError,
    UnsentError,
)
from headway.operations.callers import OperatorCaller
from headway.operations.inputs import PlatformText, RequestBody, SellerText, example
from headway.operations.operation import operation
from headway.operations.permits import give_up_at, pause_if_throttled, wait_for_permit
from headway.operations.probe import ProbeBody, ask_supplier
from headway.operations.shops import TAG as SHOPS
from headway.operations.suppliers import TAG as SUPPLIERS
from headway.operations.suppliers import SupplierPath
from headway.providers import registry
from headway.providers.recordings import TOKEN, Recorder, RecordingRule
from headway.store.accounts.connections import ConnectedShops
from headway.store.pauses import Pauses

PURPOSE = "record"
PAGES_MAX = 20
# What changed in this time is read.
PERIOD = timedelta(days=30)
STOPPING = (ConflictError, ThrottledError, UnauthorizedError, UnsentError)
ANSWERED = 200
TOKEN_PAUSE_S = 1.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The lines of a recording, and what could not be read."""

    lines: tuple[str, ...]
    r"""The lines of the file, each a JSON object. Example: `["{\"kind\": \"reply\"}"]`"""
    problems: tuple[str, ...] = ()
    """What could not be read. Example: `["customers: the scope read_customers is missing"]`"""


class RecordBody(RequestBody):
    """Which seller's shop, and how many pages of each kind of data."""

    model_config = example({"seller": "acme", "pages": 2})
    seller: SellerText
    platform: PlatformText = STOREFRONT
    pages: Annotated[int, Field(ge=1, le=PAGES_MAX)] = 1
    """Pages of each kind of data. Example: `1`"""


@operation("POST", "/api/shops/record", need=Need.OPERATE, tag=SHOPS, errors=(404, 409))
def record_shop(caller: OperatorCaller, body: RecordBody) -> Recording:
    """Read the first pages of each kind of data, and return the replies without buyers."""
    app, platform = caller.app, registry.known_platform(body.platform)
    rule = _rule(app, platform)
    account = ConnectedShops(app.pool).of_seller(body.seller, platform).bare
    pause = longest(
        pause
        for pause in Pauses(app.pool).active(app.clock.now())
        if pause.stops_writes and pause.covers(account.user_id)
    )
    if pause is not None:
        raise ConflictError(f"{describe_pause(pause, app.clock.now())}; resume it first")
    recorder = Recorder(platform, "platform", shop=account.shop, clock=app.clock)
    problems = tuple(_read_account(app, account, recorder, pages=body.pages))
    if recorder.is_empty and problems:
        raise ConflictError(problems[0])
    return Recording(lines=tuple(recorder.lines(rule)), problems=problems)


@operation("POST", "/api/suppliers/{name}/record", need=Need.OPERATE, tag=SUPPLIERS, errors=(404,))
def record_supplier(caller: OperatorCaller, name: SupplierPath, body: ProbeBody) -> Recording:
    """Ask for a few parts in one call, and return the reply without secrets; no listing changes."""
    app = caller.app.for_supplier(name)
    provider = kind_of(find_entry(name, app.settings, app.pool).kind)
    rule = _rule(app, provider)
    recorder = Recorder(provider, "supplier", clock=app.clock)
    problems: tuple[str, ...] = ()
    try:
        skus = list(dict.fromkeys(body.skus))
        ask_supplier(app, skus, purpose=PURPOSE, around=recorder.recording)
    except ConflictError as error:
        if recorder.is_empty:
            raise
        problems = (str(error),)
    return Recording(lines=tuple(recorder.lines(rule)), problems=problems)


def _rule(app: App, provider: str) -> RecordingRule:
    recording = registry.find(provider).recording
    if recording is None:
        raise ConflictError(f"the replies of {provider} cannot be recorded; see: headway providers")
    return recording(app.settings)


def _read_account(app: App, account: Account, recorder: Recorder, *, pages: int) -> Iterator[str]:
    """Read the first pages of each kind; yield what went wrong."""
    role, give_up_s = registry.platform_role(account.platform), give_up_at(app)
    try:
        client = app.open_platform(account)
    except ConfigError as error:
        yield str(error)
        return
    for kind in role.kinds:
        walk = role.paginator_of(kind, is_backfill=False)
        since = {SINCE: (app.clock.now() - PERIOD).isoformat()}
        cursor = walk.begin(since, app.clock.now(), ())
        for _ in range(pages):
            try:
                page = _read_page(app, client, walk.ask(cursor), recorder, give_up_s)
            except (ProviderError, ConflictError) as error:
                yield f"{kind}: {error}"
                if isinstance(error, STOPPING):
                    return
                break
            step = walk.advance(cursor, page, app.clock.now())
            if recorder.is_full:
                yield f"stopped at {kind}: the recording is large enough"
                return
            if step.is_done:
                break
            cursor = step.cursor


def _read_page(
    app: App, client: Platform, ask: PageRequest, recorder: Recorder, give_up_s: float
) -> Page:
    """Read a page, after a new token if that is needed; each request has its own permit."""
    while client.needs_token():
        permit, send_by_s = _permit(app, client, 1, give_up_s)
        with recorder.recording(TOKEN, {}):
            refresh = partial(client.refresh_token, send_by_s=send_by_s)
            if not _call(app, client, permit, TOKEN, refresh):
                app.clock.sleep(TOKEN_PAUSE_S)
    permit, _ = _permit(app, client, client.price(ask), give_up_s)
    with recorder.recording(ask.what, ask.values):
        return _call(app, client, permit, ask.what, partial(client.read, ask))


def _permit(app: App, client: Platform, cost: float, give_up_s: float) -> tuple[Permit, float]:
    keys = [*client.keys, *filter(None, [client.day_key])]
    return wait_for_permit(app, keys, purpose=PURPOSE, give_up_s=give_up_s, cost=cost)


def _call(app: App, client: Platform, permit: Permit, what: str, request: Callable[[], T]) -> T:
    """Make one request and settle its permit; False means that none was made."""
    try:
        answer = request()
    except ProviderError as error:
        pause_if_throttled(app, client.keys, error)
        _settle(app, client, permit, what, is_sent=not isinstance(error, UnsentError), error=error)
        raise
    _settle(app, client, permit, what, is_sent=answer is not False)
    return answer


def _settle(
    app: App,
    client: Platform,
    permit: Permit,
    what: str,
    *,
    is_sent: bool,
    error: ProviderError | None = None,
) -> None:
    """Settle the permit, and correct the limits from what the reply reported."""
    cost = client.cost
    actual = None if cost is None or error is not None else cost.actual
    app.limiter.settle(
        permit,
        sent=is_sent,
        actual=0 if isinstance(error, ThrottledError) and cost is not None else actual,
        is_late=isinstance(error, TimedOutError),
        report=CallReport(
            result=str(error or what),
            ended=calls.ANSWERED if error is None else error.ended,
            http_status=ANSWERED if error is None else error.status,
        ),
    )
    for key, observation in client.observations.items():
        app.limiter.observe(key, observation)
