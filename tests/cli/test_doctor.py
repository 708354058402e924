"""What the doctor says of a deployment: our rights, the broker, files; with real servers."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool

from headway.cli.doctor_broker import judge
from headway.cli.doctor_database import examine_server
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


def findings(done: Any, subject: str) -> list[tuple[str, str]]:
    lines = done.object()["lines"]
    return [(each["verdict"], each["finding"]) for each in lines if each["subject"] == subject]


@pytest.fixture
def as_role(postgres: EmbeddedServer, execute: Execute, database: str) -> Iterator[Any]:
    """Make a role, and return the address of this test's database for it."""
    made: list[str] = []

    def make(name: str) -> str:
        execute(f"CREATE ROLE {name} LOGIN PASSWORD 'pass'")
        made.append(name)
        return make_conninfo(database, user=name, password="pass")

    yield make
    for name in reversed(made):
        execute(f"DROP OWNED BY {name} CASCADE")
        execute(f"DROP ROLE {name}")


@pytest.fixture
def owned(as_role: Any, execute: Execute) -> str:
    """Let an ordinary role own this test's tables."""
    dsn = str(as_role(ROLE))
    execute("DROP SCHEMA public CASCADE")
    execute(f"CREATE SCHEMA public AUTHORIZATION {ROLE}")
    execute(f"GRANT headway_seller TO {ROLE}")
    with open_pool(dsn, size=1) as pool:
        upgrade(pool, SystemClock())
    return dsn


def test_an_ordinary_role_that_owns_its_tables_is_well(on_database: Headway, owned: str) -> None:
    done = on_database("doctor", "--json", DATABASE_URL=owned)
    assert done.code == 0, done.out
    ((verdict, finding),) = findings(done, "rights")
    assert (verdict, "the wall between sellers holds" in finding) == ("ok", True)
    assert findings(done, "connection") == [("ok", "nothing stands between us and the server")]


def test_a_superuser_is_warned_of(on_database: Headway) -> None:
    ((verdict, finding),) = findings(on_database("doctor", "--json"), "rights")
    assert (verdict, "headway is a superuser" in finding) == ("warn", True)
    assert "CREATE ROLE headway LOGIN" in finding


def test_a_role_without_rights_is_told_whom_to_be(
    on_database: Headway, owned: str, as_role: Any, execute: Execute
) -> None:
    guest = as_role(OTHER)
    done = on_database("doctor", "--json", DATABASE_URL=guest)
    (verdict, finding), *_ = findings(done, "rights")
    assert (done.code, verdict) == (1, "fail")
    assert f"{OTHER} may use no schema" in finding
    assert "connect as the user who ran headway db upgrade" in finding
    assert findings(done, "migrations") == [], "what it cannot see is not missing"
    execute(f"GRANT USAGE ON SCHEMA public TO {OTHER}")
    (_, finding), *_ = findings(on_database("doctor", "--json", DATABASE_URL=guest), "rights")
    assert f"{OTHER} cannot use" in finding
    execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {OTHER}")
    (verdict, hidden), *_ = findings(on_database("doctor", "--json", DATABASE_URL=guest), "rights")
    assert (verdict, "product_sync_schedule" in hidden or "access_keys" in hidden) == ("fail", True)


def test_rights_that_an_owner_lacks_are_named_with_the_grant(
    on_database: Headway, owned: str, execute: Execute, database: str
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    execute(f"REVOKE headway_seller FROM {ROLE}")
    execute(f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC")
    execute(f"REVOKE CREATE ON SCHEMA public FROM {ROLE}")
    done = on_database("doctor", "--json", DATABASE_URL=owned)
    found = findings(done, "rights")
    assert [verdict for verdict, _ in found] == ["fail", "fail", "warn"]
    assert f"GRANT headway_seller TO {ROLE}" in found[0][1]
    assert "GRANT TEMPORARY ON DATABASE" in found[1][1]
    assert "GRANT CREATE ON SCHEMA" in found[2][1]


def test_a_server_that_is_nearly_full_is_warned_of(pool: ConnectionPool) -> None:
    found = probe(pool)
    assert 2 <= found.connections < found.connections_max
    full = replace(found, connections_max=found.connections)
    assert [each.verdict for each in examine_server(found, "")] == ["ok", "ok"]
    *_, last = examine_server(full, "")
    assert (last.verdict, "put pgbouncer in transaction mode between" in last.finding) == (
        "warn",
        True,
    )


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedValkey]:
    with EmbeddedValkey(tmp_path_factory.mktemp("valkey"), clock=SystemClock()) as server:
        yield server


def test_a_broker_that_keeps_messages_is_well_and_one_that_drops_them_is_warned_of(
    on_database: Headway, valkey: EmbeddedValkey
) -> None:
    done = on_database("doctor", "--json", HEADWAY_BROKER_URL=valkey.url)
    assert done.code == 0, done.out
    ((verdict, finding),) = findings(done, "broker")
    assert (verdict, finding.startswith("Valkey ")) == ("ok", True)
    assert "comes again after 600 s" in finding
    ((verdict, finding),) = findings(done, "secret key")
    assert (verdict, "set HEADWAY_SECRET_KEY, the same on all" in finding) == ("warn", True)
    with valkey.client() as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("maxmemory", client.info("memory")["used_memory"] + 10_000)
        try:
            done = on_database("doctor", "--json", HEADWAY_BROKER_URL=valkey.url)
        finally:
            client.config_set("maxmemory", 0)
            client.config_set("maxmemory-policy", "noeviction")
    (_, policy), (_, memory) = findings(done, "broker")
    assert (done.code, "allkeys-lru" in policy) == (0, True)
    assert "CONFIG SET maxmemory-policy noeviction" in policy
    assert "of its memory is used" in memory


def test_a_broker_that_is_a_replica_or_may_not_be_asked_is_told_apart(
    on_database: Headway, valkey: EmbeddedValkey
) -> None:
    with valkey.client() as client:
        client.execute_command("REPLICAOF", "127.0.0.1", "1")
        try:
            done = on_database("doctor", "--json", HEADWAY_BROKER_URL=valkey.url)
        finally:
            client.execute_command("REPLICAOF", "NO", "ONE")
        ((verdict, finding),) = findings(done, "broker")
        assert (done.code, verdict, "a replica" in finding) == (1, "fail", True)
        client.acl_setuser(
            "worker", enabled=True, passwords=["+hunter2"], keys=["*"], commands=["+@all", "-info"]
        )
    url = valkey.url.replace(valkey.url.partition("@")[0], "redis://worker:hunter2")
    done = on_database("doctor", "--json", HEADWAY_BROKER_URL=url)
    ((verdict, finding),) = findings(done, "broker")
    assert (done.code, verdict, "may not run INFO" in finding) == (0, "warn", True)
    wrong = on_database("doctor", "--json", HEADWAY_BROKER_URL=url.replace("hunter2", "hunter3"))
    ((verdict, finding),) = findings(wrong, "broker")
    assert (wrong.code, verdict, "hunter" in wrong.out) == (1, "fail", False)
    assert "correct HEADWAY_BROKER_URL" in finding


@pytest.mark.parametrize(
    ("facts", "said"),
    (
        ({"version": "5.0.14"}, "older than 6.2"),
        ({"version": "7.2.4", "is_cluster": True}, "a cluster, which Celery cannot use"),
    ),
)
def test_a_broker_that_celery_does_not_fit_is_named(facts: dict[str, Any], said: str) -> None:
    (line,) = judge(BrokerFacts(name="Redis", policy="noeviction", **facts))
    assert said in line.finding


def test_a_broker_without_what_speaks_to_it_is_told_what_to_install(
    on_database: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "celery", None)
    done = on_database("doctor", "--json", HEADWAY_BROKER_URL="redis://127.0.0.1:9/0")
    ((verdict, finding),) = findings(done, "broker")
    assert (done.code, verdict) == (1, "fail")
    assert "pip install 'headway[scale]'" in finding


def test_without_a_broker_nothing_is_missing(on_database: Headway) -> None:
    ((verdict, finding),) = findings(on_database("doctor", "--json"), "broker")
    assert (verdict, "headway run needs none" in finding) == ("ok", True)


def test_files_that_others_may_read_are_named_with_what_to_run(
    on_database: Headway, tmp_path: Path
) -> None:
    folder = tmp_path / "none"
    folder.mkdir(mode=0o700)
    (folder / "secret.key").touch(mode=0o600)
    done = on_database("doctor", "--json")
    assert [findings(done, each)[0][0] for each in ("folder", "secret key")] == ["ok", "ok"]
    folder.chmod(0o755)
    (folder / "secret.key").chmod(0o640)
    done = on_database("doctor", "--json")
    assert done.code == 1
    assert findings(done, "folder")[0][1].endswith(f"run: chmod go-rwx {folder}")
    ((verdict, finding),) = findings(done, "secret key")
    assert (verdict, finding.endswith(f"run: chmod 600 {folder}/secret.key")) == ("fail", True)


def test_a_standby_is_told_from_the_primary(
    on_database: Headway, pool: ConnectionPool, database: str
) -> None:
    dsn = make_conninfo(database, options="-c default_transaction_read_only=on")
    done = on_database("doctor", "--json", DATABASE_URL=dsn)
    ((verdict, finding),) = findings(done, "writing")
    assert (done.code, verdict) == (1, "fail")
    assert "point DATABASE_URL at the primary" in finding
