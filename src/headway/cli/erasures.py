"""`headway erase`: delete a seller, an account or a customer for good, with a proof."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.output import AsJson, emit, plain, say, table
from headway.cli.target import Client, Server, collect, open_client, seller_id
from headway.core.accounts.erasure import (
    Erasure,
    ErasureKind,
    ErasureProof,
    ErasureStatus,
    proof_hash,
)
from headway.core.accounts.jobs import platform_name
from headway.core.reasons import format_time
from headway.errors import ConfigError, InvalidError

if TYPE_CHECKING:
    from headway.operations.erasures import ErasureBody

SUMMARY = "Erase a seller, an account or a customer for good, and prove it."
SHOWN_MAX = 500

SellerName = Annotated[str, typer.Argument(help="The seller.")]
PlatformOption = Annotated[str | None, typer.Option(help="Only this platform.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Count the rows, and delete nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
ProofFile = Annotated[
    Path | None,
    typer.Option("--proof", metavar="FILE", help="Write the proof to this file, as JSON."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(
        help=f"{SUMMARY}\n\nExample: headway erase seller acme --dry-run", no_args_is_help=True
    )
    group.command(
        "seller", epilog=_examples("seller acme --dry-run", "seller acme --proof acme.json")
    )(erase_seller)
    group.command(
        "account",
        epilog=_examples(
            "account acme --platform etsy --dry-run", "account acme --platform etsy --yes"
        ),
    )(erase_account)
    group.command(
        "customer",
        epilog=_examples(
            "customer acme --email ann@example.com --dry-run",
            "customer acme --platform shopify --id 7001 --proof ann.json",
        ),
    )(erase_customer)
    group.command("list", epilog=_examples("list", "list acme --json"))(list_erasures)
    group.command(
        "proof",
        epilog=_examples("proof 6f0c1b9e-4a4e-4f0e-9a55-2d6f3b1d7c11 --proof acme.json"),
    )(show_proof)
    group.command("verify", epilog=_examples("verify acme.json"))(verify)
    app.add_typer(group, name="erase")


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway erase {line}" for line in lines)])


def erase_seller(
    seller: SellerName,
    *,
    dry_run: DryRun = False,
    yes: Yes = False,
    proof: ProofFile = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Erase everything of a seller: accounts, orders, parts, keys, messages and history.

    What is in the seller's shops stays there. The seller can be connected again on purpose.
    """
    fields = {"kind": ErasureKind.SELLER, "seller": seller}
    _erase(fields, server, dry_run=dry_run, is_sure=yes, proof=proof, as_json=as_json)


def erase_account(
    seller: SellerName,
    *,
    platform: PlatformOption = None,
    shop: Annotated[str, typer.Option(help="The shop, if there are several.")] = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    proof: ProofFile = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Erase one account of a seller: its orders, customers, tokens, messages and history."""
    fields = {"kind": ErasureKind.ACCOUNT, "seller": seller, "platform": platform, "shop": shop}
    _erase(fields, server, dry_run=dry_run, is_sure=yes, proof=proof, as_json=as_json)


def erase_customer(
    seller: SellerName,
    *,
    id_: Annotated[str, typer.Option("--id", help="The customer's id on the platform.")] = "",
    email: Annotated[str, typer.Option(help="The customer's email address.")] = "",
    platform: PlatformOption = None,
    shop: Annotated[str, typer.Option(help="Only this shop.")] = "",
    dry_run: DryRun = False,
    yes: Yes = False,
    proof: ProofFile = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Erase a customer of a seller. Orders stay for the books, and name nobody any more."""
    fields = {
        "kind": ErasureKind.CUSTOMER,
        "seller": seller,
        "platform": platform,
        "shop": shop,
        "customer_id": id_,
        "email": email,
    }
    _erase(fields, server, dry_run=dry_run, is_sure=yes, proof=proof, as_json=as_json)


def list_erasures(
    seller: Annotated[str | None, typer.Argument(help="Only this seller's.")] = None,
    *,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List erasures, the newest first."""
    from headway.operations import erasures as operations

    with open_client(server) as client:
        rows, _ = collect(client, operations.erasures, seller=seller_id(seller), limit=SHOWN_MAX)
        now = client.now
    if as_json:
        emit(rows)
        return
    table(
        ("id", "what", "seller", "platform", "requested", "by", "status", "rows"),
        [
            (
                row.id, row.kind, row.seller or "", row.platform or "",
                format_time(row.requested_at, now), row.actor or row.cause, row.status,
                f"{sum(row.counts.values()):,}",
            )
            for row in rows
        ],
        empty="nothing was erased",
    )  # fmt: skip


def show_proof(
    erasure: Annotated[str, typer.Argument(help="The erasure's id; see: headway erase list")],
    *,
    proof: ProofFile = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Show the proof of an erasure, or write it to a file."""
    from headway.operations import erasures as operations

    with open_client(server) as client:
        document = client.call(operations.erasure_proof, erasure)
    _write(document, proof)
    if as_json or proof is None:
        emit(document)
    else:
        say(f"the proof is in {proof}")


def verify(
    file: Annotated[Path, typer.Argument(help="A proof that Headway wrote.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Check that nobody changed a proof: its hash is of all its other fields."""
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except ValueError:
        raise InvalidError(f"{file}: it is not JSON") from None
    if not isinstance(fields, dict) or "sha256" not in fields:
        raise InvalidError(f"{file}: it is no proof of an erasure")
    is_intact = proof_hash(fields) == fields["sha256"]
    if as_json:
        emit({"file": str(file), "is_intact": is_intact})
    elif is_intact:
        say(f"{file} is intact: {fields.get('kind')}, erased at {fields.get('erased_at')}")
    if not is_intact:
        raise InvalidError(f"{file}: its hash does not fit; somebody changed it")


def _erase(
    fields: dict[str, Any],
    server: str | None,
    *,
    dry_run: bool,
    is_sure: bool,
    proof: Path | None,
    as_json: bool,
) -> None:
    from headway.operations import erasures as operations

    body = _body(fields)
    if proof is not None and not dry_run:
        _check_writable(proof)
    with open_client(server) as client:
        preview = client.call(operations.preview_erasure, body)
        if dry_run and as_json:
            emit(preview)
            return
        if dry_run or not (is_sure or as_json):
            table(
                ("table", "rows"),
                [(name, f"{count:,}") for name, count in sorted(preview.counts.items())],
                title=f"{fields['kind']} of {preview.seller}: {', '.join(preview.accounts)}",
                empty="nothing is stored",
                right=(1,),
            )
        if dry_run:
            say(f"{preview.total:,} rows would be deleted or emptied; nothing was")
            return
        _confirm(f"Erase {preview.total:,} rows for good? There is no way back.", is_sure)
        erasure = _finish(client, client.call(operations.erase, body), preview.total)
        document = client.call(operations.erasure_proof, erasure.id)
    _write(document, proof)
    if as_json:
        emit(document)
        return
    say(f"{sum(erasure.counts.values()):,} rows are erased; id {erasure.id}")
    if proof is not None:
        say(f"the proof is in {proof}")
    if erasure.sweep_at is not None and erasure.done_at is None:
        say(f"late writes are looked for once more at {format_time(erasure.sweep_at, client.now)}")


def _body(fields: dict[str, Any]) -> ErasureBody:
    from headway.operations.erasures import ErasureBody

    platform = fields.get("platform")
    return ErasureBody(
        **{
            **fields,
            "seller": seller_id(fields["seller"]),
            "platform": None if platform is None else platform_name(platform),
        }
    )


def _finish(client: Client, erasure: Erasure, total: int) -> Erasure:
    """Continue until all rows are deleted, and show how far it is."""
    from headway.cli.progress import progress
    from headway.operations import erasures as operations

    shown = 0
    with progress("erasing", max(1, total)) as advance:
        while erasure.status == ErasureStatus.RUNNING:
            count = sum(erasure.counts.values())
            advance(count - shown)
            shown, erasure = count, client.call(operations.continue_erasure, erasure.id)
    return erasure


def _check_writable(path: Path) -> None:
    """Raise ConfigError before anything is erased if the proof could not be written."""
    if not path.parent.is_dir() or path.is_dir():
        raise ConfigError(f"{path}: no file can be written there; nothing was erased")


def _write(document: ErasureProof, path: Path | None) -> None:
    if path is None:
        return
    try:
        path.write_text(json.dumps(plain(document), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; the data is erased. Write the proof again: headway erase"
            f" proof {document.id} --proof FILE"
        ) from None


def _confirm(question: str, is_sure: bool) -> None:
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise InvalidError(
            "data is erased only after a question, and there is nobody to ask; look with"
            " --dry-run, then add --yes"
        )
    typer.confirm(question, abort=True, err=True)
