"""Checks for platforms: every kind is read whole, runs resume, and a bad row is set aside."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from headway.core.accounts.jobs import BACKFILLED, DataKind
from headway.core.accounts.pagination import SINCE, Cursor, Page, Paginator
from headway.errors import ConfigError, RequestError
from headway.providers.recordings import Recorder
from headway_lab.conformance.shape import check_recording
from headway_lab.conformance.world import START, PlatformWorld, Rows

PAGES_MAX = 200
EMPTY_PAGES_MAX = 20
# Pages may overlap, so that rows which move between two requests are not lost.
READS_MAX = 3
BETWEEN_PAGES_S = 10  # for the limits that the simulator keeps
NEXT_RUN_S = 6 * 3600
LATE_S = 40 * 86_400
BAD_ROWS: Rows = [{}, None, "a text", 7, []]
UNKNOWN_ID = "999999999999"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run that was read to its end, and the cursor that it leaves."""

    pages: Sequence[Page]
    cursor: Cursor
    is_whole: bool

    def ids(self, kind: DataKind) -> list[str]:
        """Return the ids of the rows of this kind, as often as they were read."""
        return _ids(self.pages, kind)


def _ids(pages: Sequence[Page], kind: DataKind) -> list[str]:
    return [row.external_id for page in pages for row in getattr(page.records, kind.value)]


def _read(world: PlatformWorld, paginator: Paginator, cursor: Cursor) -> Page:
    """Read one page as a worker does: refresh the token if needed, then one request."""
    if world.client.needs_token():
        assert world.client.refresh_token(send_by_s=math.inf), "the token was not refreshed"
    world.clock.sleep(BETWEEN_PAGES_S)
    page = world.client.read(paginator.ask(cursor))
    assert isinstance(page, Page), f"read() returned {type(page).__name__}, not a Page"
    return page


def _run(
    world: PlatformWorld,
    kind: DataKind,
    *,
    cursor: Cursor | None = None,
    is_backfill: bool = False,
    wanted: Sequence[str] = (),
    restarts: bool = False,
) -> Run:
    """Read a kind to its end; with `restarts` the worker is replaced after each request."""
    paginator = world.role.paginator_of(kind, is_backfill=is_backfill)
    cursor = paginator.begin(cursor or {SINCE: START.isoformat()}, world.clock.now(), wanted)
    pages: list[Page] = []
    while len(pages) < PAGES_MAX:
        cursor = json.loads(json.dumps(cursor))
        if restarts:
            _read(world, paginator, cursor)  # the worker ends before the page is stored
            world.open()
            paginator = world.role.paginator_of(kind, is_backfill=is_backfill)
            cursor = paginator.begin(cursor, world.clock.now(), ())
        pages.append(_read(world, paginator, cursor))
        step = paginator.advance(cursor, pages[-1], world.clock.now())
        if step.is_done:
            return Run(pages=pages, cursor=step.cursor, is_whole=step.gone_since is not None)
        cursor = step.cursor
    raise AssertionError(f"the run of {kind} did not end after {PAGES_MAX} pages")


def _check_all(world: PlatformWorld, kind: DataKind, run: Run) -> None:
    """Check that every row was read; a row that was never added cannot be."""
    ids, truth = run.ids(kind), set(world.truth(kind))
    assert truth, f"the world has no {kind}, which the record declares: add some"
    assert not truth - set(ids), f"{kind} not read: {sorted(truth - set(ids))[:5]}"
    assert not set(ids) - truth, f"{kind} that do not exist: {sorted(set(ids) - truth)[:5]}"
    assert len(ids) <= READS_MAX * len(truth), f"{kind}: {len(ids)} reads of {len(truth)} rows"


def every_kind_is_read_to_its_end(world: PlatformWorld) -> None:
    """Check that a first run of each declared kind reads every row, over several pages."""
    assert world.role.kinds, "the record declares no kind of data"
    for kind in world.role.kinds:
        run = _run(world, kind)
        _check_all(world, kind, run)
        assert len(run.pages) > 1, f"one page of {kind} shows nothing: add rows to the world"


def a_backfill_reads_every_row(world: PlatformWorld) -> None:
    """Check that the history of each kind that has one is read whole."""
    for kind in BACKFILLED & set(world.role.kinds):
        _check_all(world, kind, _run(world, kind, is_backfill=True))


def a_run_resumes_from_a_saved_cursor(world: PlatformWorld) -> None:
    """Check that a run ends whole if the worker is replaced after every request."""
    for kind in world.role.kinds:
        _check_all(world, kind, _run(world, kind, restarts=True))


def a_late_first_run_reads_everything_since(world: PlatformWorld) -> None:
    """Check that a first run weeks after the connection reads what came `since` then."""
    world.clock.sleep(LATE_S)
    for kind in world.role.kinds:
        _check_all(world, kind, _run(world, kind))


def a_second_run_reads_what_is_new(world: PlatformWorld) -> None:
    """Check that the next run finds new rows, and does not read all old ones again.

    A kind that is read whole each time, which its last step says by `gone_since`, may.
    """
    cursors = {kind: _run(world, kind).cursor for kind in world.role.kinds}
    for kind, cursor in cursors.items():
        old = set(world.truth(kind))
        world.add_row(kind)
        world.clock.sleep(NEXT_RUN_S)
        run, new = _run(world, kind, cursor=cursor), set(world.truth(kind)) - old
        assert new, f"add_row({kind}) added nothing"
        assert new <= set(run.ids(kind)), f"the second run did not read the new {kind}"
        again = old & set(run.ids(kind))
        assert run.is_whole or again < old, f"the second run read all {len(old)} old {kind} again"


def an_empty_shop_is_read_to_its_end(world: PlatformWorld) -> None:
    """Check that a run without any row ends soon."""
    empty = world.empty()
    for kind in empty.role.kinds:
        run = _run(empty, kind)
        assert not run.ids(kind), f"{kind} were read in a shop that has none"
        assert len(run.pages) <= EMPTY_PAGES_MAX, f"{len(run.pages)} pages for no {kind} at all"


def a_bad_row_is_set_aside(world: PlatformWorld) -> None:
    """Check that a bad row is reported as unreadable and the rest of its page is read."""
    for kind in world.role.kinds:
        whole = set(_ids([_first_page(world, kind)], kind))
        for bad in BAD_ROWS:
            world.transport.edit = lambda body, bad=bad: world.edit_rows(
                body, lambda rows: [bad, *rows[1:]]
            )
            page = _first_page(world, kind)
            world.transport.edit = None
            rest = set(_ids([page], kind))
            assert rest, f"{kind}: the row {bad!r} spoils the others of its page"
            assert rest < whole, f"{kind}: the row {bad!r} was read as if it were good"
            assert page.records.unreadable, f"{kind}: the row {bad!r} is not in `unreadable`"


def _first_page(world: PlatformWorld, kind: DataKind) -> Page:
    paginator = world.role.paginator_of(kind, is_backfill=False)
    return _read(
        world, paginator, paginator.begin({SINCE: START.isoformat()}, world.clock.now(), ())
    )


def an_unknown_id_does_not_stop_a_run(world: PlatformWorld) -> None:
    """Check that an id from a webhook that does not exist leaves the rest of the run whole."""
    for kind in world.role.kinds:
        _check_all(world, kind, _run(world, kind, wanted=(UNKNOWN_ID,)))


def every_request_has_a_price(world: PlatformWorld) -> None:
    """Check that the cost of a request is known before it is sent, and positive."""
    for kind in world.role.kinds:
        paginator = world.role.paginator_of(kind, is_backfill=False)
        ask = paginator.ask(paginator.begin({}, world.clock.now(), ()))
        price = world.client.price(ask)
        assert price > 0, f"price({ask.what}) is {price}: the request would pass no limit"


def a_recorded_page_is_read_the_same(world: PlatformWorld) -> None:
    """Check that what a recording leaves of a page is enough to read it, if it is recorded."""
    if world.provider.recording is None:
        return
    for kind in world.role.kinds:
        paginator = world.role.paginator_of(kind, is_backfill=False)
        ask = paginator.ask(paginator.begin({}, world.clock.now(), ()))
        recorder = Recorder(
            world.provider.name, "platform", shop=world.account.shop, clock=world.clock
        )
        world.clock.sleep(BETWEEN_PAGES_S)
        with recorder.recording(ask.what, ask.values):
            world.client.read(ask)
        check_recording(world, recorder)


def webhooks_are_verified(world: PlatformWorld) -> None:
    """Check that a signed webhook is accepted and read, and a changed or unsigned one is not."""
    webhooks = world.role.webhooks
    if webhooks is None:
        return
    raw, body = world.webhook()
    headers = {name.lower(): value for name, value in raw.items()}
    secret, now = webhooks.secret(world.context.settings), world.clock.now()
    assert webhooks.verify(secret, headers, body, now), "a signed webhook is refused"
    assert not webhooks.verify(secret, headers, body + b" ", now), "a changed body is accepted"
    assert not webhooks.verify(secret, {}, body, now), "an unsigned webhook is accepted"
    event = webhooks.read(world.account.platform, headers, body)
    assert event.shop == world.account.shop, f"the webhook is of the shop {event.shop}"
    assert event.kind in world.role.kinds, f"the webhook is about {event.kind}"
    _raises(ConfigError, lambda: webhooks.verify("", headers, body, now), "verify without a secret")
    for text in (b"[]", b"<html>"):
        read = partial(webhooks.read, world.account.platform, headers, text)
        _raises(RequestError, read, f"the signed body {text!r}")


def _raises(kind: type[Exception], call: Callable[[], object], what: str) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{what} must raise {kind.__name__}")
