"""`headway record` and `verify`: replies without secrets, and what we understand of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Server, open_client
from headway.core.accounts.jobs import platform_name
from headway.core.catalog.intake import seller_of, sku_of
from headway.core.catalog.listings import MAIN, SupplierName
from headway.core.dispatch import STOREFRONT
from headway.errors import ConfigError, InvalidError

if TYPE_CHECKING:
    from headway import config
    from headway.operations.recordings import Recording
    from headway.providers.provider import Provider
    from headway.providers.replay import Understood

SUMMARY = "Record the replies of a shop or a supplier, without secrets and buyers."
SHOP_EXAMPLES = """Examples:

headway record shop --seller acme --platform etsy --out etsy.jsonl

headway record shop --seller acme --platform shopify --pages 3 --out shopify.jsonl --json
"""
SUPPLIER_EXAMPLES = """Examples:

headway record supplier "WF338109=K3" --out supplier.jsonl

headway record supplier "WF1=K3" WF2 --name east --out east.jsonl
"""
VERIFY_EXAMPLES = """Examples:

headway verify etsy.jsonl

headway verify *.jsonl --json | jq '.replies[] | select(.is_read | not)'
"""
FILE_BYTES_MAX = 200_000_000
NOTES_SHOWN = 5
Out = Annotated[Path, typer.Option(help="The file to write; it must not exist yet.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedReply:
    """One line of a recording, and what was understood of it."""

    file: str
    line: int
    provider: str
    request: str
    status: int
    is_read: bool
    understood: Understood


def register(app: typer.Typer) -> None:
    """Add the commands."""
    example = "headway record shop --seller acme --out shop.jsonl"
    group = typer.Typer(help=f"{SUMMARY}\n\nExample: {example}", no_args_is_help=True)
    group.command("shop", epilog=SHOP_EXAMPLES)(shop)
    group.command("supplier", epilog=SUPPLIER_EXAMPLES)(supplier)
    app.add_typer(group, name="record")
    app.command("verify", epilog=VERIFY_EXAMPLES)(verify)


def shop(
    *,
    seller: Annotated[str, typer.Option(help="Whose shop.")],
    platform: Annotated[str, typer.Option(help="Its platform.")] = STOREFRONT,
    pages: Annotated[int, typer.Option(min=1, help="Pages of each kind of data; 20 at most.")] = 1,
    out: Out,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Read what changed in 30 days in a seller's shop, and write the replies to a file.

    Secrets, buyers, texts and ids are replaced by stand-ins before anything is stored. Every
    request passes the limiter and counts like any other. Nothing is written to the shop.
    """
    from headway.operations import recordings

    body = recordings.RecordBody(
        seller=seller_of(seller), platform=platform_name(platform), pages=pages
    )
    _check_new(out)
    with open_client(server) as client:
        recording = client.call(recordings.record_shop, body)
    _write(out, recording, as_json=as_json)


def supplier(
    skus: Annotated[list[str], typer.Argument(help="The part numbers, up to ten.")],
    *,
    name: Annotated[str, typer.Option(help="The supplier; see: headway supplier list.")] = MAIN,
    out: Out,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Ask a supplier for these parts in one call, and write the reply to a file.

    Secrets, part numbers and texts are replaced by stand-ins before anything is stored. The call
    passes the limiter and counts like any other. It changes no listing and no shop.
    """
    from headway.operations import recordings
    from headway.operations.probe import ProbeBody

    body = ProbeBody(skus=[sku_of(sku) for sku in skus])
    _check_new(out)
    with open_client(server) as client:
        recording = client.call(recordings.record_supplier, SupplierName(name), body)
    _write(out, recording, as_json=as_json)


def verify(
    files: Annotated[list[Path], typer.Argument(help="Recordings: files of `headway record`.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Read recorded replies as Headway reads real ones, without network and database.

    Shows for each reply which rows were read and which were set aside, with the field and the
    reason; codes that Headway does not know; and fields that it uses and that are missing. The
    exit code is 1 if something could not be read, and 2 if a file is no recording.
    """
    replies = [reply for file in files for reply in _verified(file)]
    unread = sum(not reply.is_read for reply in replies)
    if as_json:
        emit({"total": len(replies), "unread": unread, "replies": replies})
    else:
        _print(replies)
        say(f"{len(replies)} replies, {unread} not read completely")
    if unread:
        raise typer.Exit(1)


def _check_new(out: Path) -> None:
    if out.exists():
        raise InvalidError(f"out: {out} exists; choose another name or remove it")


def _write(out: Path, recording: Recording, *, as_json: bool) -> None:
    try:
        with out.open("x", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in recording.lines)
    except OSError as error:
        raise InvalidError(f"out: {out} cannot be written: {error.strerror}") from None
    if as_json:
        emit({"file": str(out), "replies": len(recording.lines), "problems": recording.problems})
        return
    say(f"{len(recording.lines)} replies are in {out}; look at them, then: headway verify {out}")
    for problem in recording.problems:
        say(f"not read: {problem}")


def _verified(file: Path) -> Iterator[VerifiedReply]:
    """Replay every line of a file; raises InvalidError with the number of the line."""
    from headway.providers import registry
    from headway.providers.recordings import read_line
    from headway.providers.replay import replay

    try:
        if file.stat().st_size > FILE_BYTES_MAX:
            raise InvalidError(f"{file} is larger than {FILE_BYTES_MAX // 1_000_000} MB")
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise InvalidError(f"{file} cannot be read: {error.strerror}") from None
    settings: dict[str, config.Settings] = {}
    if not any(line.strip() for line in lines):
        raise InvalidError(f"{file} holds no reply; record one: headway record --help")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            recorded = read_line(line)
            provider = registry.find(recorded.provider)
        except (ConfigError, InvalidError) as error:
            raise InvalidError(f"{file}, line {number}: {error}") from None
        if provider.name not in settings:
            settings[provider.name] = _settings(provider)
        understood = replay(provider, recorded, settings[provider.name])
        yield VerifiedReply(
            file=str(file),
            line=number,
            provider=provider.name,
            request=recorded.request.what,
            status=recorded.status,
            is_read=understood.is_read,
            understood=understood,
        )


def _settings(provider: Provider) -> config.Settings:
    """Return the settings here, with placeholders for the credentials that clients insist on."""
    from headway import config
    from headway.providers.replay import PLACEHOLDER

    placeholders = dict.fromkeys(provider.settings, PLACEHOLDER)
    return config.load({**os.environ, **placeholders})


def _print(replies: Sequence[VerifiedReply]) -> None:
    table(
        ("reply", "provider", "request", "status", "result", "rows"),
        [
            (
                f"{reply.file}:{reply.line}",
                reply.provider,
                reply.request,
                reply.status,
                _result(reply.understood),
                ", ".join(f"{count} {name}" for name, count in reply.understood.rows.items()),
            )
            for reply in replies
        ],
        empty="no replies",
    )
    for reply in replies:
        notes = list(_notes(reply.understood))
        for note in notes[:NOTES_SHOWN]:
            say(f"{reply.file}:{reply.line}: {note}")
        if len(notes) > NOTES_SHOWN:
            say(f"{reply.file}:{reply.line}: and {len(notes) - NOTES_SHOWN} more; see --json")


def _result(understood: Understood) -> str:
    if understood.problem:
        return "fail"
    if understood.refusal:
        return "refused"
    return f"{len(understood.set_aside)} set aside" if understood.set_aside else "ok"


def _notes(understood: Understood) -> Iterator[str]:
    if understood.problem:
        yield f"not read: {understood.problem}"
    if understood.refusal:
        yield f"the platform refuses: {understood.refusal}"
    for row in understood.set_aside:
        yield f"set aside: {row.kind} {row.id}: {row.reason}"
    for code in understood.unknown_codes:
        yield f"unknown code: {code}"
    if missing := understood.missing_fields:
        yield f"missing (rows): {_counted(missing)}"


def _counted(missing: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in missing.items())
