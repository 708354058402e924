"""The doctor checks database rights, the broker and files, with real servers."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

from headway.cli.doctor_checks import examine_server, judge_broker
from headway.clock import SystemClock
from headway.runners.broker_probe import BrokerFacts
from headway.runners.valkey import EmbeddedValkey
from headway.store.migrate import upgrade
from headway.store.pool import open_pool
from headway.store.server.embedded import EmbeddedServer
from headway.store.server.probe import probe

Headway = Callable[..., Any]
Execute = Callable[..., None]
ROLE, OTHER = "shop_owner", "shop_guest"


def findings(result: Any, subject: str) -> list[tuple[str, str]]:
    lines = result.object()["lines"]
    return [(line["verdict"], line["finding"]) for line in lines if line["subject"] == subject]


@pytest.fixture
def as_role(postgres: EmbeddedServer, execute: Execute, database: str) -> Iterator[Any]:
    """Make a role, and return the address of this test's database for it."""
    created: list[str] = []

    def make(name: str) -> str:
        execute(f"CREATE ROLE {name} LOGIN PASSWORD 'pass'")
        created.append(name)
        return make_conninfo(database, user=name, password="pass")

    yield make
    for name in reversed(created):
        execute(f"DROP OWNED BY {name} CASCADE")
        execute(f"DROP ROLE {name}")


@pytest.fixture
def owned(as_role: Any, execute: Execute) -> str:
    """Make an ordinary role the owner of this test's tables."""
    dsn = str(as_role(ROLE))
    execute("DROP SCHEMA public CASCADE")
    execute(f"CREATE SCHEMA public AUTHORIZATION {ROLE}")
    execute(f"GRANT headway_seller TO {ROLE}")
    with open_pool(dsn, size=1) as pool:
        upgrade(pool, SystemClock())
    return dsn


def test_an_ordinary_role_that_owns_its_tables_is_ok(on_database: Headway, owned: str) -> None:
    result = on_database("doctor", "--json", DATABASE_URL=owned)
    assert result.code == 0, result.out
    ((verdict, finding),) = findings(result, "rights")
    assert (verdict, "tenant isolation works" in finding) == ("ok", True)
    assert findings(result, "connection") == [("ok", "nothing stands between us and the server")]


def test_a_superuser_gets_a_warning(on_database: Headway) -> None:
    ((verdict, finding),) = findings(on_database("doctor", "--json"), "rights")
    assert (verdict, "headway is a superuser" in finding) == ("warn", True)
    assert "CREATE ROLE headway LOGIN" in finding


def test_a_role_without_rights_learns_which_user_to_use(
    on_database: Headway, owned: str, as_role: Any, execute: Execute
) -> None:
    guest = as_role(OTHER)
    result = on_database("doctor", "--json", DATABASE_URL=guest)
    (verdict, finding), *_ = findings(result, "rights")
    assert (result.code, verdict) == (1, "fail")
    assert f"{OTHER} may use no schema" in finding
    assert "connect as the user who ran headway db upgrade" in finding
    assert findings(result, "migrations") == [], "what it cannot see is not missing"
    execute(f"GRANT USAGE ON SCHEMA public TO {OTHER}")
    (_, finding), *_ = findings(on_database("doctor", "--json", DATABASE_URL=guest), "rights")
    assert f"{OTHER} cannot use" in finding
    execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {OTHER}")
    (verdict, policies), *_ = findings(
        on_database("doctor", "--json", DATABASE_URL=guest), "rights"
    )
    assert (verdict, "product_sync_schedule" in policies or "access_keys" in policies) == (
        "fail",
        True,
    )


def test_missing_rights_are_named_with_the_grant_to_run(
    on_database: Headway, owned: str, execute: Execute, database: str
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    execute(f"REVOKE headway_seller FROM {ROLE}")
    execute(f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC")
    execute(f"REVOKE CREATE ON SCHEMA public FROM {ROLE}")
    result = on_database("doctor", "--json", DATABASE_URL=owned)
    rights = findings(result, "rights")
    assert [verdict for verdict, _ in rights] == ["fail", "fail", "warn"]
    assert f"GRANT headway_seller TO {ROLE}" in rights[0][1]
    assert "GRANT TEMPORARY ON DATABASE" in rights[1][1]
    assert "GRANT CREATE ON SCHEMA" in rights[2][1]


def test_a_server_with_few_free_connections_gets_a_warning(pool: ConnectionPool) -> None:
    probed = probe(pool)
    assert 2 <= probed.connections < probed.connections_max
    full = replace(probed, connections_max=probed.connections)
    assert [check.verdict for check in examine_server(probed, "")] == ["ok", "ok"]
    *_, last = examine_server(full, "")
    assert (last.verdict, "put pgbouncer in transaction mode between" in last.finding) == (
        "warn",
        True,
    )


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey(tmp_path_factory.mktemp("valkey"), clock=SystemClock()) as server:
        yield server


def test_a_broker_that_evicts_messages_gets_a_warning(
    on_database: Headway, valkey: EmbeddedValkey
) -> None:
    result = on_database("doctor", "--json", HEADWAY_BROKER_URL=valkey.url)
    assert result.code == 0, result.out
    ((verdict, finding),) = findings(result, "broker")
    assert (verdict, finding.startswith("Valkey ")) == ("ok", True)
    assert "comes again after 600 s" in finding
    ((verdict, finding),) = findings(result, "secret key")
    assert (verdict, "set HEADWAY_SECRET_KEY, the same on all" in finding) == ("warn", True)
    with valkey.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 10_000)
        try:
            result = on_database("doctor", "--json", HEADWAY_BROKER_URL=valkey.url)
        finally:
            client.config_set("maxmemory", 0)
            client.config_set("maxmemory-policy", "noeviction")
    (_, policy), (_, memory) = findings(result, "broker")
    assert (result.code, "allkeys-lru" in policy) == (0, True)
    assert "CONFIG SET maxmemory-policy noeviction" in policy
    assert "of its memory is used" in memory


def test_a_replica_and_a_denied_info_command_are_reported(
    on_database: Headway, valkey: EmbeddedValkey
) -> None:
    with valkey.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            result = on_database("doctor", "--json", HEADWAY_BROKER_URL=valkey.url)
        finally:
            client.execute_command("REPLICAOF", "NO", "ONE")
        ((verdict, finding),) = findings(result, "broker")
        assert (result.code, verdict, "a replica" in finding) == (1, "fail", True)
        client.acl_setuser(
            "worker", enabled=True, passwords=["+hunter2"], keys=["*"], commands=["+@all", "-info"]
        )
    url = valkey.url.replace(valkey.url.partition("@")[0], "redis://worker:hunter2")
    result = on_database("doctor", "--json", HEADWAY_BROKER_URL=url)
    ((verdict, finding),) = findings(result, "broker")
    assert (result.code, verdict, "may not run INFO" in finding) == (0, "warn", True)
    wrong = on_database("doctor", "--json", HEADWAY_BROKER_URL=url.replace("hunter2", "hunter3"))
    ((verdict, finding),) = findings(wrong, "broker")
    assert (wrong.code, verdict, "hunter" in wrong.out) == (1, "fail", False)
    assert "correct HEADWAY_BROKER_URL" in finding


@pytest.mark.parametrize(
    ("facts", "message"),
    (
        ({"version": "5.0.14"}, "older than 6.2"),
        ({"version": "7.2.4", "is_cluster": True}, "a cluster, which Celery cannot use"),
    ),
)
def test_a_broker_that_celery_cannot_use_is_reported(facts: dict[str, Any], message: str) -> None:
    (line,) = judge_broker(BrokerFacts(name="Redis", policy="noeviction", **facts))
    assert message in line.finding


def test_a_broker_without_celery_names_the_package_to_install(
    on_database: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "celery", None)
    result = on_database("doctor", "--json", HEADWAY_BROKER_URL="redis://127.0.0.1:9/0")
    ((verdict, finding),) = findings(result, "broker")
    assert (result.code, verdict) == (1, "fail")
    assert "pip install 'headway[scale]'" in finding


def test_without_a_broker_nothing_is_missing(on_database: Headway) -> None:
    ((verdict, finding),) = findings(on_database("doctor", "--json"), "broker")
    assert (verdict, "headway run needs none" in finding) == ("ok", True)


def test_files_that_others_can_read_are_reported_with_the_command_to_run(
    on_database: Headway, tmp_path: Path
) -> None:
    folder = tmp_path / "none"
    folder.mkdir(mode=0o700)
    (folder / "secret.key").touch(mode=0o600)
    result = on_database("doctor", "--json")
    assert [findings(result, subject)[0][0] for subject in ("folder", "secret key")] == ["ok", "ok"]
    folder.chmod(0o755)
    (folder / "secret.key").chmod(0o640)
    result = on_database("doctor", "--json")
    assert result.code == 1
    assert findings(result, "folder")[0][1].endswith(f"run: chmod go-rwx {folder}")
    ((verdict, finding),) = findings(result, "secret key")
    assert (verdict, finding.endswith(f"run: chmod 600 {folder}/secret.key")) == ("fail", True)


def test_a_standby_server_is_reported(
    on_database: Headway, pool: ConnectionPool, database: str
) -> None:
    dsn = make_conninfo(database, options="-c default_transaction_read_only=on")
    result = on_database("doctor", "--json", DATABASE_URL=dsn)
    ((verdict, finding),) = findings(result, "writing")
    assert (result.code, verdict) == (1, "fail")
    assert "point DATABASE_URL at the primary" in finding


def test_accounts_alone_need_no_supplier_and_no_shop(
    on_database: Headway, execute: Execute
) -> None:
    before = on_database("doctor", "--json")
    assert [verdict for verdict, _ in findings(before, "supplier")] == ["warn"]
    assert [verdict for verdict, _ in findings(before, "shops")] == ["warn"]
    for shop, status in (("101", "connected"), ("102", "disconnected")):
        execute(
            "INSERT INTO connected_accounts (user_id, platform, shop, status, reason)"
            " VALUES (%s, 'etsy', %s, %s, 'the seller left')",
            *(f"seller-{shop}", shop, status),
        )
    result = on_database("doctor", "--json")
    assert findings(result, "supplier") == [("ok", "none is set up; only accounts are read")]
    assert findings(result, "shops") == []
    assert findings(result, "shopify") == [], "no account is there"
    assert findings(result, "accounts") == [("warn", "1 of 2 connected (2 etsy)")]
    assert findings(result, "102") == [
        ("warn", "etsy shop of seller-102 is disconnected: the seller left")
    ]
    status = on_database("status").out
    assert "none is set up; only accounts are read" in status
    assert "next call" not in status
    assert "connect one with" not in status
    execute(
        "INSERT INTO suppliers (name, client_id, username, created_at)"
        " VALUES ('east', 'id', 'user', now())"
    )
    after = on_database("doctor", "--json")
    assert [verdict for verdict, _ in findings(after, "supplier")] == ["warn"]
    assert "next call" in on_database("status").out
