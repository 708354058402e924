"""`headway held`, `approve`, `reject`, `rollback`, `revive`, `remove`: what a person decides.

A part that was named but left as it was makes the exit code 1, and the answer says why.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.target import Client, Server, collect, open_client, seller_id
from headway.cli.times import instant
from headway.core.accounts.jobs import JobStatus
from headway.core.catalog.listings import Sku
from headway.core.reasons import format_time
from headway.errors import InvalidError

if TYPE_CHECKING:
    from headway.core.catalog.review import Ruling
    from headway.operations import changes

ROWS_SHOWN_MAX = 50

Skus = Annotated[
    list[str] | None, typer.Argument(help="Part numbers, as the supplier writes them.")
]
Seller = Annotated[
    str | None, typer.Option(help="The seller; needed if several sellers list the part.")
]
Reason = Annotated[str, typer.Option(help="Why; it is kept in the history.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
BodyT = TypeVar("BodyT", "changes.Approval", "changes.Decision", "changes.Rollback")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("held", epilog=_examples("held", "held --seller acme --json"))(held)
    # Its old name, for scripts that use it.
    app.command("hold", hidden=True)(held)
    app.command(
        "approve",
        epilog=_examples(
            'approve "WF330523=7A"', 'approve --all --reason "yearly price list" --seller acme'
        ),
    )(approve)
    app.command("reject", epilog=_examples('reject "WF330523=7A" --reason "a typing error"'))(
        reject
    )
    app.command(
        "rollback",
        epilog=_examples(
            'rollback "WF330523=7A" --to 2h',
            "rollback --since 2026-03-04T09:00 --to 2026-03-04T08:59 --seller acme --dry-run",
        ),
    )(rollback)
    app.command(
        "revive",
        epilog=_examples('revive "WF330523=7A"', "revive --all", "revive acme/etsy/orders"),
    )(revive)
    app.command(
        "remove",
        epilog=_examples('remove "WF330523=7A" --seller acme', 'remove "wf33=7a" --shop keep'),
    )(remove)


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway {line}" for line in lines)])


def held(
    *,
    seller: Annotated[str | None, typer.Option(help="Only this seller's.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to show, the oldest first.")] = 50,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """List the changes that are held for a person.

    Each waits for approve or reject; meanwhile the shop keeps the old price.
    """
    from headway.operations import changes

    with open_client(server) as client:
        waiting, has_more = collect(client, changes.held, seller=seller_id(seller), limit=limit)
        now = client.now
        if as_json:
            emit({"held": waiting, "has_more": has_more})
            return
        rows = [
            (
                change.sku,
                change.seller,
                _difference(change.old, change.new if change.can_approve else None),
                change.reason if change.can_approve else f"{change.reason}; cannot be approved",
                format_time(change.held_at, now),
            )
            for change in waiting
        ]
        table(("part", "seller", "price", "held because", "since"), rows, empty="nothing is held")
        if has_more:
            say(f"and more; show them with: headway held --limit {limit * 10}")


def approve(
    skus: Skus = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Everything that can be approved.")] = False,
    reason: Reason = "",
    seller: Seller = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Let held changes reach the shop.

    In a terminal, the command shows the changes and asks first; elsewhere it decides what it finds.
    One that differs by then is not approved. With --all, which needs a reason, the guard against
    mass changes also lets the rest of these sellers' changes pass for 24 hours.
    """
    from headway.operations import changes

    _either(skus, is_all=all_)
    if all_ and not reason.strip():
        raise InvalidError('--all needs a reason: --all --reason "why all of it may pass"')
    body = changes.Approval(
        skus=_skus(skus), all=all_, seller=seller_id(seller), reason=reason, dry_run=dry_run
    )
    with open_client(server) as client:
        rulings = client.call(changes.approve, _trial(body))
        if not dry_run:
            is_asked = _is_asked(yes=yes, as_json=as_json)
            body = _as_shown(rulings, body, asks="Approve" if is_asked else None)
            rulings = client.call(changes.approve, body)
        if all_:
            _report_all(rulings.listings, as_json=as_json)
        else:
            _report(rulings.listings, as_json=as_json, is_trial=dry_run)


def reject(
    skus: Annotated[list[str], typer.Argument(help="Part numbers, as the supplier writes them.")],
    *,
    reason: Reason = "",
    seller: Seller = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Keep the shop's price; the same quote is not held again.

    In a terminal, the command shows the changes and asks first; elsewhere it decides what it finds.
    One that differs by then is not rejected.
    """
    from headway.operations import changes

    body = changes.Decision(
        skus=_skus(skus) or [], seller=seller_id(seller), reason=reason, dry_run=dry_run
    )
    with open_client(server) as client:
        rulings = client.call(changes.reject, _trial(body))
        if not dry_run:
            is_asked = _is_asked(yes=yes, as_json=as_json)
            body = _as_shown(rulings, body, asks="Reject" if is_asked else None)
            rulings = client.call(changes.reject, body)
        _report(rulings.listings, as_json=as_json, is_trial=dry_run)


def rollback(
    skus: Skus = None,
    *,
    to: Annotated[
        str, typer.Option(help="The moment to return to: 2026-03-04T09:00 (UTC), or 2h, 3d ago.")
    ],
    since: Annotated[
        str | None, typer.Option(help="Instead of parts: all of a seller's that changed since.")
    ] = None,
    reason: Reason = "",
    seller: Seller = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Give parts the price they had at another time.

    Restores the price that the shop showed then; stock is not changed. The supplier quote that you
    undo is not applied again; the next different quote is.
    """
    from headway.operations import changes

    if bool(skus) == (since is not None):
        raise InvalidError("name parts, or --since an instant with --seller; not both")
    with open_client(server) as client:
        now = client.now
        moment = instant(to, now, "--to")
        from_ = None if since is None else instant(since, now, "--since")

        body = changes.Rollback(
            skus=_skus(skus),
            since=from_,
            to=moment,
            seller=seller_id(seller),
            reason=reason,
            dry_run=dry_run,
        )
        trial = client.call(changes.rollback, _trial(body))
        if dry_run or not trial.done:
            _report(trial.listings, as_json=as_json, is_trial=dry_run or from_ is not None)
            return
        of, is_asked = f" of {seller}" if seller else "", _is_asked(yes=yes, as_json=as_json)
        if is_asked:
            _report(trial.listings, as_json=False, is_trial=True)
        if is_asked or from_ is not None:
            _confirm(f"Roll back {trial.done:,} prices{of} to {format_time(moment, now)}?", yes)
        result = client.call(changes.rollback, _as_shown(trial, body))
        _report(result.listings, as_json=as_json, is_trial=from_ is not None)


def revive(
    skus: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SKU|JOB]...", help="Part numbers; or jobs, by id or name."),
    ] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Everything that is parked.")] = False,
    seller: Seller = None,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Restart parked or removed parts, on sale again, or dead jobs.

    Parts are read in the next call to the supplier. A job is named by its id or
    seller/platform/kind, and is due at once.
    """
    from headway.operations import changes
    from headway.store.accounts.job_list import is_job_name

    _either(skus, is_all=all_)
    with open_client(server) as client:
        if skus and any(map(is_job_name, skus)):
            _revive_jobs(client, skus, as_json=as_json)
            return
        body = changes.Revival(skus=_skus(skus), all=all_, seller=seller_id(seller))
        _report(client.call(changes.revive, body).listings, as_json=as_json)


def remove(
    skus: Annotated[list[str], typer.Argument(help="Part numbers, as they are listed.")],
    *,
    shop: Annotated[
        Literal["draft", "keep"],
        typer.Option(help="Take the products off sale, or leave them as they are."),
    ] = "draft",
    seller: Seller = None,
    reason: Reason = "",
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Remove parts that you no longer want, or mistyped.

    They are neither read nor written any more. Their history stays, and revive brings them back.
    """
    from headway.operations import part_removal

    with open_client(server) as client:
        body = part_removal.RemovalOfParts(
            skus=list(map(Sku, skus)), in_shop=shop, seller=seller_id(seller), reason=reason
        )
        _report(client.call(part_removal.remove, body).listings, as_json=as_json)


def _revive_jobs(client: Client, names: Sequence[str], *, as_json: bool) -> None:
    """Queue dead jobs again; raises RequestError before anything is done."""
    from headway.cli.jobs import print_job
    from headway.operations import jobs
    from headway.store.accounts.job_list import is_job_name

    if not all(map(is_job_name, names)):
        raise InvalidError("name parts, or jobs; not both at once")
    named = [client.call(jobs.job_of, name) for name in dict.fromkeys(names)]
    # A job that is not dead is refused; checked first, it is refused before the others change.
    for job in sorted(named, key=lambda job: job.status is JobStatus.DEAD):
        client.call(jobs.revive_job, job.id)
    revived = [client.call(jobs.job_of, job.id) for job in named]
    if as_json:
        emit({"now": client.now, "jobs": revived})
        return
    for job in revived:
        print_job(job, client.now)


def _either(skus: Sequence[str] | None, *, is_all: bool) -> None:
    if bool(skus) == is_all:
        raise InvalidError("name parts, or say --all; not both")


def _skus(names: Sequence[str] | None) -> list[Sku] | None:
    return [Sku(name) for name in names] if names else None


def _is_asked(*, yes: bool, as_json: bool) -> bool:
    """Return True if a person at a terminal decides, and has not agreed beforehand."""
    return not yes and not as_json and sys.stdin.isatty()


def _trial(body: BodyT) -> BodyT:
    return body.model_copy(update={"dry_run": True})


def _as_shown(trial: changes.Rulings, body: BodyT, *, asks: str | None = None) -> BodyT:
    """Return the request that does only what the trial showed, once a person has agreed."""
    if asks is not None:
        _report(trial.listings, as_json=False, is_trial=True)
        if trial.done:
            question = f"{asks} {trial.done:,} of {len(trial.listings):,}?"
            typer.confirm(question, abort=True, err=True)
    if body.skus is None:
        return body.model_copy(update={"version": trial.version})
    versions = {one.sku: one.version for one in trial.listings if one.version}
    return body.model_copy(update={"versions": versions})


def _confirm(question: str, is_sure: bool) -> None:
    if is_sure:
        return
    if not sys.stdin.isatty():
        raise InvalidError(
            "a batch is rolled back only after a question, and there is nobody to ask; look with"
            " --dry-run, then add --yes"
        )
    typer.confirm(question, abort=True, err=True)


def _report(rulings: Sequence[Ruling], *, as_json: bool, is_trial: bool = False) -> None:
    """Print an answer for each listing; exit 1 if one that was named was left as it was."""
    left = sum(not ruling.is_done for ruling in rulings)
    if as_json:
        emit({"listings": rulings, "done": len(rulings) - left, "left": left})
    else:
        rows = [
            (ruling.sku, ruling.seller, _difference(ruling.old, ruling.new), ruling.message)
            for ruling in rulings[:ROWS_SHOWN_MAX]
        ]
        table(("part", "seller", "price", "result"), rows, empty="there is nothing to do")
        if len(rulings) > ROWS_SHOWN_MAX:
            say(f"and {len(rulings) - ROWS_SHOWN_MAX:,} more; --json shows them all")
    if left and not is_trial:
        raise typer.Exit(1)


def _report_all(rulings: Sequence[Ruling], *, as_json: bool) -> None:
    done = sum(ruling.is_done for ruling in rulings)
    left = Counter(ruling.message for ruling in rulings if not ruling.is_done)
    if as_json:
        emit({"approved": done, "left": dict(left)})
        return
    say(f"{done:,} approved" if rulings else "nothing is held")
    for reason, count in left.most_common():
        say(f"{count:,} left: {reason}")


def _difference(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> str:
    before, after = (state and state.get("price") for state in (old, new))
    if after is None or before == after:
        return str(before or "")
    return f"{before or 'none'} to {after}"
