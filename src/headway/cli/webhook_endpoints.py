"""`headway webhook`: endpoints that receive events, their secrets and their deliveries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.output import AsJson, emit, facts, say, table
from headway.cli.target import Server, collect, open_client
from headway.cli.times import instant
from headway.clock import SystemClock
from headway.core.catalog.intake import seller_of

if TYPE_CHECKING:
    from headway.operations.webhook_endpoints import DescribedEventType
    from headway.store.accounts.webhook_endpoints import EventDelivery, WebhookEndpoint

SUMMARY = "Send events to your own addresses: add, test, replay."
LIMIT = 200
REFERENCE = """# Webhook events

Made by `headway webhook events --reference`. What Headway sends to your
[endpoints](../how-to/send-webhooks.md). Every body has `id`, `type`, `timestamp`, `sequence`,
`seller`, `subject` and `data`. The JSON schema of each type is at `/api/webhook-event-types`, and
in `headway webhook events NAME --json`.
Fields may be added; none is removed or changes its meaning within a major version."""

Id = Annotated[str, typer.Argument(help="The endpoint's id; see: headway webhook list.")]
Types = Annotated[
    list[str] | None,
    typer.Option("--event", help="A type that it receives, again for each; by default all."),
]
Rows = Annotated[int, typer.Option(min=1, help="How many at most.")]
Seller = Annotated[
    str | None, typer.Option(help="Only events of this seller; by default of all sellers.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=f"{SUMMARY}\n\nExample: headway webhook list", no_args_is_help=True)
    group.command(
        "add",
        epilog=_examples(
            "add https://app.example.com/webhooks",
            "add https://app.example.com/webhooks --seller acme --event order.created --json",
        ),
    )(add)
    group.command("list", epilog=_examples("list", "list --seller acme --json"))(list_endpoints)
    group.command(
        "set",
        epilog=_examples(
            "set ID --url https://app.example.com/v2",
            "set ID --event order.created",
            "set ID --all",
        ),
    )(set_endpoint)
    group.command("enable", epilog=_examples("enable ID"))(enable)
    group.command("disable", epilog=_examples("disable ID"))(disable)
    group.command("remove", epilog=_examples("remove ID"))(remove)
    group.command("rotate", epilog=_examples("rotate ID"))(rotate)
    group.command("test", epilog=_examples("test ID"))(send_test)
    group.command(
        "replay",
        epilog=_examples(
            "replay ID --since 2026-03-04T12:00",
            "replay ID --event evt_0d6f",
            "replay ID --since 2026-03-04T12:00 --failed",
        ),
    )(replay)
    group.command(
        "deliveries", epilog=_examples("deliveries ID", "deliveries ID --status waiting")
    )(deliveries)
    group.command("events", epilog=_examples("events", "events order.created --json"))(events)
    app.add_typer(group, name="webhook")


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway webhook {line}" for line in lines)])


def add(
    url: Annotated[str, typer.Argument(help="Where events are sent; https only.")],
    *,
    seller: Seller = None,
    event: Types = None,
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Add an endpoint, and show its signing secret once."""
    from headway.operations import webhook_endpoints as operations

    body = operations.EndpointBody(
        url=url,
        seller=None if seller is None else seller_of(seller),
        description=description,
        event_types=event or [],
    )
    with open_client(server, creates=True) as client:
        made = client.call(operations.create_endpoint, body)
    if as_json:
        emit(made)
        return
    say(made.secret or "")
    say(
        f"This is the signing secret of endpoint {made.id}. It is not shown again;"
        f" next: headway webhook test {made.id}"
    )


def list_endpoints(
    *, seller: Seller = None, limit: Rows = LIMIT, server: Server = None, as_json: AsJson = False
) -> None:
    """List endpoints: what they receive, whether they answer, and what waits."""
    from headway.operations import webhook_endpoints as operations

    named = None if seller is None else seller_of(seller)
    with open_client(server) as client:
        found, _ = collect(client, operations.endpoints, limit=limit, seller=named)
    if as_json:
        emit(found)
        return
    rows = [
        (
            row.id,
            row.url,
            row.seller or "all sellers",
            ", ".join(row.event_types) or "all events",
            _state(row),
            row.waiting_count,
        )
        for row in found
    ]
    headings = ("id", "url", "events of", "events", "state", "waiting")
    empty = "there are no endpoints; add one: headway webhook add https://app.example.com/webhooks"
    table(headings, rows, empty=empty, right={5})


def set_endpoint(
    endpoint: Id,
    *,
    url: Annotated[str | None, typer.Option(help="Where events are sent.")] = None,
    event: Types = None,
    all_events: Annotated[bool, typer.Option("--all", help="It receives all types.")] = False,
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Change an endpoint; what you do not name stays."""
    from headway.operations import webhook_endpoints as operations

    types = [] if all_events else event
    body = operations.EndpointChangeBody(url=url, description=description, event_types=types)
    _change(endpoint, body, server, as_json=as_json)


def enable(endpoint: Id, *, server: Server = None, as_json: AsJson = False) -> None:
    """Enable an endpoint again; what waits for it is sent at once."""
    from headway.core.accounts.outgoing_webhooks import EndpointStatus
    from headway.operations import webhook_endpoints as operations

    body = operations.EndpointChangeBody(status=EndpointStatus.ENABLED)
    _change(endpoint, body, server, as_json=as_json)


def disable(endpoint: Id, *, server: Server = None, as_json: AsJson = False) -> None:
    """Disable an endpoint; what waits for it is kept."""
    from headway.core.accounts.outgoing_webhooks import EndpointStatus
    from headway.operations import webhook_endpoints as operations

    body = operations.EndpointChangeBody(status=EndpointStatus.DISABLED)
    _change(endpoint, body, server, as_json=as_json)


def remove(endpoint: Id, *, server: Server = None, as_json: AsJson = False) -> None:
    """Remove an endpoint with its secret and its deliveries."""
    from headway.operations import webhook_endpoints as operations

    with open_client(server) as client:
        gone = client.call(operations.delete_endpoint, endpoint)
    if as_json:
        emit(gone)
        return
    say(f"endpoint {gone.id} is removed; {gone.waiting_count:,} events waited for it")


def rotate(endpoint: Id, *, server: Server = None, as_json: AsJson = False) -> None:
    """Replace the signing secret, and show the new one once."""
    from headway.operations import webhook_endpoints as operations

    with open_client(server) as client:
        made = client.call(operations.rotate_secret, endpoint)
    if as_json:
        emit(made)
        return
    say(made.secret or "")
    say(
        "This is the new signing secret. It is not shown again; for 24 hours the old one signs too."
    )


def send_test(endpoint: Id, *, server: Server = None, as_json: AsJson = False) -> None:
    """Send a test event to an endpoint."""
    from headway.operations import webhook_endpoints as operations

    with open_client(server) as client:
        queued = client.call(operations.send_test, endpoint)
    if as_json:
        emit(queued)
        return
    say(f"{queued.message}, as {queued.event}; see: headway webhook deliveries {endpoint}")


def replay(
    endpoint: Id,
    *,
    since: Annotated[
        str | None,
        typer.Option(help="Events from this time on: 2026-03-04T12:00 (UTC), or 2h or 3d ago."),
    ] = None,
    event: Annotated[str | None, typer.Option(help="One event, by its id.")] = None,
    failed: Annotated[bool, typer.Option(help="Only events that were not delivered.")] = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Send stored events again: one, or all since a time."""
    from headway.operations import webhook_endpoints as operations

    body = operations.ReplayBody(
        event=event,
        since=None if since is None else instant(since, SystemClock().now(), "--since"),
        only_failed=failed,
    )
    with open_client(server) as client:
        queued = client.call(operations.replay_events, endpoint, body)
    if as_json:
        emit(queued)
        return
    say(queued.message)


def deliveries(
    endpoint: Id,
    *,
    status: Annotated[
        str | None, typer.Option(help="Only those that are waiting, delivered, or 'given up'.")
    ] = None,
    limit: Rows = LIMIT,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the deliveries of an endpoint, the newest first, with the last answer."""
    from headway.operations import webhook_endpoints as operations

    with open_client(server) as client:
        found, _ = collect(
            client, operations.deliveries, limit=limit, endpoint_id=endpoint, status=status
        )
    if as_json:
        emit(found)
        return
    rows = [
        (row.id, row.type, row.subject, row.status, row.attempts, _answer(row), _at(row.tried_at))
        for row in found
    ]
    headings = ("event", "type", "subject", "state", "attempts", "last answer", "last attempt")
    table(headings, rows, empty="nothing was sent to this endpoint, and nothing waits", right={4})


def events(
    name: Annotated[str | None, typer.Argument(help="One type, with its fields.")] = None,
    *,
    as_reference: Annotated[
        bool, typer.Option("--reference", help="Print docs/reference/webhook-events.md.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the types of events, or show one with the schema of its body and an example."""
    from headway.errors import NotFoundError
    from headway.operations import webhook_endpoints as operations

    chosen = [kind for kind in operations.described_types() if name in {None, kind.name}]
    if not chosen:
        raise NotFoundError(f"there is no event {name}; see: headway webhook events")
    if as_json:
        emit(chosen)
    elif as_reference:
        print(_reference(chosen))
    elif name is None:
        table(("event", "sent when"), [(kind.name, kind.description) for kind in chosen])
    else:
        say(chosen[0].description)
        data = chosen[0].schema["properties"]["data"]["properties"]
        facts([(field, schema["description"]) for field, schema in data.items()])
        emit(chosen[0].example)


def _reference(types: Sequence[DescribedEventType]) -> str:
    """Return the page that describes these types."""
    parts = [REFERENCE]
    for kind in types:
        data = kind.schema["properties"]["data"]["properties"]
        rows = [
            f"| `{name}` | {_type(schema)} | {schema['description']} |"
            for name, schema in data.items()
        ]
        example = json.dumps(kind.example, indent=2, ensure_ascii=False)
        table_ = "\n".join(["| field of `data` | type | |", "|---|---|---|", *rows])
        parts.append(f"## {kind.name}\n\n{kind.description}\n\n{table_}\n\n```json\n{example}\n```")
    return "\n\n".join(parts)


def _type(schema: Mapping[str, Any]) -> str:
    kinds = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    text = " or ".join(kinds)
    return f"{text}, {schema['format']}" if "format" in schema else text


def _change(endpoint: str, body: object, server: str | None, *, as_json: bool) -> None:
    from headway.operations import webhook_endpoints as operations

    assert isinstance(body, operations.EndpointChangeBody)
    with open_client(server) as client:
        changed = client.call(operations.update_endpoint, endpoint, body)
    if as_json:
        emit(changed)
        return
    say(f"endpoint {changed.id}: {_state(changed)}, {changed.waiting_count:,} events wait")


def _state(endpoint: WebhookEndpoint) -> str:
    if endpoint.status == "disabled":
        return f"disabled: {endpoint.reason}"
    if endpoint.failing_since is not None:
        return f"failing since {_at(endpoint.failing_since)}"
    return "enabled"


def _answer(delivery: EventDelivery) -> str:
    answer = "" if delivery.http_status is None else str(delivery.http_status)
    return " ".join(part for part in (answer, delivery.reply or delivery.error) if part)


def _at(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"
