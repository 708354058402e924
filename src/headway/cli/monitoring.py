"""`headway alerts`, `limits` and `audit`: what is wrong, what is used up, and all that happened."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, collect, open_client, seller_id
from headway.cli.times import instant
from headway.core.catalog.listings import Sku
from headway.core.reasons import format_time
from headway.errors import InvalidError
from headway.web.formatting import number

if TYPE_CHECKING:
    from headway.operations.limits import LimitView
    from headway.store.catalog.history import HistoryEvent
    from headway.store.limits.ledger import LedgerEntry

LIMIT, PAGE = 50, 200
SKUS_SHOWN = 3


class Form(StrEnum):
    """How events are written out."""

    CSV = "csv"
    JSONL = "jsonl"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        "alerts",
        epilog=_examples(
            "alerts", "alerts --json", "alerts --prometheus-rules > headway.rules.yml"
        ),
    )(alerts)
    app.command("limits", epilog=_examples("limits", "limits boeing --since 1h"))(limits)
    app.command(
        "audit",
        epilog=_examples(
            "audit --since 7d --out events.csv",
            'audit --format jsonl --sku "WF330523=7A"',
            "audit --kind change_approved --kind change_rejected --since 7d --out prices.csv",
        ),
    )(audit)


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway {line}" for line in lines)])


def alerts(
    *,
    rules: Annotated[
        bool,
        typer.Option("--prometheus-rules", help="Print the alert rules for Prometheus instead."),
    ] = False,
    runbook: Annotated[
        bool, typer.Option("--runbook", help="Print the index of the runbook instead.")
    ] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show what is wrong now and needs a person.

    The most severe comes first.
    """
    from headway import config
    from headway.observe.prometheus_rules import prometheus_rules, runbook_index
    from headway.operations import alerts as alert_operations

    if rules:
        sys.stdout.write(prometheus_rules(config.load().alert_thresholds))
        return
    if runbook:
        sys.stdout.write(runbook_index())
        return
    with open_client(server) as client:
        standing = client.call(alert_operations.alerts).alerts
        if as_json:
            emit({"now": client.now, "alerts": standing})
            return
        rows = [
            (
                alert.severity,
                alert.sentence,
                "" if alert.since is None else format_time(alert.since, client.now),
                alert.runbook,
            )
            for alert in standing
        ]
        table(("how bad", "what", "since", "what to do"), rows, empty="nothing is wrong")


def limits(
    name: Annotated[
        str | None, typer.Argument(help="A limit, as the list names it; its calls are shown.")
    ] = None,
    *,
    since: Annotated[
        str | None, typer.Option(help="Only calls since then: 2026-03-04T09:00 (UTC), or 2h, 3d.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to show at most.")] = LIMIT,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show how much of each limit is used, or the calls of one limit.

    Reserved calls count as used.
    """
    from headway.operations import limits as limit_operations

    if name is None and since is not None:
        raise InvalidError("--since is for the calls of one limit; name it")
    with open_client(server) as client:
        if name is None:
            views, _ = collect(client, limit_operations.limits, limit=limit)
            if as_json:
                emit({"now": client.now, "limits": views})
            else:
                _print_limits(views, client.now)
            return
        from_ = None if since is None else instant(since, client.now, "--since")
        calls, has_more = collect(
            client, limit_operations.ledger, name=name, since=from_, limit=limit
        )
        if as_json:
            emit({"now": client.now, "name": name, "calls": calls, "has_more": has_more})
            return
        _print_calls(calls, client.now)
        if has_more:
            say(f"and more; show them with --limit {limit * 10}")


def audit(
    *,
    since: Annotated[
        str | None, typer.Option(help="From then on: 2026-03-04T09:00 (UTC), or 7d ago.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Before then.")] = None,
    seller: Annotated[str | None, typer.Option(help="Only this seller's.")] = None,
    sku: Annotated[str | None, typer.Option(help="Only this part's.")] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Only events of this kind; may be repeated.")
    ] = None,
    format_: Annotated[Form, typer.Option("--format", help="csv or jsonl.")] = Form.CSV,
    out: Annotated[
        Path | None, typer.Option(help="File to write; it appears only when it is complete.")
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Export every event as CSV or as lines of JSON.

    The oldest comes first. With --json and no file, the events are lines of JSON; with a file, it
    prints how many it wrote.
    """
    from headway.operations import history
    from headway.operations.export import exported

    form = Form.JSONL if as_json and out is None else format_
    with open_client(server) as client:
        now = client.now
        events = _Counted(
            client.call(
                history.audit,
                since=None if since is None else instant(since, now, "--since"),
                until=None if until is None else instant(until, now, "--until"),
                seller=seller_id(seller),
                sku=None if sku is None else Sku(sku),
                kind=kind,
            )
        )
        with whole_file(out) as file:
            for piece in exported(iter(events), form.value):
                file.write(piece)
    if out is not None and as_json:
        emit({"file": str(out), "events": events.count})
    elif out is not None:
        say(f"{events.count:,} events in {out}")


class _Counted:
    """Events, and how many there were."""

    def __init__(self, events: Iterator[HistoryEvent]) -> None:
        self._events = events
        self.count = 0

    def __iter__(self) -> Iterator[HistoryEvent]:
        for event in self._events:
            self.count += 1
            yield event


@contextmanager
def whole_file(path: Path | None, option: str = "--out") -> Iterator[TextIO]:
    """Open a file that takes its name when all is written; without a path, stdout."""
    if path is None:
        yield sys.stdout
        return
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InvalidError(f"{option}: cannot write {path}: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            yield file
        Path(name).replace(path)
    except OSError as error:
        raise InvalidError(f"{option}: cannot write {path}: {error.strerror}") from None
    finally:
        with suppress(FileNotFoundError):
            Path(name).unlink()


def _print_limits(views: Sequence[LimitView], now: datetime) -> None:
    rows = [
        (
            view.name,
            gauge.rule,
            f"{number(gauge.used)} of {number(gauge.limit)}",
            number(gauge.reserved),
            view.in_flight,
            view.waiting,
            "now" if view.next_free_at <= now else format_time(view.next_free_at, now),
            ""
            if view.paused_until is None
            else f"until {format_time(view.paused_until, now)}: {view.pause_reason}",
        )
        for view in views
        for gauge in view.gauges
    ]
    headings = ("limit", "rule", "used", "reserved", "in flight", "waiting", "next call", "paused")
    table(headings, rows, empty="no call was made yet", right={3, 4, 5})


def _print_calls(entries: Sequence[LedgerEntry], now: datetime) -> None:
    rows = [
        (
            format_time(entry.begun_at, now),
            entry.purpose,
            entry.status,
            entry.result,
            entry.http_status,
            number(entry.cost),
            _seats(entry),
        )
        for entry in entries
    ]
    headings = ("when", "for", "status", "result", "http", "cost", "parts")
    table(headings, rows, empty="no call was made", right={5})


def _seats(entry: LedgerEntry) -> str:
    more = f" and {len(entry.skus) - SKUS_SHOWN} more" if len(entry.skus) > SKUS_SHOWN else ""
    return ", ".join(entry.skus[:SKUS_SHOWN]) + more
