"""`headway accounts`: sellers' accounts at platforms, one by one or thousands from a file."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.output import AsJson, emit, facts, say, table
from headway.cli.progress import progress
from headway.cli.target import Client, Server, open_client, seller_id
from headway.core.accounts.jobs import DataKind, platform_name
from headway.errors import InvalidError, StoreError
from headway.web.formatting import ago

if TYPE_CHECKING:
    from headway.operations.account_commands import AccountJobsBody, ChangedJobs
    from headway.operations.account_import import ImportedAccount
    from headway.store.accounts.status import AccountView

SUMMARY = "List, show, pause, resync or disconnect accounts, or connect many from a file."
# So many rows of a file are one request.
ROWS_AT_ONCE = 500
PAGE = 100
FAILED = 1
STDIN = Path("-")
AccountId = Annotated[str, typer.Argument(help="The account's id: headway accounts list.")]
Kinds = Annotated[
    list[DataKind] | None,
    typer.Option("--kind", help="Only this kind of data; may be given several times."),
]
Reason = Annotated[str, typer.Option(help="Why; the history and the jobs show it.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=f"{SUMMARY}\n\nExample: headway accounts list", no_args_is_help=True)
    some_id = "6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11"
    group.command("list", epilog=_examples("list", "list --seller acme --json"))(list_accounts)
    group.command("show", epilog=_examples(f"show {some_id}"))(show)
    group.command("pause", epilog=_examples(f"pause {some_id} --kind orders"))(pause)
    group.command("resume", epilog=_examples(f"resume {some_id}"))(resume)
    group.command("resync", epilog=_examples(f"resync {some_id} --kind orders"))(resync)
    group.command("disconnect", epilog=_examples(f'disconnect {some_id} --reason "sold"'))(
        disconnect
    )
    group.command(
        "import",
        epilog=_examples("import accounts.jsonl", "import - --json < accounts.jsonl"),
    )(import_file)
    app.add_typer(group, name="accounts")


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway accounts {line}" for line in lines)])


def list_accounts(
    *,
    seller: Annotated[str | None, typer.Option(help="Only this seller's.")] = None,
    platform: Annotated[str | None, typer.Option(help="Only of this platform.")] = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List all accounts, those that need a person first."""
    with open_client(server) as client:
        rows = list(_accounts(client, seller, platform))
        now = client.now
    if as_json:
        emit(rows)
        return
    cells = [
        (
            row.seller,
            row.platform,
            row.shop,
            "connected" if row.is_connected else "disconnected",
            f"{row.orders:,}",
            f"{row.listings:,}",
            ago(row.last_run_at, now),
            row.id,
        )
        for row in rows
    ]
    headings = ("seller", "platform", "shop", "status", "orders", "listings", "last run", "id")
    empty = "no account is connected; connect one with: headway connect SHOP --seller SELLER"
    table(headings, cells, empty=empty, right={4, 5})


def _accounts(client: Client, seller: str | None, platform: str | None) -> Iterator[AccountView]:
    from headway.operations import accounts

    name, cursor = None if platform is None else platform_name(platform), None
    while True:
        page = client.call(
            accounts.accounts, seller=seller_id(seller), platform=name, cursor=cursor, limit=PAGE
        )
        yield from page.accounts
        cursor = page.next_cursor
        if cursor is None:
            return


def show(account: AccountId, *, server: Server = None, as_json: AsJson = False) -> None:
    """Show one account: what is stored of it, and how its jobs stand."""
    from headway.operations import account_commands

    with open_client(server) as client:
        view = client.call(account_commands.account, account)
        now = client.now
    if as_json:
        emit(view)
        return
    facts(
        [
            ("account", view.id),
            ("seller", f"{view.seller} ({view.tier})"),
            ("shop", f"{view.platform} {view.shop} {view.title}".rstrip()),
            ("status", "connected" if view.is_connected else "disconnected"),
            *([("trouble", view.trouble)] if view.trouble else []),
            ("stored", f"{view.orders:,} orders, {view.listings:,} listings"),
            ("last run", ago(view.last_run_at, now)),
            ("history", "read in full" if view.is_backfilled else "being read"),
            ("dead jobs", f"{view.dead:,}"),
        ]
    )


def pause(
    account: AccountId,
    *,
    kind: Kinds = None,
    reason: Reason = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Stop an account's jobs, running ones too, until somebody resumes them."""
    from headway.operations import account_commands

    with open_client(server) as client:
        changed = client.call(account_commands.pause_jobs, account, _body(kind, reason))
    _print_changed(changed, "paused", as_json=as_json)


def resume(
    account: AccountId, *, kind: Kinds = None, server: Server = None, as_json: AsJson = False
) -> None:
    """Let an account's paused jobs go on from where they were."""
    from headway.operations import account_commands

    with open_client(server) as client:
        changed = client.call(account_commands.resume_jobs, account, _body(kind, ""))
    _print_changed(changed, "resumed", as_json=as_json)


def resync(
    account: AccountId, *, kind: Kinds = None, server: Server = None, as_json: AsJson = False
) -> None:
    """Read everything of an account again, history too; what is stored stays and is renewed."""
    from headway.operations import account_commands

    with open_client(server) as client:
        changed = client.call(account_commands.resync, account, _body(kind, ""))
    _print_changed(changed, "begin again", as_json=as_json)


def _body(kinds: list[DataKind] | None, reason: str) -> AccountJobsBody:
    from headway.operations.account_commands import AccountJobsBody

    return AccountJobsBody(kinds=kinds or None, reason=reason)


def _print_changed(changed: ChangedJobs, word: str, *, as_json: bool) -> None:
    if as_json:
        emit(changed)
        return
    say(f"{changed.jobs} jobs {word}; see: headway jobs")


def disconnect(
    account: AccountId, *, reason: Reason = "", server: Server = None, as_json: AsJson = False
) -> None:
    """Stop reading and writing an account, and forget its tokens; what is stored stays."""
    from headway.operations import account_commands

    with open_client(server) as client:
        ended = client.call(
            account_commands.disconnect_account,
            account,
            account_commands.AccountEndBody(reason=reason),
        )
    if as_json:
        emit(ended)
        return
    say(f"{ended.shop} of {ended.seller} is disconnected, and its tokens are forgotten")


def import_file(
    file: Annotated[Path, typer.Argument(help="Lines of JSON, one for each account; - is stdin.")],
    *,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Connect many accounts from a file of JSON lines; bad lines are refused with the reason.

    A line holds what `headway connect` takes: {"seller": "acme",
    "platform": "printify", "shop": "5432101", "access_token": "..."}. The same file again changes
    nothing, so repeat an import that broke off. With --json each result is a line of JSON, as it is
    done. Exit code 1 if any line was refused.
    """
    total = _count_lines(file)
    counts: Counter[str] = Counter()
    with open_client(server, creates=True) as client, progress("Accounts", total) as advance:
        for result in _import(client, file):
            counts[result.result] += 1
            advance(1)
            if as_json:
                print(json.dumps(_plain(result)), flush=True)
            elif result.result != "connected":
                say(f"line {result.line}: {result.result}: {result.reason}")
    if not as_json:
        say(f"{counts['connected']:,} connected, {counts['refused']:,} refused")
    if counts["stopped"]:
        raise StoreError("the database went away; import the file again, it goes on where it was")
    if counts["refused"]:
        raise typer.Exit(FAILED)


def _plain(result: ImportedAccount) -> dict[str, object]:
    from dataclasses import asdict

    return asdict(result)


def _import(client: Client, file: Path) -> Iterator[ImportedAccount]:
    """Send the lines of a file in parts; yield a result for each line, in order."""
    from headway.operations import account_import

    lines, first = _lines(file), 1
    while rows := list(islice(lines, ROWS_AT_ONCE)):
        body = account_import.AccountImportBody(accounts=rows, first_line=first)
        yield from client.call(account_import.import_accounts, body)
        first += len(rows)


def _count_lines(file: Path) -> int:
    """Return how many lines a file has; 0 where that is not known."""
    if file == STDIN or not file.is_file():
        return 0
    with file.open("rb") as opened:
        return sum(1 for _ in opened)


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file; one for a line that is none, so that it is refused by number."""
    from headway.operations.account_import import NO_OBJECT

    try:
        opened = sys.stdin.buffer if file == STDIN else file.open("rb")
    except OSError as error:
        raise InvalidError(f"{file}: {error.strerror or error}") from None
    with opened:
        for line in opened:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            yield row if isinstance(row, dict) else {NO_OBJECT: True}
