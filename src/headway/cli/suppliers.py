"""`headway supplier`: suppliers of prices and stock, their credentials and their sellers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, collect, open_client
from headway.core.catalog.intake import seller_of, supplier_named
from headway.core.catalog.listings import SupplierName
from headway.core.reasons import format_time
from headway.errors import InvalidError

if TYPE_CHECKING:
    from headway.store.catalog.supplier_list import SupplierView

SUMMARY = "Add, list or remove suppliers, or choose a seller's supplier."
LIMIT = 200

Name = Annotated[str, typer.Argument(help="Its name here: lower-case letters, digits and -.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=f"{SUMMARY}\n\nExample: headway supplier list", no_args_is_help=True)
    group.command(
        "add",
        epilog=_examples(
            "add east --client-id 7f3a --username parts@acme.example",
            "add east --client-id 7f3a --username parts@acme.example --secrets-file - < secrets",
            "add list --kind feed --url https://parts.example/prices.csv --currency USD",
            "add list --kind feed --url /data/prices.csv --column sku=PartNo --column price=List",
        ),
    )(add)
    group.command("list", epilog=_examples("list", "list --json", "list --limit 5000"))(
        list_suppliers
    )
    group.command("give", epilog=_examples("give east --seller acme", "give main --seller acme"))(
        give
    )
    group.command("accept", epilog=_examples("accept list", "accept list --json"))(accept)
    group.command("remove", epilog=_examples("remove east"))(remove)
    app.add_typer(group, name="supplier")


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway supplier {line}" for line in lines)])


def add(
    name: Name,
    *,
    kind: Annotated[
        str, typer.Option(help="The provider; see: headway providers. By default that of main.")
    ] = "",
    client_id: Annotated[
        str, typer.Option(help="The client id; the rate limit applies to it.")
    ] = "",
    username: Annotated[str, typer.Option(help="The user name there.")] = "",
    url: Annotated[str, typer.Option(help="Its address; by default that of main.")] = "",
    column: Annotated[
        list[str] | None, typer.Option(help="A column of a price list, as sku=PartNo.")
    ] = None,
    currency: Annotated[
        str, typer.Option(help="The currency of a price list, where it has no column for it.")
    ] = "",
    interval: Annotated[
        str, typer.Option(help="How often a price list is read, such as 30m or 1h.")
    ] = "",
    option: Annotated[
        list[str] | None, typer.Option(help="Another option of the provider, as name=value.")
    ] = None,
    secrets_file: Annotated[
        Path | None,
        typer.Option(
            help="One secret a line, such as the client secret, the password; - for stdin."
            " Without it, Headway prompts for them."
        ),
    ] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Add a supplier, or give one new secrets.

    The secrets are kept encrypted. Each supplier has a limit of its own, so no two may have the
    same client id. No seller uses it until you run: headway supplier give.
    """
    from pydantic import SecretStr

    from headway.operations import suppliers

    called = _named(name)
    options: dict[str, Any] = _pairs(option, "--option")
    if column:
        options["columns"] = _pairs(column, "--column")
    chosen = {"currency": currency, "interval": interval}
    secrets = {field: SecretStr(text) for field, text in _secrets(kind, secrets_file).items()}
    body = suppliers.SupplierBody(
        name=called,
        kind=kind,
        client_id=client_id,
        username=username,
        url=url,
        options=options | {name: value for name, value in chosen.items() if value},
        client_secret=secrets.get("client_secret"),
        password=secrets.get("password"),
        token=secrets.get("token"),
    )
    with open_client(server, creates=True) as client:
        added = client.call(suppliers.add_supplier, body)
    if as_json:
        emit(added)
    elif added.is_new:
        say(f"{added.name} is added, and asked at {added.url}")
        say(f"let a seller buy there: headway supplier give {added.name} --seller SELLER")
    else:
        say(f"{added.name} was there; its new secrets are used from the next sign-in on")


def list_suppliers(
    *,
    limit: Annotated[int, typer.Option(min=1, help="How many to show at most.")] = LIMIT,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List suppliers: their sellers, calls in 24 hours, and whether they answer.

    main is the supplier in the settings.
    """
    from headway.operations import suppliers

    with open_client(server) as client:
        views, has_more = collect(client, suppliers.suppliers, limit=limit)
        if as_json:
            emit({"now": client.now, "suppliers": views, "has_more": has_more})
            return
        _print(views, client.now)
    if has_more:
        say(f"and more; show them with --limit {limit * 10}")


def give(
    name: Name,
    *,
    seller: Annotated[str, typer.Option(help="The seller who uses it from now on.")],
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Read a seller's parts at a supplier from now on.

    All the seller's listings are read there. Due times do not change, so this causes no burst of
    calls.
    """
    from headway.operations import suppliers

    with open_client(server) as client:
        body = suppliers.AssignmentBody(seller=seller_of(seller))
        assigned = client.call(suppliers.assign_seller, SupplierName(name), body)
    if as_json:
        emit(assigned)
        return
    moved = f"{assigned.moved:,} listings are read there when they are due next"
    none = "nothing of theirs was listed elsewhere"
    say(f"{assigned.seller} buys from {assigned.supplier}; {moved if assigned.moved else none}")


def accept(
    name: Annotated[str, typer.Argument(help="What it is called.")],
    *,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Accept the price list that is held because it shrank too much.

    Check the list first: parts that it no longer has count as missing.
    """
    from headway.operations import suppliers

    with open_client(server) as client:
        accepted = client.call(suppliers.accept_list, SupplierName(name))
    if as_json:
        emit(accepted)
        return
    say(accepted.message)


def remove(
    name: Annotated[str, typer.Argument(help="What it is called.")],
    *,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Remove a supplier, and forget its secrets.

    Refused while a seller uses it; give the seller another supplier first.
    """
    from headway.operations import suppliers

    with open_client(server) as client:
        gone = client.call(suppliers.remove_supplier, SupplierName(name))
    if as_json:
        emit(gone)
        return
    say(f"{gone.name} is removed, and its secrets are forgotten")


def _named(name: str) -> SupplierName:
    try:
        return supplier_named(name)
    except InvalidError as error:
        raise InvalidError(f"NAME: {error}") from None


def _secrets(kind: str, path: Path | None) -> dict[str, str]:
    """Read the secrets from a file, from stdin, or from hidden prompts."""
    from headway.cli.secret_files import secret_text
    from headway.providers.registry import main_supplier, supplier_role

    role = supplier_role(kind or main_supplier()[0].name)
    names = role.secrets or role.optional_secrets
    if path is None and not role.secrets:
        return {}
    if path is None and not sys.stdin.isatty():
        raise InvalidError("there is nobody to ask for the secrets; add --secrets-file FILE")
    titles = [name.replace("_", " ") for name in names]
    if path is None:
        texts = [
            typer.prompt(title.capitalize(), hide_input=True, err=True).strip() for title in titles
        ]
        return dict(zip(names, texts, strict=True))
    lines = [line.strip() for line in secret_text(path).strip().splitlines()]
    if len(lines) != len(names) or not all(lines):
        count = {1: "one line", 2: "two lines"}.get(len(names), f"{len(names)} lines")
        raise InvalidError(f"--secrets-file: {path} must hold {count}: {', then '.join(titles)}")
    return dict(zip(names, lines, strict=True))


def _pairs(texts: Sequence[str] | None, option: str) -> dict[str, str]:
    """Read options of the form name=value; raises InvalidError."""
    pairs: dict[str, str] = {}
    for text in texts or ():
        name, separator, value = text.partition("=")
        if not name or not separator or name in pairs:
            raise InvalidError(f"{option}: write each name once, as name=value, not {text!r}")
        pairs[name] = value
    return pairs


def _print(views: Sequence[SupplierView], now: datetime) -> None:
    rows = [
        (
            view.name,
            view.client_id,
            view.url,
            f"{view.sellers:,}",
            f"{view.listings:,}",
            f"{view.calls:,}",
            _answers(view, now),
            "" if view.oldest_read_at is None else format_time(view.oldest_read_at, now),
        )
        for view in views
    ]
    headings = (
        "name", "client id", "url", "sellers", "listings", "calls in 24 h", "answers", "oldest read"
    )  # fmt: skip
    table(headings, rows, right=(3, 4, 5))


def _answers(view: SupplierView, now: datetime) -> str:
    since = view.breaker.opened_at
    if since is None:
        return "answering" if view.calls else "not asked yet"
    return f"not since {format_time(since, now)}: {view.breaker.reason}"
