"""Suppliers beside the settings': what they sign in with, and one hand on the lines of all."""

from collections.abc import Callable
from datetime import timedelta

from headway.app import App
from headway.app.providers import login_key, shared_vault
from headway.clock import fresh_id
from headway.core.catalog.listings import MAIN, SupplierName
from headway.engine.fetch import Fetch
from headway.engine.fetch_all import FetchAll
from headway.errors import ConfigError, ConflictError, InvalidError
from headway.providers.boeing.client import BoeingAccess, check_access
from headway.providers.tokens import NEVER
from headway.store.accounts.credentials import Credentials
from headway.store.catalog.suppliers import SupplierRow, Suppliers
from headway.store.pool import Lent, guarded

LEASE = timedelta(seconds=30)
# So many suppliers a process without workers may wait for at once.
HANDS = 4


def add_supplier(app: App, name: SupplierName, access: BoeingAccess, *, url: str = "") -> bool:
    """Keep a supplier and, encrypted, what we sign in with there; return whether it is new.

    Raises InvalidError for a sign-in that cannot be one, and ConflictError for one that another
    supplier has; then nothing is kept.
    """
    try:
        check_access(url or app.settings.boeing_url, access, called=lambda field: field)
    except ConfigError as error:
        raise InvalidError(str(error)) from None
    if access.client_id == app.settings.boeing_client_id:
        raise ConflictError(f"{access.client_id} is the client id of {MAIN}; one limit binds both")
    row = SupplierRow(name=name, client_id=access.client_id, username=access.username, url=url)
    vault, now = shared_vault(app.settings), app.clock.now()
    secrets = {"client_secret": access.client_secret, "password": access.password}
    with guarded(), app.pool.connection() as connection, connection.transaction():
        is_new = Suppliers(Lent(connection)).add(row, now=now)
        shelf, limit_key, owner = Credentials(Lent(connection)), login_key(name), fresh_id()
        if not shelf.begin_refresh(limit_key, owner=owner, now=now, lease_until=now + LEASE):
            raise ConflictError(f"somebody else is changing {name}; try again in a minute")
        for field, text in secrets.items():
            shelf.save(limit_key, field, secret=vault.encrypt(text), expires_at=NEVER, owner=owner)
        shelf.end_refresh(limit_key, owner=owner)
    return is_new


def remove_supplier(app: App, name: SupplierName) -> None:
    """Forget a supplier and its secrets; raises NotFoundError, and ConflictError if it is used."""
    with guarded(), app.pool.connection() as connection, connection.transaction():
        Suppliers(Lent(connection)).remove(name, now=app.clock.now())
        Credentials(Lent(connection)).forget(login_key(name))


def fetch_all_suppliers(app: App, owner: str, *, wake_push: Callable[[], None]) -> FetchAll:
    """Make one hand on every supplier's line; raises ConfigError for a wrong sign-in of `main`."""
    fetches = {MAIN: app.fetch(owner, wake_push=wake_push)}

    def new_fetch(name: SupplierName) -> Fetch:
        return fetches.pop(name, None) or app.for_supplier(name).fetch(owner, wake_push=wake_push)

    return FetchAll(clock=app.clock, names=Suppliers(app.pool).names, new_fetch=new_fetch)
