"""`headway vault`: encrypt secrets with the newest key, and see which old keys can be removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from headway.cli.output import AsJson, emit, say, table
from headway.cli.progress import progress
from headway.errors import ConfigError

if TYPE_CHECKING:
    from headway.app import App
    from headway.providers.vault import Vault
    from headway.store.accounts.credentials import Credentials
    from headway.store.accounts.oauth_flows import OAuthFlows

SUMMARY = "Encrypt stored secrets with the newest key, or show which keys they need."


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=f"{SUMMARY}\n\nExample: headway vault status", no_args_is_help=True)
    group.command("rotate", epilog=_examples("rotate", "rotate --json"))(rotate)
    group.command("status", epilog=_examples("status", "status --json"))(status)
    app.add_typer(group, name="vault")


def _examples(*lines: str) -> str:
    return "\n\n".join(["Examples:", *(f"headway vault {line}" for line in lines)])


def rotate(*, as_json: AsJson = False) -> None:
    """Encrypt every stored secret again with the newest key.

    Workers may run meanwhile. It can be stopped at any point, and repeated.
    """
    from headway import config
    from headway.app.providers import shared_vault
    from headway.cli.session import open_session

    with open_session(config.load(), creates=False) as session:
        app, vault = session.app, shared_vault(session.app.settings)
        total = sum(len(store.secrets()) for store in _stores(app))
        with progress("encrypting", total) as advance:

            def renew(stored: bytes) -> bytes | None:
                advance(1)
                return vault.rotate(stored)

            written = sum(store.reencrypt(renew) for store in _stores(app))
        counts = _count(app, vault)
        if counts[None]:
            raise ConfigError(
                f"{written} secrets were encrypted again, but {_lost(vault, counts)};"
                " put the key they were written with after the others"
            )
        if as_json:
            emit({"written": written, **_summary(vault, counts)})
            return
        say(f"{written} of {total} secrets were encrypted again with the newest key")
        _print_advice(vault, counts)


def status(*, as_json: AsJson = False) -> None:
    """Show how many secrets need each key, and which old keys can be removed."""
    from headway import config
    from headway.app.providers import shared_vault
    from headway.cli.session import open_session

    with open_session(config.load(), creates=False) as session:
        vault = shared_vault(session.app.settings)
        counts = _count(session.app, vault)
        if as_json:
            emit({"source": vault.source, **_summary(vault, counts)})
            return
        rows = [
            (f"{at} (newest)" if at == 1 else str(at), f"{counts[at]:,}", _fate(counts, at))
            for at in range(1, vault.count + 1)
        ]
        table(("key", "secrets", ""), rows, title=f"keys of {vault.source}", right={1})
        if counts[None]:
            say(f"{_lost(vault, counts)}; add their key after the others")
        _print_advice(vault, counts)


def _stores(app: App) -> tuple[Credentials | OAuthFlows, ...]:
    from headway.store.accounts.credentials import Credentials
    from headway.store.accounts.oauth_flows import OAuthFlows

    return Credentials(app.pool), OAuthFlows(app.pool)


def _count(app: App, vault: Vault) -> Counter[int | None]:
    return Counter(vault.key_of(secret) for store in _stores(app) for secret in store.secrets())


def _summary(vault: Vault, counts: Mapping[int | None, int]) -> dict[str, object]:
    return {
        "secrets_by_key": [counts[at] for at in range(1, vault.count + 1)],
        "secrets_without_key": counts[None],
        "keys_that_may_go": [at for at in range(2, vault.count + 1) if not counts[at]],
    }


def _fate(counts: Mapping[int | None, int], at: int) -> str:
    if at == 1:
        return "encrypts new secrets"
    return "still needed; run: headway vault rotate" if counts[at] else "can be removed"


def _lost(vault: Vault, counts: Mapping[int | None, int]) -> str:
    return f"{counts[None]} stored secrets cannot be decrypted with any of {vault.keys_named}"


def _print_advice(vault: Vault, counts: Mapping[int | None, int]) -> None:
    if vault.count > 1 and not any(counts[at] for at in range(2, vault.count + 1)):
        say(f"all keys but the first can be removed from {vault.source}")
