"""Added suppliers and their logins, and one fetch for all suppliers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from headway.app import App
from headway.app.providers import (
    has_main_login,
    login_key,
    main_limit_key,
    shared_vault,
    supplier_key,
)
from headway.clock import Clock, fresh_id
from headway.core.catalog.listings import MAIN, SupplierName, Wait
from headway.core.dispatch import WorkerState
from headway.engine.fetch import Fetch
from headway.engine.fetch_all import FetchAll
from headway.errors import ConfigError, ConflictError, InvalidError
from headway.providers.provider import SupplierSetup
from headway.providers.registry import main_supplier, supplier_role
from headway.providers.tokens import NEVER
from headway.store.accounts.credentials import Credentials
from headway.store.catalog.suppliers import SupplierRow, Suppliers
from headway.store.pool import Lent, guarded

LEASE = timedelta(seconds=30)
# The number of suppliers that a process without workers may wait for at once.
HANDS = 4
NO_LOGIN_WAIT = timedelta(minutes=1)
NO_LOGIN = (
    "No credentials of the supplier are set, so no part is read; accounts are. What is missing:"
    " headway doctor"
)


def add_supplier(app: App, name: SupplierName, setup: SupplierSetup) -> bool:
    """Store a supplier and, encrypted, its secrets; return True if it is new.

    Raises InvalidError for a setup that cannot work, and ConflictError for a credential that
    another supplier has; then nothing is stored.
    """
    setup = _prepared(app, setup)
    row = SupplierRow(
        name=name,
        client_id=setup.client_id,
        username=setup.username,
        url=setup.url,
        kind=setup.kind,
        options=setup.options,
    )
    if supplier_key(row) == main_limit_key(app.settings):
        raise ConflictError(f"{row.client_id} is the client id of {MAIN}; one limit binds both")
    vault, now = shared_vault(app.settings), app.clock.now()
    with guarded(), app.pool.connection() as connection, connection.transaction():
        is_new = Suppliers(Lent(connection)).add(row, now=now)
        token_store, limit_key, owner = Credentials(Lent(connection)), login_key(name), fresh_id()
        if not token_store.begin_refresh(limit_key, owner=owner, now=now, lease_until=now + LEASE):
            raise ConflictError(f"somebody else is changing {name}; try again in a minute")
        for field, text in setup.secrets.items():
            token_store.save(
                limit_key, field, secret=vault.encrypt(text), expires_at=NEVER, owner=owner
            )
        token_store.end_refresh(limit_key, owner=owner)
    return is_new


def _prepared(app: App, setup: SupplierSetup) -> SupplierSetup:
    """Return the setup as its provider completes it; raises InvalidError."""
    main, _ = main_supplier()
    if setup.kind == main.name:
        setup = replace(setup, kind="")
    try:
        return supplier_role(setup.kind or main.name).prepare(app.settings, setup)
    except ConfigError as error:
        raise InvalidError(str(error)) from None


def remove_supplier(app: App, name: SupplierName) -> None:
    """Forget a supplier and its secrets; raises NotFoundError, and ConflictError if it is used."""
    with guarded(), app.pool.connection() as connection, connection.transaction():
        Suppliers(Lent(connection)).remove(name, now=app.clock.now())
        Credentials(Lent(connection)).forget(login_key(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoLogin:
    """Takes the place of a fetch while no credential of a supplier is set: nothing is read."""

    clock: Clock

    def step(self) -> Wait:
        """Wait: settings are read at the start."""
        return Wait(until=self.clock.now() + NO_LOGIN_WAIT, why=NO_LOGIN)

    def detach(self) -> None:
        """Return nothing: there is no work in progress."""

    def resume(self, state: WorkerState) -> None:
        """Drop it: the process that began it had a login."""


def new_fetch(
    app: App, name: SupplierName, owner: str, *, wake_push: Callable[[], None] = lambda: None
) -> Fetch | NoLogin:
    """Make the fetch of a supplier; raises ConfigError for a wrong login."""
    if name == MAIN and not has_main_login(app.settings):
        return NoLogin(clock=app.clock)
    return app.for_supplier(name).fetch(owner, wake_push=wake_push)


def fetch_all_suppliers(app: App, owner: str, *, wake_push: Callable[[], None]) -> FetchAll:
    """Make one fetch for all suppliers; raises ConfigError for a wrong login of `main`."""
    fetches = {MAIN: new_fetch(app, MAIN, owner, wake_push=wake_push)}

    def next_fetch(name: SupplierName) -> Fetch | NoLogin:
        return fetches.pop(name, None) or new_fetch(app, name, owner, wake_push=wake_push)

    return FetchAll(clock=app.clock, names=Suppliers(app.pool).names, new_fetch=next_fetch)
