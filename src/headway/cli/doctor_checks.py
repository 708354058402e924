"""The checks of `headway doctor`: shops, the database and its role, processes, the broker."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from headway import __version__
from headway.app import App
from headway.app.agreement import agreement, disagreements
from headway.app.providers import has_keys, shared_vault, token_key_of
from headway.config import Settings
from headway.core.dispatch import STOREFRONT
from headway.errors import BrokerError, HeadwayError
from headway.operations.shops import missing_scopes, scope_advice
from headway.operations.status import look
from headway.providers.access_scopes import list_scopes
from headway.providers.registry import installed, platform_role
from headway.providers.tokens import ACCESS, CLIENT, NEVER, REFRESH
from headway.store.access.isolation import ROLE
from headway.store.accounts.connections import ConnectedShop, ConnectedShops
from headway.store.accounts.credentials import Credential, Credentials
from headway.store.monitoring.processes import Process, Processes
from headway.store.server.probe import Pooling, RoleRights, ServerFacts

if TYPE_CHECKING:
    from headway.runners.broker_probe import BrokerFacts

OK, WARN, FAIL = "ok", "warn", "fail"
SUPPLIER = "supplier"
TROUBLED_MAX = 10
SHOPS_NAMED_MAX = 3
TOKENS = frozenset({ACCESS, REFRESH, CLIENT})


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorCheck:
    """The result of one check, and what to do if it failed."""

    subject: str
    verdict: str
    finding: str


def examine_shops(app: App) -> Iterator[DoctorCheck]:
    """Look at every shop: one line for all that are well, one for each that is not."""
    shops = ConnectedShops(app.pool).list(STOREFRONT)
    if not shops and look(app).is_accounts_only:
        return  # nothing is written, so no shop is needed
    if not shops:
        finding = "none is connected; run: headway connect SHOP --seller SELLER"
        yield DoctorCheck(subject="shops", verdict=WARN, finding=finding)
        return
    troubled = [line for shop in shops for line in _examine(app, shop)]
    connected = sum(shop.status == "connected" for shop in shops)
    finding = f"{connected:,} of {len(shops):,} connected"
    yield DoctorCheck(subject="shops", verdict=OK if connected else WARN, finding=finding)
    yield from _unknown_lifetimes(app, shops)
    yield from troubled[:TROUBLED_MAX]
    if len(troubled) > TROUBLED_MAX:
        finding = f"and {len(troubled) - TROUBLED_MAX:,} more findings; see: headway shops"
        yield DoctorCheck(subject="shops", verdict=WARN, finding=finding)


def examine_accounts(app: App) -> Iterator[DoctorCheck]:
    """Count the accounts that are only read, and name those that are disconnected."""
    accounts = [shop for shop in ConnectedShops(app.pool).list() if shop.platform != STOREFRONT]
    if not accounts:
        return
    lost = [account for account in accounts if account.status != "connected"]
    platforms = Counter(account.platform for account in accounts)
    named = ", ".join(f"{count:,} {platform}" for platform, count in sorted(platforms.items()))
    finding = f"{len(accounts) - len(lost):,} of {len(accounts):,} connected ({named})"
    yield DoctorCheck(subject="accounts", verdict=WARN if lost else OK, finding=finding)
    for account in lost[:TROUBLED_MAX]:
        finding = f"{account.platform} shop of {account.seller} is disconnected: {account.reason}"
        yield DoctorCheck(subject=account.shop, verdict=WARN, finding=finding)
    if len(lost) > TROUBLED_MAX:
        finding = f"and {len(lost) - TROUBLED_MAX:,} more are disconnected; see: headway shops"
        yield DoctorCheck(subject="accounts", verdict=WARN, finding=finding)


def examine_supplier(app: App) -> Iterator[DoctorCheck]:
    """Say that a supplier is not needed where only accounts are read."""
    if look(app).is_accounts_only:
        finding = "none is set up; only accounts are read"
        yield DoctorCheck(subject=SUPPLIER, verdict=OK, finding=finding)


def _unknown_lifetimes(app: App, shops: Sequence[ConnectedShop]) -> Iterator[DoctorCheck]:
    """Name the shops whose token was entered alone: it may end, and cannot be renewed."""
    lone = [
        shop.shop
        for shop in shops
        if shop.status == "connected"
        and [(token.name, token.expires_at) for token in _alive_tokens(app, shop)]
        == [(ACCESS, NEVER)]
    ]
    if lone:
        named = ", ".join(lone[:SHOPS_NAMED_MAX]) + (", ..." if len(lone) > SHOPS_NAMED_MAX else "")
        note = platform_role(STOREFRONT).tokens.lifetime_note
        finding = f"{len(lone):,} with a token that was entered alone ({named}); {note}"
        yield DoctorCheck(subject="tokens", verdict=OK, finding=finding)


def examine_providers(app: App) -> Iterator[DoctorCheck]:
    """Yield what a provider warns of, such as an API version whose support ends."""
    overview = look(app)
    used = {shop.platform for shop in ConnectedShops(app.pool).list()}
    for name, registered in sorted(installed().providers.items()):
        if overview.is_accounts_only and name not in used:
            continue
        if warning := registered.provider.warning(app.settings, app.clock.now()):
            yield DoctorCheck(subject=name, verdict=WARN, finding=warning)


def _examine(app: App, account: ConnectedShop) -> Iterator[DoctorCheck]:
    connect = f"run: headway connect {account.shop} --seller {account.seller}"
    if account.status != "connected":
        finding = f"disconnected ({account.reason}), so nothing is written there; {connect}"
        yield DoctorCheck(subject=account.shop, verdict=WARN, finding=finding)
        return
    lacking = _find_token_trouble(app, account)
    if lacking:
        yield DoctorCheck(subject=account.shop, verdict=FAIL, finding=f"{lacking}; {connect}")
    if account.locations is None:
        finding = "its locations were not read yet; a running headway does it with its first push"
        yield DoctorCheck(subject=account.shop, verdict=WARN, finding=finding)
        return
    if lacking_scopes := missing_scopes(app, account):
        advice = scope_advice(app, account)
        finding = f"has not granted {list_scopes(lacking_scopes)}; {advice}"
        yield DoctorCheck(subject=account.shop, verdict=WARN, finding=finding)
    terms = app.sellers.settings({account.seller}, app.clock.now())[account.seller].terms
    unknown = sorted(set(terms.locations.values()) - set(account.locations))
    if unknown:
        finding = (
            f"has no location named {', '.join(unknown)}, so stock there is not sold; name it so in"
            " the shop, or change HEADWAY_LOCATIONS or the seller's own (headway terms)"
        )
        yield DoctorCheck(subject=account.shop, verdict=WARN, finding=finding)


def _find_token_trouble(app: App, account: ConnectedShop) -> str:
    """Return what is wrong with a shop's tokens, if anything; never creates a key."""
    settings = app.settings
    alive = _alive_tokens(app, account)
    if not alive:
        return "there is no token for it that still works"
    if not has_keys(settings):
        return f"the key to its token is missing from {settings.data_dir.expanduser()}"
    try:
        shared_vault(settings).decrypt(alive[0].secret)
    except HeadwayError as error:
        return f"its token cannot be read ({error})"
    return ""


def _alive_tokens(app: App, account: ConnectedShop) -> list[Credential]:
    key = token_key_of(app.settings, account.platform, account.shop)
    stored, now = Credentials(app.pool).load(key), app.clock.now()
    return [token for token in stored if token.name in TOKENS and token.expires_at > now]


GRANTS_NAMED_MAX = 3
CONNECTIONS_FULL_SHARE = 0.8
CONNECT = "connect as the user who ran headway db upgrade"
FIX = "set pool_mode = transaction there"
WAYS = {
    Pooling.NONE: (OK, "nothing stands between us and the server"),
    Pooling.TRANSACTION: (OK, "through a pooler in transaction mode, as it should be"),
    Pooling.SESSION: (
        WARN,
        f"through a pooler in session mode, which keeps a connection for each of ours; {FIX}",
    ),
    Pooling.STATEMENT: (
        FAIL,
        f"through a pooler in statement mode, which allows no transactions; {FIX}",
    ),
}


def examine_server(server: ServerFacts, place: str) -> Iterator[DoctorCheck]:
    """Yield the checks of the server: version, connection, and whether it accepts writes."""
    where = f"{server.place} as {server.user} ({place})"
    yield DoctorCheck(
        subject="database", verdict=OK, finding=f"PostgreSQL {server.version} at {where}"
    )
    if server.is_read_only:
        finding = "the server takes no writes (a standby?); point DATABASE_URL at the primary"
        yield DoctorCheck(subject="writing", verdict=FAIL, finding=finding)
    verdict, finding = WAYS[server.pooling]
    yield DoctorCheck(subject="connection", verdict=verdict, finding=finding)
    if server.connections > CONNECTIONS_FULL_SHARE * server.connections_max:
        taken = f"{server.connections} of the server's {server.connections_max} are taken"
        advice = "raise max_connections, or put pgbouncer in transaction mode between"
        yield DoctorCheck(subject="connection", verdict=WARN, finding=f"{taken}; {advice}")


def examine_rights(rights: RoleRights, user: str, *, is_own: bool) -> Iterator[DoctorCheck]:
    """Yield the rights that our role lacks, and those it should not have.

    The embedded database is ours alone, so any role is fine there.
    """
    troubles = list(_rights_troubles(rights, user))
    if rights.bypasses_row_policies and not is_own:
        finding = (
            f"{user} is a superuser, or passes by row-level security; give headway a role of its"
            " own: CREATE ROLE headway LOGIN; CREATE DATABASE headway OWNER headway"
        )
        troubles.append(DoctorCheck(subject="rights", verdict=WARN, finding=finding))
    if rights.has_row_policies and not troubles:
        finding = "this role may do what it needs to, and tenant isolation works"
        yield DoctorCheck(subject="rights", verdict=OK, finding=finding)
    yield from troubles


def _rights_troubles(rights: RoleRights, user: str) -> Iterator[DoctorCheck]:
    if not rights.has_schema:
        finding = f"{user} may use no schema that it looks in; {CONNECT}"
        yield DoctorCheck(subject="rights", verdict=FAIL, finding=finding)
        return
    if rights.closed:
        named = ", ".join(rights.closed[:GRANTS_NAMED_MAX])
        finding = f"{user} cannot use {len(rights.closed)} tables in full ({named}, ...); {CONNECT}"
        yield DoctorCheck(subject="rights", verdict=FAIL, finding=finding)
    elif rights.has_row_policies is False:
        why = "" if rights.may_be_seller else f"; let an administrator run: GRANT {ROLE} TO {user}"
        finding = f"tenant isolation does not work, so pages stay closed to sellers{why}"
        yield DoctorCheck(subject="rights", verdict=FAIL, finding=finding)
    if not rights.may_make_temporary:
        finding = f"imports need: GRANT TEMPORARY ON DATABASE ... TO {user}"
        yield DoctorCheck(subject="rights", verdict=FAIL, finding=finding)
    if not rights.may_create:
        finding = f"headway db upgrade needs: GRANT CREATE ON SCHEMA ... TO {user}"
        yield DoctorCheck(subject="rights", verdict=WARN, finding=finding)


APART_WARN_MS = 2000
PROCESSES_NAMED_MAX = 5


def examine_processes(app: App) -> Iterator[DoctorCheck]:
    """Yield the checks of the processes on this database: versions, settings and clocks."""
    alive = Processes(app.pool).alive()
    yield DoctorCheck(subject="processes", verdict=OK, finding=_process_counts(alive))
    if others := sorted({process.version for process in alive} - {__version__}):
        finding = f"some run headway {', '.join(others)}, here is {__version__}; upgrade them too"
        yield DoctorCheck(subject="processes", verdict=WARN, finding=finding)
    for name, differing in disagreements(agreement(app.settings), alive).items():
        finding = (
            f"{name} has other settings than here: {', '.join(differing)}; two deployments on one"
            " database? give each its own, or all the same settings"
        )
        yield DoctorCheck(subject="processes", verdict=FAIL, finding=finding)
    for process in alive:
        if abs(process.clock_ahead_ms) > APART_WARN_MS:
            finding = (
                f"the clock of {process.host} is {process.clock_ahead_ms / 1000:+.1f} s off the"
                " database's; due times drift there; run a time service"
            )
            yield DoctorCheck(subject="clock", verdict=WARN, finding=finding)


def _process_counts(alive: Sequence[Process]) -> str:
    if not alive:
        return "none runs on this database now"
    counts = Counter((process.host, process.verb) for process in alive)
    named = [f"{count} {verb} on {host}" for (host, verb), count in sorted(counts.items())]
    more = len(named) - PROCESSES_NAMED_MAX
    return ", ".join(named[:PROCESSES_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


EXTRA = ("celery", "redis")
KEPT = "noeviction"
# The oldest version that redis-py and Celery still test with.
VERSION_MIN = (6, 2)
MEMORY_FULL_SHARE = 0.8


def examine_broker(settings: Settings) -> Iterator[DoctorCheck]:
    """Look at the broker, where one is set."""
    if settings.broker_url is None:
        yield _broker_check(
            OK, "none is set; headway run needs none, headway worker HEADWAY_BROKER_URL"
        )
        return
    if any(find_spec(package) is None for package in EXTRA):
        advice = "install them: pip install 'headway[scale]'"
        yield _broker_check(
            FAIL, f"HEADWAY_BROKER_URL is set, but Celery or redis-py is missing; {advice}"
        )
        return
    from headway.runners.broker_probe import probe_broker

    if settings.database_url is None:
        advice = "set DATABASE_URL to a PostgreSQL that all workers reach"
        yield _broker_check(WARN, f"workers cannot share the embedded database; {advice}")
    try:
        facts = probe_broker(settings.broker_url.get_secret_value())
    except BrokerError as error:
        yield _broker_check(
            FAIL, f"{error}; start Redis or Valkey there, or correct HEADWAY_BROKER_URL"
        )
        return
    yield from judge_broker(facts)


def judge_broker(facts: "BrokerFacts") -> Iterator[DoctorCheck]:
    """Yield the checks of a broker; persistence is not needed."""
    what = f"{facts.name} {facts.version}"
    if facts.is_silent:
        finding = f"{what} answers, but its user may not run INFO; see there that"
        yield _broker_check(WARN, f"{finding} maxmemory-policy is {KEPT}")
        return
    troubles = list(_broker_troubles(facts))
    if not troubles:
        finding = f"{what}, {KEPT}; what nobody acknowledged comes again after"
        yield _broker_check(OK, f"{finding} {facts.visibility_timeout_s} s")
    yield from (_broker_check(verdict, f"{what}: {finding}") for verdict, finding in troubles)


def _broker_troubles(facts: "BrokerFacts") -> Iterator[tuple[str, str]]:
    if facts.is_replica:
        yield FAIL, "a replica, which takes no writes; point HEADWAY_BROKER_URL at the primary"
    if facts.is_cluster:
        yield FAIL, "a cluster, which Celery cannot use; a single one is enough, and may be small"
    if facts.policy != KEPT:
        advice = f"run there: CONFIG SET maxmemory-policy {KEPT}, then CONFIG REWRITE"
        dropped = f"drops messages when its memory is full ({facts.policy})"
        yield WARN, f"{dropped}; what it dropped is done up to 15 s late; {advice}"
    if facts.memory_max and facts.memory_used > MEMORY_FULL_SHARE * facts.memory_max:
        share = f"{facts.memory_used / facts.memory_max:.0%} of its memory is used"
        yield WARN, f"{share}; give it more, or see who else keeps things there"
    if facts.version_number < VERSION_MIN:
        yield WARN, f"older than {VERSION_MIN[0]}.{VERSION_MIN[1]}; upgrade it"


def _broker_check(verdict: str, finding: str) -> DoctorCheck:
    return DoctorCheck(subject="broker", verdict=verdict, finding=finding)
