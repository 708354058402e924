"""The database checks of `headway doctor`: version, connection, and the rights of our role."""

from collections.abc import Iterator

from headway.cli.doctor_shops import FAIL, OK, WARN, ShopCheck
from headway.store.access.isolation import ROLE
from headway.store.server.probe import Pooling, RoleRights, ServerFacts

NAMED_MAX = 3
FULL_SHARE = 0.8
CONNECT = "connect as the user who ran headway db upgrade"
MEND = "set pool_mode = transaction there"
WAYS = {
    Pooling.NONE: (OK, "nothing stands between us and the server"),
    Pooling.TRANSACTION: (OK, "through a pooler in transaction mode, as it should be"),
    Pooling.SESSION: (
        WARN,
        f"through a pooler in session mode, which keeps a connection for each of ours; {MEND}",
    ),
    Pooling.STATEMENT: (
        FAIL,
        f"through a pooler in statement mode, which allows no transactions; {MEND}",
    ),
}


def examine_server(server: ServerFacts, place: str) -> Iterator[ShopCheck]:
    """Yield the checks of the server: version, connection, and whether it accepts writes."""
    where = f"{server.place} as {server.user} ({place})"
    yield ShopCheck(
        subject="database", verdict=OK, finding=f"PostgreSQL {server.version} at {where}"
    )
    if server.is_read_only:
        finding = "the server takes no writes (a standby?); point DATABASE_URL at the primary"
        yield ShopCheck(subject="writing", verdict=FAIL, finding=finding)
    verdict, finding = WAYS[server.pooling]
    yield ShopCheck(subject="connection", verdict=verdict, finding=finding)
    if server.connections > FULL_SHARE * server.connections_max:
        taken = f"{server.connections} of the server's {server.connections_max} are taken"
        advice = "raise max_connections, or put pgbouncer in transaction mode between"
        yield ShopCheck(subject="connection", verdict=WARN, finding=f"{taken}; {advice}")


def examine_rights(rights: RoleRights, user: str, *, is_own: bool) -> Iterator[ShopCheck]:
    """Yield the rights that our role lacks, and those it should not have.

    The embedded database is ours alone, so any role is fine there.
    """
    troubles = list(_troubles(rights, user))
    if rights.bypasses_row_policies and not is_own:
        finding = (
            f"{user} is a superuser, or passes by row-level security; give headway a role of its"
            " own: CREATE ROLE headway LOGIN; CREATE DATABASE headway OWNER headway"
        )
        troubles.append(ShopCheck(subject="rights", verdict=WARN, finding=finding))
    if rights.has_row_policies and not troubles:
        finding = "this role may do what it needs to, and the wall between sellers holds"
        yield ShopCheck(subject="rights", verdict=OK, finding=finding)
    yield from troubles


def _troubles(rights: RoleRights, user: str) -> Iterator[ShopCheck]:
    if not rights.has_schema:
        finding = f"{user} may use no schema that it looks in; {CONNECT}"
        yield ShopCheck(subject="rights", verdict=FAIL, finding=finding)
        return
    if rights.closed:
        named = ", ".join(rights.closed[:NAMED_MAX])
        finding = f"{user} cannot use {len(rights.closed)} tables in full ({named}, ...); {CONNECT}"
        yield ShopCheck(subject="rights", verdict=FAIL, finding=finding)
    elif rights.has_row_policies is False:
        why = "" if rights.may_be_seller else f"; let an administrator run: GRANT {ROLE} TO {user}"
        finding = f"the wall between sellers does not hold, so pages stay closed to them{why}"
        yield ShopCheck(subject="rights", verdict=FAIL, finding=finding)
    if not rights.may_make_temporary:
        finding = f"imports need: GRANT TEMPORARY ON DATABASE ... TO {user}"
        yield ShopCheck(subject="rights", verdict=FAIL, finding=finding)
    if not rights.may_create:
        finding = f"headway db upgrade needs: GRANT CREATE ON SCHEMA ... TO {user}"
        yield ShopCheck(subject="rights", verdict=WARN, finding=finding)
